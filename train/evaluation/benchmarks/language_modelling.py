"""The likelihood of whole texts: of files, and of the documents that the run held out from training.

**Perplexity of raw text**: WikiText, Penn Treebank, enwik8, text8, One Billion Words, from their published files.

    file ── documents ── de-tokenizer ── tokens ──> windows, each token predicted once:

    non-overlapping       | E a b c d | d e f g h | h i       E: end of text; predicted: a b c d, e f g h, i
    stride_tokens: 2      | E a b c d | c d e f | e f g h     two new tokens after the most context that fits

perplexity per unit = exp(nats of all tokens / units), bits per unit = nats / ln 2 / units. The units are counted in the
file itself; de-tokenization and tokens do not change them: "scaled before exponentiation" (Radford et al. 2019, §3.1;
openai/gpt-2 issue 78).

**Validation**: the loss on the documents that were held out from training.

    document ── its spans, as packed for training ──> nats of every token, the end-of-text token included

The mean over tokens is the training loop's validation loss over the whole split; bits per byte does not depend on the
tokenizer. The end-of-text tokens count: the sum is the length of a code that also encodes the ends of documents.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import Kinds
from headrace.pipeline.core.settings import Natural, Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, FileBenchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.file_records import read_text
from headrace.train.evaluation.held_out_documents import HeldOutDocument, sample
from headrace.train.evaluation.metrics import bits, exponential, losses, ratio
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, TokenQuery
from headrace.train.parts import StackName

Score = Literal["word_perplexity", "token_perplexity", "byte_perplexity", "bits_per_byte", "bits_per_character"]
UNITS = {
    "word_perplexity": "words",
    "token_perplexity": "tokens",
    "byte_perplexity": "bytes",
    "bits_per_byte": "bytes",
    "bits_per_character": "characters",
}
WHERE = "evaluation.benchmarks"
DIRTY_SHARE = 0.2
"""The largest share of an article's n-grams in training documents with which it is clean: LLaMA 2's bound for tokens
(Touvron et al. 2023, §A.6), above GPT-2's rates for whole sets (Radford et al. 2019, §4)."""


LM_EVAL_WIKITEXT = (
    (r"s '", "s'"),
    (r"/' [0-9]/", r"/'[0-9]/"),
    *((f" @{sign}@ ", sign) for sign in "-,."),
    *((rf" [{sign}] ", f"{sign} ") for sign in ":;.!?,"),
    *((rf"\{a}\s*([^\{b}]*?)\s*\{b}", rf"{a}\1{b}") for a, b in ("()", "[]", "{}", '""', "''")),
    ("= = = =", "===="),
    ("= = =", "==="),
    ("= =", "=="),
    (" ° ", "°"),
    (" \n", "\n"),
    ("\n ", "\n"),
    (" N ", " 1 "),
    (" 's", "'s"),
)
"""Regular expressions and replacements, in lm-evaluation-harness's order (tasks/wikitext/preprocess_wikitext.py)."""


def lm_eval_wikitext(document: str) -> str:
    """Returns the text of lm-evaluation-harness's task wikitext; the words cannot be restored."""
    for pattern, replacement in LM_EVAL_WIKITEXT:
        document = re.sub(pattern, replacement, document)
    return document


DETOKENIZERS = Kinds(
    "detokenizer",
    Callable,
    {
        "none": "builtins:str",
        "lm_eval_wikitext": "headrace.train.evaluation.benchmarks.language_modelling:lm_eval_wikitext",
    },
)
"""The functions from separated words to ordinary text, by their names in settings."""


class TextScores:
    """The outcomes of a benchmark whose items are whole texts."""

    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        """Returns nats and tokens of the text, and its sizes."""
        nats = -math.fsum(answer.log_likelihood for answer in answers)
        return {"nats": nats, "tokens": sum(answer.tokens for answer in answers), **item.sizes}


