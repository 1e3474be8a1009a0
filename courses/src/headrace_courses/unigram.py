"""Unigram tokenizers (Kudo 2018), as SentencePiece makes them for T5: a text becomes its most likely pieces.

Their training (section 3.2; its details are those of SentencePiece's trainer):

    words and counts ── seeds ──> frequent substrings ── EM, prune, EM, prune, … ──> pieces with ln p

Everything that depends on an order is sorted and summed in one thread, so every run gives the same pieces and scores.

    word        ▁mills                 edges: (start, end, piece) of every piece that a word contains, by start
    edges       ▁  ▁m  ▁mill  m  mi    alpha[end]  = ln Σ over edges of exp(alpha[start] + score)
                il  mill  ls  s  …     expected[piece] += count · exp(alpha[start] + score + beta[end] − alpha[last])
"""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, normalizers

from headrace.data_prep.kernel import kernel
from headrace.data_prep.tokenization.made_tokenizers import WithAlphabet, spaced
from headrace.data_prep.tokenization.special_tokens import unknown_of
from headrace.pipeline.core.settings import settings

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SEEDS = 20
"""Seed pieces for each piece of the result."""
SHRINKING = 0.75
"""The share of pieces that a pruning keeps at least."""
BEFORE_LAST_CHOICE = 1.1
"""Pruning ends at this multiple of the final number, which the highest scores decide."""
LEAST_EXPECTED = 0.5
"""Pieces that are expected to occur less often are removed."""
EM_STEPS = 2
DIGITS = 6
"""Decimals of the scores."""
LONGEST_PIECE = 16
"""Most characters of a piece."""


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


@settings
class Unigram(WithAlphabet):
    """The pieces with which the words of the sample are most likely. White space becomes one space, as in T5."""

    type: Literal["unigram"] = "unigram"

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Trains on ``texts`` in one thread: the library's own trainer gives other scores on every run."""
        blank = spaced(tokenizers.Tokenizer(models.Unigram()), byte_fallback=False, before=nmt_nfkc())
        words = Counter[str]()
        for text in texts:
            normalized = blank.normalizer.normalize_str(text)
            words.update(word for word, _ in blank.pre_tokenizer.pre_tokenize_str(normalized))
        known = _of_known_characters(words, self.alphabet_size)
        pieces = [(token, 0.0) for token in first] + train_pieces(known, size - len(first))
        blank.model = models.Unigram(pieces, first.index(unknown_of(first)), False)
        return blank


def nmt_nfkc() -> list[normalizers.Normalizer]:
    """Returns SentencePiece's default normalization: NFKC, no control characters, one space for all white space."""
    return [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]


def _of_known_characters(words: Counter[str], size: int) -> Counter[str]:
    """Returns ``words`` without their rarer characters: the parts between these count as words."""
    counts = Counter[str]()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    frequent = sorted(counts, key=lambda character: (-counts[character], character))[:size]
    parts = re.compile(f"[{''.join(map(re.escape, frequent))}]+") if frequent else re.compile(r"(?!)")
    known = Counter[str]()
    for word, count in words.items():
        for part in parts.findall(word):
            known[part] += count
    return known


