"""Text that the corpus says more than once: every page but one loses it.

    unique_lines    C4's released code: single lines
    unique_spans    C4's paper: spans of three sentences

Which page keeps a line is decided by the MD5 of its URL, so no site is preferred; a page without URL goes by its id.
"""

from typing import ClassVar, Literal

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import GlobalFilter, count_removed
from headrace.data_prep.filters.sentences import has_sentences, punkt_files, sentences_of
from headrace.data_prep.filters.urls import hash_words, url_of
from headrace.pipeline.core.settings import Natural, Positive, settings
from headrace.pipeline.core.stage import RawFile


def page_rank(document: Document) -> "np.ndarray":
    """MD5 of the URL, or of the id where there is none, as two uint64 (2,)."""
    rank: np.ndarray = hash_words([url_of(document) or document.id])[0]
    return rank


@settings
class UniqueLines(GlobalFilter):
    """Keeps each distinct line (stripped, lower-cased) once: on the page with the least MD5 of its URL, first place.

    ``remove_duplicate_text`` of TFDS text/c4_utils.py. Blank lines, which C4's pages never have, stay.
    """

    type: Literal["unique_lines"] = "unique_lines"
    min_sentences: Natural = 3
    """A page left with fewer sentences is dropped (TFDS: 3 for English, 0 for mC4)."""
    punkt_path: str | None = None
    """A folder with nltk's punkt_tab English files; None: those that llama-index-core carries."""
    rank_words: ClassVar[int] = 2

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        lines = [line.strip().lower() for line in document.text.split("\n")]
        parts = np.array([n for n, line in enumerate(lines) if line], np.uint32)
        return hash_words(filter(None, lines)), page_rank(document), parts

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        lost = set(losers.tolist())
        text = "\n".join(line for n, line in enumerate(document.text.split("\n")) if n not in lost)
        if not text.strip():
            return Drop(f"{self.type}.empty", f"{len(lost)} lines are on other pages")
        if self.min_sentences and not has_sentences(text, self.min_sentences, self.punkt_path):
            return Drop(f"{self.type}.sentences", f"{len(lost)} lines are on other pages")
        count_removed(document, self.type, len(lost))
        document.text = text
        return None


@settings
class UniqueSpans(GlobalFilter):
    """Keeps each distinct span of ``sentences`` sentences once; the sentences of every other copy are removed.

    Raffel et al. 2020, section 2.2: of any three-sentence span that occurs more than once all but one are discarded.
    Sentences are Punkt's of each line, stripped and lower-cased; spans run on across lines. Spans overlap, so a
    sentence may be lost by one span and kept by another: it is removed. No sentence vanishes from the corpus by that:
    a span is kept on a page of smaller rank than the one that loses it (or earlier on the same page), so following the
    losses ends at a place that keeps the sentence.
    """

    type: Literal["unique_spans"] = "unique_spans"
    sentences: Positive = 3
    """The length of a span (the paper: 3)."""
    min_sentences: Natural = 5
    """A page left with fewer sentences is dropped (the paper: 5)."""
    punkt_path: str | None = None
    """A folder with nltk's punkt_tab English files; None: those that llama-index-core carries."""
    rank_words: ClassVar[int] = 2

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        flat = [sentence.strip().lower() for line in self._lines(document) for sentence in line]
        starts = range(len(flat) - self.sentences + 1)
        keys = hash_words("\n".join(flat[start : start + self.sentences]) for start in starts)
        return keys, page_rank(document), np.arange(len(keys), dtype=np.uint32)

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        if not len(losers):
            return None
        lost = {int(start) + offset for start in losers for offset in range(self.sentences)}
        kept_lines, number, kept = [], 0, 0
        for line, sentences in zip(document.text.split("\n"), self._lines(document), strict=True):
            stay = [s for n, s in enumerate(sentences, number) if n not in lost]
            number += len(sentences)
            kept += len(stay)
            if len(stay) == len(sentences):
                kept_lines.append(line)
            elif stay:
                kept_lines.append(" ".join(stay))
        if kept < max(self.min_sentences, 1):
            return Drop(f"{self.type}.sentences", str(kept))
        count_removed(document, self.type, len(lost), "sentences")
        document.text = "\n".join(kept_lines)
        return None

    def _lines(self, document: Document) -> list[list[str]]:
        """The sentences of each line."""
        return [sentences_of(line, self.punkt_path) for line in document.text.split("\n")]