@settings
class LanguageModelling(TextScores, FileBenchmark[str]):
    """Perplexity, or bits per byte, of raw text."""

    type: Literal["language_modelling"] = "language_modelling"
    sentence: ClassVar[str] = "How well the model predicts a text."
    scores: Annotated[tuple[Score, ...], Field(min_length=1)] = ("word_perplexity", "token_perplexity", "bits_per_byte")
    """The metrics, the main one first."""
    documents: Literal["file", "article", "line"] = "file"
    """The unit that follows its own end-of-text token: a file, an article of WikiText, a line."""
    detokenizer: str = "none"
    """The way that separated words become text: none, lm_eval_wikitext, or that of an installed package."""
    words: Literal["with_line_ends", "lm_eval"] = "with_line_ends"
    """The definition of a word: text between white space, and each line end, as papers count WikiText and Penn
    Treebank; or every part between white space, with empty ones at both ends of a document (lm-evaluation-harness's
    wikitext)."""
    stride_tokens: Positive | None = None
    """The tokens that each window predicts, except a document's first; None: all tokens of the window."""
    from_byte: Natural = 0
    """The start of the text in each file."""
    to_byte: Positive | None = None
    """The end of the text; None: the end of the file."""

    def __post_init__(self) -> None:
        if self.to_byte is not None and self.to_byte <= self.from_byte:
            problem = f"bytes {self.from_byte} to {self.to_byte} are no part of a file"
            raise ConfigError(WHERE, problem, "give a to_byte above from_byte")

        if self.detokenizer not in DETOKENIZERS:
            problem = f"no detokenizer {self.detokenizer!r}"
            raise ConfigError(WHERE, problem, f"give one of {', '.join(DETOKENIZERS.tags)}")

    @property
    def reading(self) -> str:
        """The way of reading; empty for a file that is not cut into documents: its windows depend on the tokenizer."""
        cut = f"{self.documents}, {self.detokenizer}, bytes {self.from_byte} to {self.to_byte}"
        return "" if self.documents == "file" else f"{self.type} ({cut})"

    @property
    def dirty_share(self) -> float:
        """The bound of an article; for a line, one n-gram in training documents is enough."""
        return DIRTY_SHARE if self.documents == "article" else 0.0

    def texts(self, parsed: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns each document, de-tokenized: the form that other files would have."""
        return [(DETOKENIZERS[self.detokenizer](document),) for document in parsed]

    def read(self, data: Path) -> list[tuple[str, str]]:
        """Returns (name, text as it is in the file) of each document."""
        return [
            (f"{path.name}:{number}", document)
            for path in self.files(data)
            for number, document in enumerate(self._documents(path), start=1)
            if document.strip()
        ]

    def _documents(self, path: Path) -> list[str]:
        text = read_text(path, self.from_byte, self.to_byte)
        if self.documents == "article":
            return articles(text)
        return re.findall(".*\n|.+", text) if self.documents == "line" else [text]

    def items(self, sources: Sources) -> list[Item]:
        """Returns an item for each document; for a file that is one document, an item for each window."""
        named = self.read(sources.data)
        texts = self.texts([document for _, document in named])
        encoded = sources.text_encoder.encode([text for (text,) in texts])
        items = (
            item
            for (name, document), ids in zip(named, encoded, strict=True)
            for item in self._items(name, document, ids, sources)
        )
        return list(items)[: self.limit]

    def _items(self, name: str, document: str, ids: np.ndarray, sources: Sources) -> Iterator[Item]:
        sizes = {"words": self._words(document), "bytes": len(document.encode()), "characters": len(document)}
        queries = windows(ids, sources.text_encoder.end_of_text, sources.window_tokens, self.stride_tokens)
        if self.documents != "file":
            yield Item(name, tuple(queries), sizes=sizes)
            return
        start = 0
        for query in queries:
            share = len(query.continuation) / len(ids)
            yield Item(f"{name}@{start}", (query,), sizes={unit: size * share for unit, size in sizes.items()})
            start += len(query.continuation)

    def _words(self, document: str) -> int:
        if self.words == "lm_eval":
            return len(re.split(r"\s+", document))
        return len(document.split()) + document.count("\n")

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns ``scores``; documents, or the windows of files, are the unit of the errors."""
        return [unit_metric(name, outcomes, vocabulary) for name in self.scores]


def unit_metric(name: Score, outcomes: Sequence[Outcome], vocabulary: int) -> Metric:
    """Returns the metric ``name`` of the nats of whole texts per unit of text."""
    units = column(outcomes, UNITS[name])
    uniform_nats = math.log(vocabulary) * math.fsum(column(outcomes, "tokens")) / math.fsum(units)
    nats = column(outcomes, "nats")
    if name.startswith("bits"):
        return bits(name, nats, units, uniform_nats / math.log(2))
    return exponential(ratio(name, nats, units, None), name, math.exp(min(uniform_nats, 709.0)))


def articles(text: str) -> list[str]:
    """Returns the articles of WikiText, which begin with a line ``= Title =``, as lm-evaluation-harness's wikitext has
    them."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _is_title(line)]
    bounds = [0, *(start for start in starts if start), len(lines)]
    return ["\n".join(lines[start:end]) for start, end in pairwise(bounds)]


def _is_title(line: str) -> bool:
    """Whether ``line`` has one = at each end; ``= = Section = =`` is no title."""
    return bool(re.fullmatch(r"\s*= (?!= ).* =\s*", line))


def windows(ids: np.ndarray, end_of_text: int, window_tokens: int, stride_tokens: int | None) -> Iterator[TokenQuery]:
    """Yields queries that predict each of ``ids`` once, the first of them after ``end_of_text``.

    The windows of lm-evaluation-harness (lm_eval/utils.py, get_rolling_token_windows): the first window predicts as
    many tokens as fit. Each other window predicts ``stride_tokens`` after the most context that fits; for None, a whole
    window after one token.
    """
    whole = np.concatenate([[end_of_text], ids])
    stride = min(stride_tokens or window_tokens, window_tokens)
    starts = [1, *range(1 + window_tokens, len(whole), stride)]
    for start, end in pairwise([*starts, len(whole)]):
        yield TokenQuery(whole[max(0, end - window_tokens - 1) : start], whole[start:end])


@settings
class Validation(TextScores, Benchmark):
    """Loss, perplexity and bits per byte on the run's own held-out split."""

    needs_run: ClassVar[bool] = True
    type: Literal["validation"] = "validation"
    sentence: ClassVar[str] = "How well the model predicts the held-out documents of this run."

    def items(self, sources: Sources) -> list[Item]:
        documents = sample(sources.held_out_documents, self.limit)
        return [
            Item(document.name, document_queries(document), sizes={"bytes": document.text_bytes})
            for document in documents
        ]

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns bits per byte, loss (nats per token), and their exponentials; documents are the unit of the
        errors."""
        nats, tokens, text_bytes = (column(outcomes, name) for name in ("nats", "tokens", "bytes"))
        uniform_bits = math.log2(vocabulary) * sum(tokens) / sum(text_bytes)
        uniform_bytes = math.exp(min(uniform_bits * math.log(2), 709.0))
        nats_per_byte = ratio("byte_perplexity", nats, text_bytes, None)
        return [
            bits("bits_per_byte", nats, text_bytes, uniform_bits),
            *losses(nats, tokens, vocabulary),
            exponential(nats_per_byte, "byte_perplexity", uniform_bytes),
        ]


def document_queries(document: HeldOutDocument) -> tuple[TokenQuery, ...]:
    """Returns a query for each span of ``document``: all of its tokens after the first."""
    return tuple(TokenQuery(span[:1], span[1:]) for span in document.spans)