def train_pieces(words: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """Returns at most ``size`` pieces with their scores (ln p), the most likely first; all characters are among them.

    Args:
        words: each word and the number of times that it occurs.
        size: at least the number of different characters.
    """
    if not words:
        return []
    corpus = corpus_of(words)
    texts, frequencies, edges = seed_pieces(corpus, SEEDS * size)
    is_character = np.array([len(text) == 1 for text in texts])
    is_kept = np.ones(len(texts), bool)
    scores = np.log(frequencies) - math.log(frequencies.sum())
    while True:
        for _ in range(EM_STEPS):
            expected = _expected(corpus, edges, scores)
            is_kept &= is_character | (expected >= LEAST_EXPECTED)
            edges = edges.of(is_kept)
            weights = np.maximum(expected[is_kept], LEAST_EXPECTED)
            scores[is_kept] = _digamma(weights) - _digamma(np.array([weights.sum()]))
        number = int(is_kept.sum())
        if number <= BEFORE_LAST_CHOICE * size:
            break
        is_kept = _pruned(corpus, edges, scores, is_kept, is_character, max(size, int(SHRINKING * number)))
        edges = edges.of(is_kept)
    rounded = np.round(scores, DIGITS)
    ranked = sorted(np.flatnonzero(is_kept).tolist(), key=lambda piece: (-rounded[piece], texts[piece]))
    others = [piece for piece in ranked if not is_character[piece]]
    left_out = set(others[size - int(is_character.sum()) :])
    return [(texts[piece], float(rounded[piece])) for piece in ranked if piece not in left_out]


def _expected(corpus: WordCorpus, edges: PieceEdges, scores: Floats) -> Floats:
    """Returns the expected number of times that each piece is used, over all segmentations of all words."""
    firsts = edges.first_at(corpus.bounds_W)
    result = np.zeros(len(scores))
    _add_expected(corpus.bounds_W, corpus.counts_W, firsts, edges.starts, edges.ends, edges.pieces, scores, result)
    return result


def _pruned(
    corpus: WordCorpus,
    edges: PieceEdges,
    scores: Floats,
    is_kept: NDArray[np.bool_],
    is_character: NDArray[np.bool_],
    number: int,
) -> NDArray[np.bool_]:
    """Returns the ``number`` pieces without which the likelihood of the words would fall most, characters included.

    A removed piece is replaced by its best segmentation into others.
    """
    firsts = edges.first_at(corpus.bounds_W)
    used = np.zeros(len(scores))
    arrays = (edges.starts, edges.ends, edges.pieces, scores)
    _add_best(corpus.bounds_W, corpus.counts_W, firsts, *arrays, used)
    occurrence = np.zeros(len(scores), np.int64)
    occurrence[edges.pieces[::-1]] = np.arange(len(edges.pieces))[::-1]
    losses = np.full(len(scores), -math.inf)
    _add_losses(occurrence, np.flatnonzero(is_kept & ~is_character & (used > 0)), *arrays, used, losses)
    order = np.lexsort((np.arange(len(scores)), -losses))
    result = is_character & is_kept
    result[order[np.isfinite(losses[order])][: max(0, number - int(result.sum()))]] = True
    return result


@kernel
def _add_expected(
    bounds: Integers,
    counts: Integers,
    firsts: Integers,
    starts: Integers,
    ends: Integers,
    pieces: Integers,
    scores: Floats,
    result: Floats,
) -> None:
    """Adds to ``result`` the expected counts of the pieces: the forward–backward algorithm on each word."""
    for word in range(len(counts)):
        begin, length = bounds[word], bounds[word + 1] - bounds[word]
        alpha, beta = np.full(length + 1, -np.inf), np.full(length + 1, -np.inf)
        alpha[0], beta[length] = 0.0, 0.0
        for edge in range(firsts[word], firsts[word + 1]):
            end = ends[edge] - begin
            alpha[end] = np.logaddexp(alpha[end], alpha[starts[edge] - begin] + scores[pieces[edge]])
        for edge in range(firsts[word + 1] - 1, firsts[word] - 1, -1):
            start = starts[edge] - begin
            beta[start] = np.logaddexp(beta[start], beta[ends[edge] - begin] + scores[pieces[edge]])
        for edge in range(firsts[word], firsts[word + 1]):
            score = alpha[starts[edge] - begin] + scores[pieces[edge]] + beta[ends[edge] - begin] - alpha[length]
            result[pieces[edge]] += counts[word] * np.exp(score)


@kernel
def _add_best(
    bounds: Integers,
    counts: Integers,
    firsts: Integers,
    starts: Integers,
    ends: Integers,
    pieces: Integers,
    scores: Floats,
    result: Floats,
) -> None:
    """Adds to ``result`` the number of times that the best segmentations of the words use each piece."""
    for word in range(len(counts)):
        begin, length = bounds[word], bounds[word + 1] - bounds[word]
        best, through = np.full(length + 1, -np.inf), np.full(length + 1, -1)
        best[0] = 0.0
        for edge in range(firsts[word], firsts[word + 1]):
            start, end = starts[edge] - begin, ends[edge] - begin
            score = best[start] + scores[pieces[edge]]
            if score > best[end]:
                best[end], through[end] = score, edge
        end = length
        while end > 0:
            edge = through[end]
            result[pieces[edge]] += counts[word]
            end = starts[edge] - begin


@kernel
def _add_losses(
    occurrence: Integers,
    candidates: Integers,
    starts: Integers,
    ends: Integers,
    pieces: Integers,
    scores: Floats,
    used: Floats,
    result: Floats,
) -> None:
    """Writes to ``result`` by how much the log likelihood falls without each of the ``candidates``.

    ``occurrence`` is the index of one edge of each piece: there, it is segmented without itself.
    """
    total = used.sum()
    for candidate in candidates:
        edge = occurrence[candidate]
        begin, length = starts[edge], ends[edge] - starts[edge]
        while edge > 0 and starts[edge - 1] == begin:
            edge -= 1
        best, through = np.full(length + 1, -np.inf), np.full(length + 1, -1)
        best[0] = 0.0
        while edge < len(starts) and starts[edge] < begin + length:
            end = ends[edge] - begin
            if end <= length and pieces[edge] != candidate:
                score = best[starts[edge] - begin] + scores[pieces[edge]]
                if score > best[end]:
                    best[end], through[end] = score, edge
            edge += 1
        if best[length] > scores[candidate]:  # no best segmentation uses it
            continue
        parts, replaced, end = 0, 0.0, length
        while end > 0:
            part = pieces[through[end]]
            replaced += np.log(used[part] + used[candidate])
            parts, end = parts + 1, starts[through[end]] - begin
        replaced -= parts * np.log(total + used[candidate] * (parts - 1))
        result[candidate] = used[candidate] / total * (np.log(used[candidate]) - np.log(total) - replaced)


def _digamma(values: Floats) -> Floats:
    """Returns the derivative of ln Γ: the recurrence up to 7, then its asymptotic series (error below 1e-10)."""
    below, x = np.zeros_like(values), values.copy()
    while (small := x < 7).any():
        below[small] -= 1 / x[small]
        x[small] += 1
    inverse = 1 / (x * x)
    return below + np.log(x) - 0.5 / x - inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
