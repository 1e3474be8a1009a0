"""The pieces that the training of a Unigram model begins with: frequent substrings of the words, and where they occur.

{"▁mill": 3, "▁mills": 2} ── corpus_of ──> WordCorpus ── seed_pieces ──> ▁, m, …, ▁mill with weights, Edges
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

LONGEST_PIECE = 16
"""Most characters of a piece."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class WordCorpus:
    """All distinct words, one after the other."""

    text: str
    codes_N: Integers
    """The index of each character in the sorted alphabet."""
    bounds_W: Integers
    """The offset of each word, and the end of the last one: (words + 1,)."""
    counts_W: Integers
    """The number of times that each word occurs."""


@dataclasses.dataclass(frozen=True)
class PieceEdges:
    """Every occurrence of every piece in the words, in the order of the offsets."""

    starts: Integers
    ends: Integers
    pieces: Integers

    def of(self, is_kept: NDArray[np.bool_]) -> "PieceEdges":
        """Returns the occurrences of the pieces that are kept."""
        kept = is_kept[self.pieces]
        return PieceEdges(self.starts[kept], self.ends[kept], self.pieces[kept])

    def first_at(self, offsets: Integers) -> Integers:
        """Returns the index of the first occurrence from each of ``offsets`` on."""
        return np.searchsorted(self.starts, offsets)


def corpus_of(words: Mapping[str, int]) -> WordCorpus:
    """Returns the ``words`` (word → count), sorted."""
    ordered = sorted(words)
    text = "".join(ordered)
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    _, codes_N = np.unique(points, return_inverse=True)
    bounds_W = np.concatenate([[0], np.cumsum([len(word) for word in ordered])])
    return WordCorpus(text, codes_N.astype(np.int64), bounds_W, np.array([words[word] for word in ordered], np.int64))


def seed_pieces(corpus: WordCorpus, number: int) -> tuple[list[str], Floats, PieceEdges]:
    """Returns the substrings that occur twice and are the longest and most frequent, frequency times length, and edges.

    Substrings of each length are numbered by the substring without its last character, and that character.
    """
    words_N = np.repeat(np.arange(len(corpus.counts_W)), np.diff(corpus.bounds_W))
    ends_N, counts_N = corpus.bounds_W[1:][words_N], corpus.counts_W[words_N]
    starts, numbers = np.arange(len(corpus.text)), corpus.codes_N
    characters = int(numbers.max()) + 1
    substrings: list[tuple[str, int]] = []
    edges: list[tuple[Integers, int, Integers]] = []
    for length in range(1, LONGEST_PIECE + 1):
        if length > 1:
            fits = starts + length <= ends_N[starts]
            starts, numbers = starts[fits], numbers[fits]
            numbers = numbers * characters + corpus.codes_N[starts + length - 1]
        _, first, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        frequencies = np.bincount(numbers, weights=counts_N[starts]).astype(np.int64)
        edges.append((starts, length, numbers + len(substrings)))
        where = starts[first].tolist() if len(starts) else []
        substrings += [
            (corpus.text[start : start + length], frequency)
            for start, frequency in zip(where, frequencies.tolist(), strict=True)
        ]
        often = frequencies[numbers] >= 2
        starts, numbers = starts[often], numbers[often]
    return _most_frequent(substrings, edges, number)


def _most_frequent(
    substrings: list[tuple[str, int]], edges: list[tuple[Integers, int, Integers]], number: int
) -> tuple[list[str], Floats, PieceEdges]:
    """Returns characters and the first ``number`` other substrings by frequency times length, and their edges."""
    useful = [
        (len(text) == 1, frequency * len(text), text, index)
        for index, (text, frequency) in enumerate(substrings)
        if len(text) == 1 or frequency >= 2
    ]
    useful.sort(key=lambda seed: (not seed[0], -seed[1], seed[2]))
    chosen = useful[: number + sum(seed[0] for seed in useful)]
    new_number = np.full(len(substrings), -1)
    new_number[[seed[3] for seed in chosen]] = np.arange(len(chosen))
    starts = np.concatenate([start for start, _, _ in edges])
    ends = np.concatenate([start + length for start, length, _ in edges])
    pieces = new_number[np.concatenate([piece for _, _, piece in edges])]
    order = np.lexsort((ends, starts))
    order = order[pieces[order] >= 0]
    texts, weights = [seed[2] for seed in chosen], np.array([seed[1] for seed in chosen], np.float64)
    return texts, weights, PieceEdges(starts[order], ends[order], pieces[order])
