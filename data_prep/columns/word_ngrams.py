"""A Kneser-Ney model of word n-grams: the perplexity of a text, without torch.

    texts ── words ── XXH64 ──> ids ──> n-grams (tokenization/kneser_ney.py)
    text  ──> probability of each word after the words before it ──> exp(- mean log probability)

Words are those of deduplication (``text.words``); a 64-bit hash stands for each. A mark begins each text, and one id
stands for all unknown words.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.tokenization.kneser_ney import KneserNey
from headrace.pipeline.core.errors import ConfigError

OTHERS = 2
"""The ids besides those of known words: the mark that begins a text, and unknown words."""


@dataclasses.dataclass(frozen=True)
class WordNgrams:
    """The known words, and the model of their n-grams."""

    words: NDArray[np.uint64]
    """The hashes of the known words, ascending: (words,)."""
    model: KneserNey

    @classmethod
    def of(cls, texts: Iterable[str], order: int) -> "WordNgrams":
        """Returns the model of ``texts`` with n-grams of up to ``order`` words.

        Raises:
            ConfigError: when they hold no word.
        """
        hashes = [shingle_hashes(text, 1) for text in texts]
        words = np.unique(np.concatenate([np.empty(0, np.uint64), *hashes]))
        if not len(words):
            raise ConfigError("columns.scorers", "the texts of an n-gram model hold no word", "give texts with words")
        pieces = [ids_of(words, text) for text in hashes]
        return cls(words, KneserNey(pieces, len(words) + OTHERS, order))

    def log_probs(self, text: str) -> NDArray[np.float64]:
        """Returns ln of the probability of each word of ``text`` after the words before it: (words,)."""
        return self.model.log_probs([ids_of(self.words, shingle_hashes(text, 1))], self.model.order)

    def perplexity(self, text: str) -> float | None:
        """Returns exp(- mean log probability of a word); None for a text without words."""
        log_probs = self.log_probs(text)
        return float(np.exp(-log_probs.mean())) if len(log_probs) else None

    def save(self, path: Path) -> None:
        """Writes the model to ``path`` as .npz."""
        with path.open("wb") as stream:
            np.savez(stream, allow_pickle=False, words=self.words, order=self.model.order, **self.model.arrays())

    @classmethod
    def load(cls, path: Path) -> "WordNgrams":
        """Reads what ``save`` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
        words = arrays["words"]
        return cls(words, KneserNey.of_arrays(arrays, len(words) + OTHERS, int(arrays["order"])))


def ids_of(words: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the mark that begins a text, then the place of each hash in ``words``, or the id of unknown words."""
    places = np.minimum(np.searchsorted(words, hashes), len(words) - 1)
    ids = np.where(words[places] == hashes, places, len(words) + 1)
    return np.concatenate([[len(words)], ids]).astype(np.int64)
