"""Unigram tokenizers (Kudo 2018), as SentencePiece makes them for T5: a text becomes its most likely pieces.

Their training (section 3.2; its details are those of SentencePiece's trainer):

    words and counts ── seeds ──> frequent substrings ── EM, prune, EM, prune, … ──> pieces with ln p

Everything that depends on an order is sorted and summed in one thread, so every run gives the same pieces and scores.

    word        ▁mills                 edges: (start, end, piece) of every piece that a word contains, by start
    edges       ▁  ▁m  ▁mill  m  mi    alpha[end]  = ln Σ over edges of exp(alpha[start] + score)
                il  mill  ls  s  …     expected[piece] += count · exp(alpha[start] + score + beta[end] − alpha[last])
"""

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
from headrace.data_prep.tokenization.special_tokens import unknown_of
from headrace.data_prep.tokenization.subwords import WithAlphabet, spaced
from headrace.data_prep.tokenization.unigram_seeds import (
    Floats,
    Integers,
    PieceEdges,
    WordCorpus,
    corpus_of,
    seed_pieces,
)
from headrace.pipeline.core.settings import settings

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
