"""A page as MassiveText's rules see it (Rae et al. 2021, "Scaling Language Models: … Gopher", appendix A1.1).

    text ── split() ──> words          text ── splitlines() ──> lines          text ── blank lines ──> paragraphs

A word is what white space separates, punctuation included: the paper does not say how it splits.
"""

import abc
import dataclasses
import functools
import re
from typing import Annotated

import numpy as np
from datatrove.data import Document
from pydantic import Field

from data_prep.document import Drop

Fraction = Annotated[float, Field(ge=0, le=1)]


@dataclasses.dataclass(frozen=True)
class Page:
    """One text, cut up once for all rules."""

    text: str

    @functools.cached_property
    def words(self) -> list[str]:
        return self.text.split()

    @functools.cached_property
    def lines(self) -> list[str]:
        """The stripped, non-empty lines."""
        return [stripped for line in self.text.splitlines() if (stripped := line.strip())]

    @functools.cached_property
    def paragraphs(self) -> list[str]:
        """The stripped, non-empty stretches between blank lines."""
        return [stripped for part in re.split(r"\n\s*\n", self.text) if (stripped := part.strip())]

    @functools.cached_property
    def word_ids(self) -> "np.ndarray":
        """int64 (n_words,): equal for equal words, numbered in order of appearance."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(word, len(numbers)) for word in self.words], np.int64)

    @functools.cached_property
    def word_lengths(self) -> "np.ndarray":
        """int64 (n_words,): characters of each word."""
        return np.array([len(word) for word in self.words], np.int64)

    @functools.cached_property
    def _ngrams(self) -> "dict[int, np.ndarray]":
        return {1: self.word_ids}

    def ngram_ids(self, n: int) -> "np.ndarray":
        """int64 (n_words - n + 1,): equal for equal n-grams; empty when there are too few words."""
        if len(self.words) < n:
            return np.empty(0, np.int64)
        if n not in self._ngrams:
            pairs = self.ngram_ids(n - 1)[:-1] * len(self.words) + self.word_ids[n - 1 :]
            self._ngrams[n] = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        return self._ngrams[n]

    def covered_fraction(self, starts: "np.ndarray", n: int) -> float:
        """The fraction of the words' characters in the n-grams beginning where ``starts`` (bool) is true."""
        changes = np.zeros(len(self.words) + 1, np.int64)
        np.add.at(changes, np.flatnonzero(starts), 1)
        np.add.at(changes, np.flatnonzero(starts) + n, -1)
        covered = np.cumsum(changes)[:-1] > 0
        return float(self.word_lengths[covered].sum() / max(int(self.word_lengths.sum()), 1))


class PageRule(abc.ABC):
    """Looks at one page. Subclasses are ``@settings`` classes with a ``type`` tag, which is their reason string."""

    @abc.abstractmethod
    def failure(self, page: Page) -> str | None:
        """The value that the page fails by, or None."""


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def above(value: float, limit: float) -> str | None:
    return f"{value:.4f}" if value > limit else None


def first_failure(filter_type: str, rules: tuple[PageRule, ...], document: Document) -> Drop | None:
    """The Drop of the first of ``rules`` that the document fails."""
    page = Page(document.text)
    for rule in rules:
        value = rule.failure(page)
        if value is not None:
            detail = getattr(rule, "part", None) or getattr(rule, "words", None)
            suffix = f"_{detail}" if isinstance(detail, (str, int)) else ""
            return Drop(f"{filter_type}.{rule.type}{suffix}", value)  # type: ignore[attr-defined]
    return None
