"""The word n-grams of benchmark items, as arrays that tasks read from disk.

    items ── words ──> n-grams of 13 words (all words of an item that has only 8 to 12) ── distinct, by key ──> NGrams

    n-gram    in my palm is a clear stone and inside it is a
    key       XXH64 of its first 8 words, so one lookup at each word of a document finds n-grams of every length

Words are those of ``text.words``: folded, without punctuation. The text of each n-gram is kept, so a search compares
words, not only hashes.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.data_prep.decontamination.config import SHORTEST_WORDS, ItemTexts
from headrace.data_prep.shuffle.records import save_array
from headrace.data_prep.text.words import words
from headrace.pipeline.core.artifact import TaskOutput, handed


@dataclasses.dataclass(frozen=True)
class NGrams:
    """The n_ngrams distinct n-grams of n_items items, sorted by key."""

    names: NDArray[np.bytes_]
    """(n_items,): ``<benchmark>/<item>`` in UTF-8."""
    sizes: NDArray[np.uint32]
    """(n_items,): number of distinct n-grams of the item; 0 if it has too few words to search for."""
    keys: NDArray[np.uint64]
    """(n_ngrams,): XXH64 of the first 8 words."""
    lengths: NDArray[np.uint16]
    """(n_ngrams,): number of words of the n-gram."""
    text: NDArray[np.uint8]
    """The words of all n-grams in UTF-8, with one space between the words of an n-gram."""
    bounds: NDArray[np.uint64]
    """(n_ngrams + 1,): start of each n-gram in ``text``, and the end."""
    owners: NDArray[np.uint32]
    """The indices of the items with the n-gram, one n-gram after the other."""
    owner_bounds: NDArray[np.uint64]
    """(n_ngrams + 1,): start of the items of each n-gram in ``owners``, and the end."""

    def name(self, item: int) -> str:
        """Returns the name of the item with the index ``item``: ``<benchmark>/<item>``."""
        return bytes(self.names[item]).decode()

    def ngram(self, index: int) -> bytes:
        """Returns the words of an n-gram in UTF-8."""
        return bytes(self.text[self.bounds[index] : self.bounds[index + 1]])

    def items_of(self, ngram: int) -> list[int]:
        """Returns the indices of the items with the n-gram of the index ``ngram``."""
        items: list[int] = self.owners[self.owner_bounds[ngram] : self.owner_bounds[ngram + 1]].tolist()
        return items

    def shares(self, is_present: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Returns the share of each item's n-grams for which ``is_present``, (n_items,); 0 for an item without any.

        Args:
            found: whether each n-gram was found, (n_ngrams,).
        """
        times = np.diff(self.owner_bounds).astype(np.int64)
        numbers = np.bincount(self.owners, weights=np.repeat(is_present, times), minlength=self.sizes.size)
        return numbers / np.maximum(self.sizes, 1)

    @classmethod
    def of(cls, benchmarks: Mapping[str, ItemTexts], ngram_words: int) -> "NGrams":
        """Builds the n-grams of all items of ``benchmarks``, in the order of the benchmarks' names."""
        names: list[bytes] = []
        sizes: list[int] = []
        owners: dict[bytes, list[int]] = {}
        for title, benchmark in sorted(benchmarks.items()):
            for name, texts in benchmark.texts():
                ngrams_of_texts = ngrams_of(texts, ngram_words)
                for ngram in ngrams_of_texts:
                    owners.setdefault(ngram, []).append(len(names))
                names.append(f"{title}/{name}".encode())
                sizes.append(len(ngrams_of_texts))
        ngrams = sorted(owners, key=lambda ngram: (prefix_key(ngram), ngram))
        return cls(
            names=np.array(names, dtype=f"S{max(map(len, names), default=1)}"),
            sizes=np.array(sizes, dtype=np.uint32),
            keys=np.array([prefix_key(ngram) for ngram in ngrams], dtype=np.uint64),
            lengths=np.array([ngram.count(b" ") + 1 for ngram in ngrams], dtype=np.uint16),
            text=np.frombuffer(b"".join(ngrams), dtype=np.uint8),
            bounds=_bounds(map(len, ngrams)),
            owners=np.array([item for ngram in ngrams for item in owners[ngram]], dtype=np.uint32),
            owner_bounds=_bounds(len(owners[ngram]) for ngram in ngrams),
        )

    @property
    def counts(self) -> Counter[str]:
        """The counts for the manifest."""
        short = int((self.sizes == 0).sum())
        return Counter(benchmark_items=self.sizes.size, too_short_items=short, benchmark_ngrams=self.keys.size)

    def save(self, out: TaskOutput) -> None:
        """Writes the arrays for later phases of the stage."""
        for field in dataclasses.fields(self):
            with out.scratch(field.name, "npy") as path:
                save_array(path, getattr(self, field.name))

    @classmethod
    def load(cls, out: TaskOutput, phase: str) -> "NGrams":
        """Loads the arrays that the only task of an earlier ``phase`` saved. Tasks on one machine share the memory."""
        arrays: dict[str, Any] = {
            field.name: np.load(handed(out, f"{phase}/{field.name}", 0, "npy"), mmap_mode="r")
            for field in dataclasses.fields(cls)
        }
        return cls(**arrays)


def ngrams_of(texts: Iterable[str], ngram_words: int) -> list[bytes]:
    """Returns the distinct n-grams of an item's ``texts``, in order, each as its words with one space between them.

    If no text has ``ngram_words`` words, the longest one is the only n-gram, provided it has at least 8 words.
    """
    parts = [[word.encode("utf-8", "surrogatepass") for word in words(text)] for text in texts]
    runs = [part[first : first + ngram_words] for part in parts for first in range(len(part) - ngram_words + 1)]
    if not runs:
        runs = [part for part in [max(parts, key=len, default=[])] if len(part) >= SHORTEST_WORDS]
    return list(dict.fromkeys(b" ".join(run) for run in runs))


def prefix_key(ngram: bytes) -> int:
    """Returns XXH64 of the first 8 words of ``ngram``."""
    return xxhash.xxh64_intdigest(b" ".join(ngram.split(b" ", SHORTEST_WORDS)[:SHORTEST_WORDS]))


def _bounds(sizes: Iterable[int]) -> NDArray[np.uint64]:
    return np.cumsum([0, *sizes], dtype=np.uint64)
