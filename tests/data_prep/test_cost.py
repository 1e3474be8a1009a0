"""Hostile input costs linear time: no test may take ten seconds of CPU time, and quadratic time would take more.

The tests hold the replaced expressions, unchanged; the new ones find the same.
"""

import bz2
import gzip
import io
import re
import time
from collections.abc import Iterator

import numpy as np
import pytest
import tokenizers
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st
from numba.core import event

from headrace.data_prep.filters.line_corrections import _ADDRESS, WithoutAddresses
from headrace.data_prep.filters.page_statistics import PageStatistics
from headrace.data_prep.filters.punkt import punkt, sentences_of
from headrace.data_prep.filters.urls import BlockedDomains
from headrace.data_prep.sources.damaged_files import pieces
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.warc import warc_records
from headrace.data_prep.text.folding import fold
from headrace.data_prep.text.word_offsets import WordOffsets, chunk_starts
from headrace.data_prep.tokenization.made_tokenizers import WORD_BYTES, Trained, byte_level
from tests.data_prep.adversarial import JUNK, TEXTS
from tests.data_prep.measured import extractors, filters, readers, rules, settings_of, texts

SECONDS = 10
"""CPU time that a test may take."""

OLD_ADDRESS = re.compile(r"[^\S\n]*\b(?:(?:https?|ftp)://|www\.)[^\s<>\"']*[^\s<>\"'.,;:!?)\]}]", re.IGNORECASE)


class Compiling(event.Listener):
    """The CPU time that numba takes to compile, load and store, which depends on what is in its cache."""

    seconds, begin, depth = 0.0, 0.0, 0

    def on_start(self, _: event.Event) -> None:
        if not self.depth:
            self.begin = time.process_time()
        self.depth += 1  # a kernel compiles those that it calls

    def on_end(self, _: event.Event) -> None:
        self.depth -= 1
        if not self.depth:
            self.seconds += time.process_time() - self.begin


@pytest.fixture(autouse=True)
def _bounded_time() -> Iterator[None]:
    begin, compiling = time.process_time(), Compiling()
    with event.install_listener("numba:compiler_lock", compiling):
        yield
    assert time.process_time() - begin - compiling.seconds < SECONDS


def pieced(*parts: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(parts), max_size=12).map("".join)


@given(text=pieced(" ", "\t", "\n", "\xa0", "http://", "www.", "WWW.", "ftp:", "//", "a", ".", ")", "<", "'"))
def test_addresses_are_found_as_before(text) -> None:
    assert [m.span() for m in _ADDRESS.finditer(text)] == [m.span() for m in OLD_ADDRESS.finditer(text)]


@given(word=pieced("a", "!", "_", "\u0301", "\u4e2d", "-", "1"))
def test_words_lose_the_same_punctuation(word) -> None:
    assert PageStatistics(word).bare_words == {re.sub(r"^\W+|\W+$", "", one.lower()) for one in word.split()}


@pytest.mark.slow
def test_characters_that_begin_a_chunk_stand_alone() -> None:
    """Such characters fold alone, and the text before them folds alone, too."""
    marked = [chr(code) for code in np.flatnonzero(chunk_starts()) if not 0xD800 <= code < 0xE000]
    alone = list(map(fold, marked))
    for before in ("a", "\u1100", "="):
        assert fold(before.join(["", *marked, ""])) == before.join(["", *alone, ""])


def test_places_in_a_text_without_spaces() -> None:
    text = "in.my.palm.is.a.stone." * 8_000
    offsets = WordOffsets(text)
    assert [offsets.start(word) for word in (0, 1, 48_000 - 1)] == [0, 3, len(text) - 6]
    assert all(offsets.word_across(offsets.start(word) + 1)[0] == offsets.start(word) for word in range(0, 48_000, 6))


def page(text: str, url: str = "") -> Document:
    return Document(text=text, id="a:0", metadata={"url": url})


def test_spaces_before_no_address() -> None:
    document = page(" " * 2_000_000 + "x")
    assert WithoutAddresses().judge(document) is None
    assert len(document.text) == 2_000_001


def test_a_host_of_a_million_labels(tmp_path) -> None:
    (tmp_path / "sites.txt").write_text("example.org\n")
    rule = BlockedDomains(domains_path=str(tmp_path / "sites.txt"))
    assert rule.judge(page("", "http://" + "a." * 1_000_000 + "org/")) is None
    assert rule.judge(page("", "http://" + "a." * 1_000_000 + "example.org/")).rule == "blocked_domains.domain"


def test_punctuation_inside_a_word() -> None:
    assert PageStatistics("a" + "!" * 500_000 + "b").bare_words == {"a" + "!" * 500_000 + "b"}


def test_nltk_has_no_limit_in_wall_time(monkeypatch) -> None:
    redos = pytest.importorskip("nltk.redos")
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 1e-9)
    punkt.cache_clear()
    assert len(sentences_of("It rained. " * 2_000)) == 2_000


@pytest.mark.parametrize("name", [name for name in JUNK if name.split()[0] in ("gzip", "empty", "zstd", "bz2")])
def test_junk_that_looks_compressed(name) -> None:
    """4 MB took minutes. The decoder ends, and the result is no text. (1 MB that is nested expands to 18 MB.)"""
    data = JUNK[name](1 << (20 if name.endswith("nested") else 18))
    found = b"".join(piece for piece in pieces(io.BytesIO(data)) if isinstance(piece, bytes))
    assert len(found) <= 40 * len(data)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_members_after_damage_are_all_found(compress) -> None:
    members = [compress(b"member %d" % number * 100) for number in range(2_000)]
    broken = b"".join(one if number % 2 else one[:-9] for number, one in enumerate(members))
    found = b"".join(piece for piece in pieces(io.BytesIO(broken)) if isinstance(piece, bytes))
    assert all(b"member %d" % number in found for number in range(1, 2_000, 2))


@pytest.mark.parametrize("name", [name for name in JUNK if name.startswith("WARC")])
def test_junk_that_looks_like_warc(name) -> None:
    data = JUNK[name](1 << 18)
    assert sum(1 for _ in warc_records(iter([data]), 20_000_000)) > 0


def test_a_long_line_in_small_pieces(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("headrace.data_prep.sources.jsonl.PIECE_BYTES", 64)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "' + b"a" * 8_000_000 + b'"}\n{"text": "b"}\n')
    assert [len(document.text) for document, _ in Jsonl(paths=(str(path),)).read(str(path))] == [8_000_000, 1]


@pytest.mark.slow
def test_training_cuts_long_words_only() -> None:
    """Below the bound the file is what the tokenizers library alone makes; above it, a word costs its length."""
    ordinary = [TEXTS["mixture"](30_000), TEXTS["a line of sentences"](30_000), "x" * WORD_BYTES]
    plain = byte_level(tokenizers.models.BPE())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1000,
        min_frequency=2,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train_from_iterator(ordinary, trainer)
    assert Trained(vocabulary_size=1000).train(ordinary) == plain.to_str()
    Trained(vocabulary_size=1000).train([TEXTS["letters"](1_000_000)])


@pytest.mark.slow
def test_everything_is_measured(tmp_path) -> None:
    """A new filter that cannot be built without settings must be named; each function takes each input."""
    settings = settings_of(tmp_path)
    of_text = [*filters(settings), *rules(settings), *extractors(), *texts()]
    assert len({name for name, _ in of_text}) == len(of_text) > 80
    for functions, inputs in ((of_text, TEXTS), (list(readers(tmp_path)), JUNK)):
        for _, function in functions:
            for make in inputs.values():
                function(make(200))
