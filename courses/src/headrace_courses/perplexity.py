"""The perplexity of a document as a column, by a Kneser-Ney model of words of a given file or of the documents.

    texts ── words ── XXH64 ──> ids ──> n-grams (kneser_ney.py)
    text  ──> probability of each word after the words before it ──> exp(- mean log probability)

Text that is unlike the file (CCNet, Wenzek et al. 2020, uses Wikipedia) has a high perplexity. Words are those of
deduplication (``text.words``); a 64-bit hash stands for each. A mark begins each text, and one id stands for all
unknown words.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.columns.scorer import Scorer, Scoring
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.filters.filter import require_file, user_file
from headrace.data_prep.tokenization.text_sample import text_sample
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, Positive, settings
from headrace.pipeline.core.stage import RawFile
from headrace.pipeline.core.text_files import read_lines
from headrace_courses.kneser_ney import KneserNey

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


@settings
class Perplexity(Scorer):
    """exp(- mean log probability of a word) by a Kneser-Ney model of words (kneser_ney.py)."""

    learns: ClassVar[bool] = True

    type: Literal["perplexity"] = "perplexity"
    path: FilePath | None = None
    """A file of text, also compressed, of which each line is one document; null: a sample of the documents."""
    order: Annotated[int, Field(ge=1, le=5)] = 3
    """Most words of an n-gram."""
    sample_bytes: Positive = 20_000_000
    """Bytes of text that the model learns from, rounded up to whole documents. Memory is 60 times as much."""

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the file. Questions about a finished run do not read it, so it may be elsewhere by then.

        Raises:
            ConfigError: when there is no such file.
        """
        if self.path is None:
            return ()
        require_file("columns.scorers.path", self.path, "a file of text")
        return (user_file(self.path),)

    def learn(self, unique: Artifact, path: Path, counts: "Counter[str]") -> None:
        if self.path is None:
            texts = text_sample(unique.shards("documents"), self.sample_bytes, counts)
        else:
            texts = self._lines(Path(self.path))
        WordNgrams.of(texts, self.order).save(path)

    def _lines(self, path: Path) -> Iterator[str]:
        left = self.sample_bytes
        for line in read_lines(path):
            if left <= 0:
                return
            left -= len(line)
            yield line.decode("utf-8", "replace")

    def scoring(self, model: Path | None) -> Scoring:
        assert model is not None
        ngrams = WordNgrams.load(model)
        return lambda document: ngrams.perplexity(document.text)
