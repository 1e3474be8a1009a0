"""Collocations: the n-grams of 2 to 5 words whose words come together more often than by chance (Levine et al. 2021).

    tokens     the ci ##vil engineer ##s ...                       words: a token, and those after it that continue it
    n-grams    the civil | civil engineers | the civil engineers   inside a document, 1 to 5 words

    PMI(w) = min over all ways to divide w in 2 or more parts of ln p(w) / Π p(part)        "PMI-Masking", eq. 3

p is the count of an n-gram over that of all n-grams of its number of words. The minimum keeps an n-gram out that is
frequent only for a part of it.

    blocks of documents ── n-grams by hash, counted ──> external sort by hash ── summed ──> counts of at least `least`

Time is linear in the tokens but for the sort, and memory is bounded by ``memory_bytes`` and the n-grams that are kept.
No part of an n-gram that is kept is left out, for it has at least its count. Hashes have 64 bits: of a billion n-grams
two are taken for one with a probability of 3 %.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.shuffle.external_sort import external_sort
from headrace.data_prep.shuffle.records import Records, records_of, run_bounds, whole_runs
from headrace.data_prep.tokenization.shards import TokenShards
from headrace_courses.collocation_masks import MOST_WORDS

BLOCK_TOKENS = 1 << 20
"""About as many tokens are counted together; a document is never divided."""
GRAM = np.dtype(
    [("key", "<u8"), ("count", "<u8"), ("words", "u1"), ("shard", "<u4"), ("start", "<u8"), ("stop", "<u8")]
)
"""An n-gram: its hash, its count, its number of words, and the tokens of one place where it is."""
Hashes = NDArray[np.uint64]
WordTokens = tuple[tuple[int, ...], ...]
"""The token ids of each word."""


@dataclasses.dataclass(frozen=True)
class Collocation:
    """An n-gram of words with its count and its PMI in nats."""

    words: WordTokens
    count: int
    pmi: float


@dataclasses.dataclass(frozen=True)
class WordRule:
    """The rule that divides tokens into words."""

    continues_V: NDArray[np.bool_]
    """(vocabulary,): whether a token continues the word before it."""
    reserved: NDArray[np.int64]
    """The special tokens, which are in no word."""

    def starts(self, tokens: NDArray[np.integer]) -> NDArray[np.int64]:
        """Returns the index of the first token of each word of ``tokens``; a special token is one, too."""
        is_special = np.isin(tokens, self.reserved)
        continues = self.continues_V[tokens] & ~is_special
        continues[1:] &= ~is_special[:-1]
        continues[:1] = False
        return np.flatnonzero(~continues)


def ranked(shards: TokenShards, rule: WordRule, least: int, memory_bytes: int, folder: Path) -> list[Collocation]:
    """Returns the collocations that come at least ``least`` times, by falling PMI; ``folder`` is for what does not fit
    in ``memory_bytes``."""
    totals = np.zeros(MOST_WORDS + 1, np.int64)

    def counted() -> Iterator[Records]:
        for block in _blocks(shards, rule):
            totals[:] += np.bincount(block["words"], block["count"], MOST_WORDS + 1).astype(np.int64)
            yield block

    kept = [np.empty(0, GRAM)]
    for block in whole_runs(external_sort(counted(), GRAM, ("key",), memory_bytes, folder), ("key",)):
        sums = _summed(block)
        kept.append(sums[sums["count"] >= least])
    grams = np.concatenate(kept)
    log_p = np.log(grams["count"]) - np.log(totals[grams["words"]])
    log_p_of = dict(zip(grams["key"].tolist(), log_p.tolist(), strict=True))
    collocations = (_collocation(gram, shards, rule, log_p_of) for gram in grams[grams["words"] > 1])
    return sorted(collocations, key=lambda collocation: (-collocation.pmi, -collocation.count, collocation.words))


def _blocks(shards: TokenShards, rule: WordRule) -> Iterator[Records]:
    """Yields the n-grams of blocks of documents with their counts."""
    for shard in range(len(shards)):
        bounds = shards.bounds(shard).astype(np.int64)
        first = 0
        while first < len(bounds) - 1:
            last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + BLOCK_TOKENS, "right")) - 1)
            start, stop = int(bounds[first]), int(bounds[last])
            yield _grams(shards.slice(shard, start, stop + 1), rule, shard, start)
            first = last


def _grams(tokens: NDArray[np.integer], rule: WordRule, shard: int, offset: int) -> Records:
    """Returns each n-gram of ``tokens`` once, with its count; the tokens begin at ``offset`` of ``shard``."""
    starts = rule.starts(tokens)
    ends, hashes = np.append(starts[1:], len(tokens)), word_hashes(tokens, starts)
    is_word = ~np.isin(tokens[starts], rule.reserved)
    text = np.cumsum(~is_word)  # a special token ends a text
    grams = []
    for words in range(1, MOST_WORDS + 1):
        firsts = np.flatnonzero(is_word[: max(0, len(starts) - words + 1)])
        firsts = firsts[text[firsts] == text[firsts + words - 1]]
        keys, index, counts = np.unique(gram_keys(hashes, firsts, words), return_index=True, return_counts=True)
        places = firsts[index]
        grams.append(
            records_of(
                key=keys,
                count=counts.astype("<u8"),
                words=np.full(len(keys), words, np.uint8),
                shard=np.full(len(keys), shard, "<u4"),
                start=(starts[places] + offset).astype("<u8"),
                stop=(ends[places + words - 1] + offset).astype("<u8"),
            )
        )
    return np.concatenate(grams)


def _summed(block: Records) -> Records:
    """Returns one record for each key of a sorted ``block``, with the sum of its counts."""
    firsts = run_bounds(block["key"])[:-1]
    sums = block[firsts].copy()
    sums["count"] = np.add.reduceat(block["count"], firsts)
    return sums


def word_hashes(tokens: NDArray[np.integer], starts: NDArray[np.int64]) -> Hashes:
    """Returns a hash of each word of ``tokens``: the sum of those of its tokens at their places in it."""
    places = np.arange(len(tokens)) - np.repeat(starts, np.diff(np.append(starts, len(tokens))))
    mixed = _mixed(tokens.astype(np.uint64) | places.astype(np.uint64) << np.uint64(32))
    return np.add.reduceat(mixed, starts)


def gram_keys(hashes: Hashes, firsts: NDArray[np.int64], words: int) -> Hashes:
    """Returns a hash of the n-grams of ``words`` words that begin at the words ``firsts``."""
    keys = np.full(len(firsts), words, np.uint64)
    for place in range(words):
        keys += _mixed(hashes[firsts + place] ^ _mixed(np.array([place + 1], np.uint64)))
    return keys


def _mixed(values: Hashes) -> Hashes:
    """Returns splitmix64's permutation of ``values`` (Steele et al. 2014), modulo 2^64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


