"""Filters that remove text that occurs more than once in the corpus: one page keeps it, all others lose it.

    unique_lines    single lines, as in C4's released code
    unique_spans    spans of three sentences, as in C4's paper

The MD5 of the URL decides which page keeps a line, so no site is preferred. A page without URL is ranked by its id.
"""

from typing import ClassVar, Literal

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import AS_STORED, Explanations, GlobalFilter, count_removed
from headrace.data_prep.filters.punkt import has_sentences, punkt_files, sentences_of
from headrace.data_prep.filters.urls import md5_words, url_of
from headrace.pipeline.core.settings import FilePath, Natural, Positive, settings
from headrace.pipeline.core.stage import RawFile


def page_rank(document: Document) -> "np.ndarray":
    """Returns the MD5 of the URL (of the id where there is none), uint64 (2,)."""
    rank: np.ndarray = md5_words([url_of(document) or document.id])[0]
    return rank


@settings
class UniqueLines(GlobalFilter):
    """Keeps the first copy of each distinct line (stripped, lower-cased) on the page whose URL has the lowest MD5.

    Source: ``remove_duplicate_text`` of TFDS text/c4_utils.py. Blank lines are kept; C4's pages have none.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Removes lines that another page has.", AS_STORED),
        "empty": ("Drops pages whose lines are all on other pages.", AS_STORED),
        "sentences": (
            "Drops pages with fewer than {min_sentences} sentences after lines of other pages are removed.",
            "{value}, and fewer than {min_sentences} sentences are left",
        ),
    }
    type: Literal["unique_lines"] = "unique_lines"
    min_sentences: Natural = 3
    """Fewest sentences that must remain on a page (TFDS: 3 for English, 0 for mC4)."""
    punkt_path: FilePath | None = None
    """A folder with nltk's punkt_tab English files; None: those of the package llama-index-core."""
    rank_words: ClassVar[int] = 2

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns the count of sentences, which Punkt counts as in English."""
        return (f"{self.type}.sentences",) * (self.min_sentences > 0)

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        lines = [line.strip().lower() for line in document.text.split("\n")]
        parts = np.array([n for n, line in enumerate(lines) if line], np.uint32)
        return md5_words(filter(None, lines)), page_rank(document), parts

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        lost = set(losers.tolist())
        text = "\n".join(line for n, line in enumerate(document.text.split("\n")) if n not in lost)
        value = "1 line is on other pages" if len(lost) == 1 else f"{len(lost)} lines are on other pages"
        if not text.strip():
            return Drop(f"{self.type}.empty", value)
        if self.min_sentences and not has_sentences(text, self.min_sentences, self.punkt_path):
            return Drop(f"{self.type}.sentences", value)
        count_removed(document, self.type, len(lost))
        document.text = text
        return None


@settings
class UniqueSpans(GlobalFilter):
    """Keeps one copy of each distinct span of ``sentences`` sentences and removes the sentences of all other copies.

    Source: Raffel et al. 2020, section 2.2: of any three-sentence span that occurs more than once, all but one are
    discarded. Punkt splits each line into sentences, which are stripped and lower-cased. A span may cross lines.

    Spans overlap, so a sentence may be in one span that is kept and in another that is removed. Such a sentence is
    removed, but it never disappears from the corpus: each removed span is kept on a page of lower rank (or earlier on
    the same page), and the page of lowest rank loses nothing.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Removes runs of {sentences} sentences that another page has.", AS_STORED),
        "sentences": (
            "Drops pages with fewer than {min_sentences} sentences after repeated ones are removed.",
            "{number} sentences left, {min_sentences} needed",
        ),
    }
    type: Literal["unique_spans"] = "unique_spans"
    sentences: Positive = 3
    """Sentences of a span (the paper: 3)."""
    min_sentences: Natural = 5
    """Fewest sentences that must remain on a page (the paper: 5)."""
    punkt_path: FilePath | None = None
    """A folder with nltk's punkt_tab English files; None: those of the package llama-index-core."""
    rank_words: ClassVar[int] = 2

    def raw_files(self) -> tuple[RawFile, ...]:
        return punkt_files(self.punkt_path)

    def english_rules(self, document: Document) -> tuple[str, ...]:
        """Returns all, because of the sentences, which Punkt splits as in English."""
        return (self.type,)

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        flat = [sentence.strip().lower() for line in self._lines(document) for sentence in line]
        starts = range(len(flat) - self.sentences + 1)
        keys = md5_words("\n".join(flat[start : start + self.sentences]) for start in starts)
        return keys, page_rank(document), np.arange(len(keys), dtype=np.uint32)

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        if not len(losers):
            return None
        lost = {int(start) + offset for start in losers for offset in range(self.sentences)}
        kept_lines, number, kept = [], 0, 0
        for line, sentences in zip(document.text.split("\n"), self._lines(document), strict=True):
            remaining = [s for n, s in enumerate(sentences, number) if n not in lost]
            number += len(sentences)
            kept += len(remaining)
            if len(remaining) == len(sentences):
                kept_lines.append(line)
            elif remaining:
                kept_lines.append(" ".join(remaining))
        if kept < max(self.min_sentences, 1):
            return Drop(f"{self.type}.sentences", str(kept))
        count_removed(document, self.type, len(lost), "sentences")
        document.text = "\n".join(kept_lines)
        return None

    def _lines(self, document: Document) -> list[list[str]]:
        """Returns the sentences of each line."""
        return [sentences_of(line, self.punkt_path) for line in document.text.split("\n")]
