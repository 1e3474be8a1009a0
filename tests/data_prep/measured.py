"""Everything that reads the content of a crawl, as functions of one text or of bytes: the input of the cost benchmark.

Filters, their rules, extractors and codecs are those of the project's own unions and tables, so they include
a new one; one that cannot be built without settings must be named in ``settings_of``.
"""

import io
import itertools
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tokenizers
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.decontamination.removal import masked
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.c4.lines import AnyC4Rule, C4Lines, page_text
from headrace.data_prep.filters.fasttext_model import language_model
from headrace.data_prep.filters.filter import Filter
from headrace.data_prep.filters.line_corrections import AnyCorrection
from headrace.data_prep.filters.page_filter import STATISTICS
from headrace.data_prep.filters.pii import AnyPiiKind
from headrace.data_prep.filters.punkt import count_sentences, sentences_of
from headrace.data_prep.filters.quality_rules import AnyFineWebRule, AnyQualityRule, AnyRepetitionRule, GopherQuality
from headrace.data_prep.filters.urls import normalize_url
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.html import HtmlExtraction
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.other_extractors import EXTRACTORS, MAX_DEPTH, depth
from headrace.data_prep.sources.page_bytes import (
    binary_type,
    content_type,
    data_type,
    keeps_tags,
    looks_like_html,
    sanitize,
    utf8,
)
from headrace.data_prep.sources.prescan import declared_encoding
from headrace.data_prep.sources.tables import Parquet
from headrace.data_prep.sources.warc import warc_records
from headrace.data_prep.sources.warc_payload import parse, payload
from headrace.data_prep.text.words import word_count
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.encode import parse as parse_tokenizer
from headrace.data_prep.tokenization.made_tokenizers import Sampled, Trained
from headrace.pipeline.core.extras import is_installed
from headrace.pipeline.core.setting_classes import classes_of
from headrace.pipeline.documents.marking import marked_lines
from headrace.train.config import ModelConfig
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.tasks.conversations import Conversations
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.inference.chat_template import DEFAULT_TEMPLATE, Message
from headrace.train.inference.chat_template import ChatTemplate as Template
from tests.data_prep.adversarial import TEXTS
from tests.data_prep.small_classifier import write_classifier
from tests.data_prep.sources.warc_bytes import http, record
from tests.data_prep.tokenization.kinds import KINDS
from tests.train.finetune.files.hostile import readers_of_bytes

Function = Callable[[str], object]
MODEL = ModelConfig(layers=1, width=8, heads=1, kv_heads=1, context=64, mlp_width=8)
RECORD_BYTES = 20_000_000