def _collocation(gram: np.void, shards: TokenShards, rule: WordRule, log_p_of: Mapping[int, float]) -> Collocation:
    tokens = shards.slice(int(gram["shard"]), int(gram["start"]), int(gram["stop"]))
    starts = rule.starts(tokens)
    hashes, number = word_hashes(tokens, starts), len(starts)
    log_p = {
        (first, first + words): log_p_of[int(gram_keys(hashes, np.array([first]), words)[0])]
        for words in range(1, number + 1)
        for first in range(number - words + 1)
    }
    ids = tokens.tolist()
    ends = [*starts[1:].tolist(), len(ids)]
    words = tuple(tuple(ids[start:end]) for start, end in zip(starts.tolist(), ends, strict=True))
    return Collocation(words, int(gram["count"]), pmi(log_p, number))


def pmi(log_p: Mapping[tuple[int, int], float], words: int) -> float:
    """Returns the PMI of an n-gram from ``log_p`` of its parts [first, end): ln p of the whole, less that of the
    likeliest division."""
    best = [0.0] + [-math.inf] * words
    for end in range(1, words + 1):
        firsts = range(1 if end == words else 0, end)  # the whole is no division
        best[end] = max(best[first] + log_p[first, end] for first in firsts)
    return log_p[0, words] - best[words]


def lines(collocations: Sequence[Collocation], tokens: Mapping[int, str]) -> Iterator[dict[str, object]]:
    """Yields each of ``collocations`` as a line of a vocabulary file, with the spelling of its ``tokens``."""
    for collocation in collocations:
        words = [[tokens[number] for number in word] for word in collocation.words]
        yield {"words": words, "count": collocation.count, "pmi": round(collocation.pmi, 6)}