LISTS = {
    "sites.json": '{"example.org": true}',
    "sites.txt": "example.org\nbad.example.net\n",
    "words.txt": "bad\nworse\n",
    "own.py": """
from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings

@filter_settings
class Long(Filter):
    def judge(self, document):
        return Drop("long", "") if len(document.text) > 1000 else None
""",
}
"""Files that some filters need."""


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the settings of filters that cannot be built without settings."""
    for name, text in LISTS.items():
        (folder / name).write_text(text)
    sites, words = str(folder / "sites.txt"), str(folder / "words.txt")
    blocked = dict.fromkeys(("strict_words_path", "hard_words_path", "soft_words_path"), words)
    return {
        "allowed_domains": {"path": str(folder / "sites.json")},
        "blocked_domains": {"domains_path": sites, **blocked},
        "by_language": {"filters": (GopherQuality(counting="scripts"),), "languages": {"default": {}}},
        "fasttext_classifier": {"path": language_model(), "label": "en", "min_score": 0.0},
        "linear_classifier": {
            "path": str(write_classifier(folder / "mill.model")),
            "label": "mill",
            "min_score": 0.0,
        },
        "datatrove": {"path": "datatrove.pipeline.filters.RegexFilter", "arguments": {"regex_exp": "lorem ipsum"}},
        "python": {"path": f"{folder}/own:Long"},
        "top_ngram": {"words": 2, "max_fraction": 0.2},
        "duplicate_ngrams": {"words": 5, "max_fraction": 0.15},
        "cut_phrase": {"phrase": "read more..."},
    }


def built(union: Any, settings: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """An instance of each class of ``union``, by its tag."""
    for cls in classes_of(union):
        name = next(iter(typing.get_args(typing.get_type_hints(cls)["type"])))
        yield name, cls(**settings.get(name, {}))


def filters(settings: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Function]]:
    """Yields every filter, on the text as page and as URL; global ones write keys and lose every second part."""
    for name, one in built(AnyFilter, settings):
        if isinstance(one, Filter):
            yield f"filter {name}", lambda text, one=one: one.judge(page(text))
        else:
            yield f"filter {name}: keys", lambda text, one=one: one.keys(page(text))
            yield f"filter {name}: trim", lambda text, one=one: one.trim(page(text), one.keys(page(text))[2][::2])


def rules(settings: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Function]]:
    """Yields every single rule: inside its filter, the first failed rule would end the check."""
    for kind, union in (("line rule", AnyC4Rule), ("correction", AnyCorrection)):
        for name, one in built(union, settings):
            yield f"{kind} {name}", lambda text, one=one: [one.apply(line) for line in text.split("\n")]
    unions = (AnyQualityRule, AnyRepetitionRule, AnyFineWebRule)
    for name, one in itertools.chain.from_iterable(built(union, settings) for union in unions):
        for counting, cut in STATISTICS.items():
            yield f"page rule {name}, {counting}", lambda text, one=one, cut=cut: one.failure(cut(text))
    for name, one in built(AnyPiiKind, settings):
        yield f"pii {name}", lambda text, one=one: list(one.matches(text))


def page(text: str) -> Document:
    return Document(text=text, id="pages.jsonl:0", metadata={"url": text})


def extractors() -> Iterator[tuple[str, Function]]:
    """Yields our extractor, every installed one with the deepest allowed pages, and the functions before and after."""
    for form in ("lines", "markdown"):
        ours = HtmlExtraction(text_form=form, alt_texts=True, emphasis=form == "markdown", links=form == "markdown")
        yield f"extractor blocks, {form}", ours.extracted
    for name, function in EXTRACTORS.items():
        if name != "trafilatura" or is_installed(name):
            yield f"extractor {name}", lambda html, function=function: as_page(html, function)
    yield "html: depth", depth
    for test in (looks_like_html, keeps_tags, binary_type, data_type, declared_encoding):
        yield f"html: {test.__name__}", lambda html, test=test: test(html.encode("utf-8", "replace"))
    yield "content type", lambda text: content_type([text])


def as_page(html: str, function: Callable[[str], str]) -> str | None:
    """Returns the result of ``function`` on a page that is not too deep to be parsed."""
    return function(html) if depth(html) <= MAX_DEPTH else None


def texts() -> Iterator[tuple[str, Function]]:
    """Yields the other readers of texts: decoding, sentences, words, masking, tokenizers, marking."""
    yield "charset: guess", lambda text: utf8(text.encode("utf-8", "replace"))
    for label in LABELS:
        yield f"charset: {label}", lambda text, label=label: utf8(text.encode("utf-8", "surrogatepass"), label)
    yield "charset: clean", lambda text: sanitize(text.replace("a", "\ud800"))
    yield "lines of a page", page_text
    yield "normalized URL", normalize_url
    yield "sentences: Punkt", sentences_of
    yield "sentences: count", lambda text: count_sentences(text, len(text) + 2)
    yield "shingles", lambda text: shingle_hashes(text, 5)
    yield "decontamination: search and mask", masking()
    yield "tokenizer: training", lambda text: Trained(vocabulary_size=500).train([text])
    trained = Trained(vocabulary_size=2000).train([TEXTS["mixture"](200_000)])
    fast = Encoder(parse_tokenizer(trained, "benchmark"))
    slow = tokenizers.Tokenizer.from_str(trained)
    yield "encoder: gigatoken", lambda text: fast.encode([text])
    yield "encoder: tokenizers", lambda text: slow.encode_batch_fast([text], add_special_tokens=False)
    yield "marking", marking
    yield from other_tokenizers()
    yield "chat template", lambda text: Template(DEFAULT_TEMPLATE, {}).answers(turns([text, text]))
    talks = Conversations().fitted([], Form(fast, MODEL, 64))
    yield "conversation of many turns", lambda text: talks.rows([talk(text.splitlines())], False)


def other_tokenizers() -> Iterator[tuple[str, Function]]:
    """Yields training and encoding of the other kinds of tokenizers."""
    for name, kind in KINDS.items():
        if isinstance(kind, Sampled) and name != "train":
            yield f"tokenizer {name}: training", lambda text, kind=kind: kind.train([text])
            encoder = Encoder(parse_tokenizer(kind.train([TEXTS["mixture"](20_000)]), "benchmark"))
            yield f"tokenizer {name}: encoding", lambda text, encoder=encoder: encoder.encode([text])


def turns(contents: list[str]) -> list[Message]:
    """Returns a conversation of user and assistant in turn."""
    return [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(contents)]


def talk(contents: list[str]) -> Example:
    """Returns the same as an example, with an answer at the beginning."""
    return Example(id="a:1", texts={"messages": json.dumps(turns(["a", "b", *contents]))})


LABELS = ("utf-8", "utf-16", "cp1252", "gb18030", "shift_jis", "euc-jp", "iso-2022-jp", "euc-kr", "big5", "koi8-u")
"""One of each family of encodings."""


def masking() -> Function:
    """Every twentieth word of a text is a match, and twice as many of its characters the window."""

    def function(text: str) -> object:
        return masked(text, [(first, first + 8) for first in range(0, word_count(text) - 8, 20)], 20)

    return function


CLEANING = Cleaning(filters=(C4Lines(),))


def marking(text: str) -> object:
    """The lines of a page of which every third was lost and every seventh rewritten."""
    lines = text.splitlines()
    left = [f"{line}!" if n % 7 == 3 else line for n, line in enumerate(lines) if n % 3]
    return marked_lines(Document(text="\n".join(left), id="a:0"), text, CLEANING)


MAGIC = {"gzip": b"\x1f\x8b\x08\0", "zstd": b"\x28\xb5\x2f\xfd", "bzip2": b"BZh9", "xz": b"\xfd7zXZ\0"}
"""The first bytes of a member of each codec."""


def readers(folder: Path) -> Iterator[tuple[str, Callable[[bytes], object]]]:
    """Yields the readers of bytes: codecs, WARC records and their payload, JSON lines."""
    for name in MAGIC:
        yield f"decoder: {name}", lambda data, magic=MAGIC[name]: exhausted(pieces(io.BytesIO(magic + data)))
    yield "decoder: none", lambda data: exhausted(pieces(io.BytesIO(b"\n" + data)))
    yield "WARC records", lambda data: exhausted(warc_records(iter([data]), RECORD_BYTES))
    for header in (b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n"):
        yield f"WARC payload, {header.split()[1].decode()}", lambda data, header=header: payload_of(data, header)
    yield "JSON lines", lambda data: lines_of(data, folder / "lines.jsonl")
    yield "Parquet", lambda data: table_of(data, folder / "table.parquet")
    yield from readers_of_bytes(folder)


def lines_of(data: bytes, path: Path) -> int:
    path.write_bytes(b"{" + data)
    return exhausted(Jsonl(paths=(str(path),)).read(str(path)))


def table_of(data: bytes, path: Path) -> int:
    path.write_bytes(b"PAR1" + data + b"PAR1")
    return exhausted(Parquet(paths=(str(path),)).read(str(path)))


def payload_of(data: bytes, header: bytes) -> object:
    return payload(parse(record(http(data, extra=header))), RECORD_BYTES)


def exhausted(items: Iterator[object]) -> int:
    return sum(1 for _ in items)
