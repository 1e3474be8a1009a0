"""Which documents of a component stay: each one unless a document that stays already says the same.

    component, by priority    d0  d1  d2  d3  …
    d0 stays, and so does each di whose exact Jaccard similarity with every dj that stays, j < i, is below the threshold
    a di that does not points to the most similar of those dj (of equally similar ones to the first)

This is the greedy maximal independent set of the graph of all similar pairs: what goes is similar to what stays for it
(no chains of duplicates lead to a stranger), and no two documents of a component that stay are similar. It depends on
the priorities and the components only.

A document is compared with those that stay and may be similar by the prefix filter (Chaudhuri, Ganti, Kaushik, A
primitive operator for similarity joins, 2006; Bayardo, Ma, Srikant, Scaling up all pairs similarity search, 2007): sort
each set x by one order of all shingles; two sets with Jaccard ≥ t have ⌈t·max(|x|, |y|)⌉ shingles in common, so one of
them is among the first |x| - ⌈t·|x|⌉ + 1 of x and as many of y. That is exact with any order; the rarest first, by a
count of at most MOST_COUNTERS hashed shingles, makes the lists short. Sets of too different sizes are passed over. So a
component of n near duplicates of m that stay takes little more than n comparisons, not n².
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.kernel import kernel
from data_prep.dedup.numbering import Numbers
from data_prep.dedup.shuffle import runs
from data_prep.dedup.verification import BATCH_SHINGLES, Hashes, jaccard, read_sets, read_sizes
from pipeline.core.artifact import TaskOutput

MOST_COUNTERS = 1 << 22
"""Counters of shingles, 4 bytes each. Two shingles that share one count as more common than they are."""

STAYS = -1
"""Instead of the place of a survivor."""


def select(
    out: TaskOutput, component: Numbers, documents: Numbers, is_older: NDArray[np.bool_], threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """The survivor of each document and their similarity, where it goes.

    Args:
        out: where the phase before left the shingle sets.
        component: (n_documents,) the component of each; those of one lie together.
        documents: (n_documents,) the members of the components, by priority in each.
        is_older: (n_documents,) documents that stay without being asked; they come first in their component.
        threshold: least Jaccard similarity of a duplicate.

    Returns:
        The place in ``documents`` of each one's survivor, or STAYS; the exact Jaccard similarity with it; the number
        of comparisons made.
    """
    starts = runs(component)
    survivors, similarity, compared = np.full(documents.size, STAYS), np.ones(documents.size), 0
    for first, last in itertools.pairwise(_batches(out, documents, starts)):
        begin, end = starts[first], starts[last]
        here, places = np.unique(documents[begin:end], return_inverse=True)
        sets = read_sets(out, here)
        found, values, n = _select_all(
            starts[first : last + 1] - begin, places, sets.bounds, sets.hashes, is_older[begin:end], threshold
        )
        survivors[begin:end] = np.where(found == STAYS, STAYS, found + begin)
        similarity[begin:end] = values
        compared += n
    return survivors, similarity, compared


def _batches(out: TaskOutput, documents: Numbers, starts: NDArray[np.int64]) -> Iterator[int]:
    """The bounds, in components, of batches that hold BATCH_SHINGLES or a single component."""
    order = np.argsort(documents)
    sizes = np.empty(documents.size, np.int64)
    sizes[order] = read_sizes(out, documents[order])
    weight = 0
    for component, own in enumerate(np.add.reduceat(sizes, starts[:-1]) if documents.size else ()):
        if weight == 0 or weight + own > BATCH_SHINGLES:
            yield component
            weight = 0
        weight += own
    yield starts.size - 1


@kernel
def _select_all(
    starts: NDArray[np.int64],
    members: NDArray[np.int64],
    bounds: NDArray[np.int64],
    hashes: Hashes,
    is_older: NDArray[np.bool_],
    threshold: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:  # pragma: no cover (compiled)
    """``select`` for components between ``starts``; ``members`` are places in ``bounds`` (see ShingleSets)."""
    survivors = np.full(members.size, STAYS, np.int64)
    similarity = np.ones(members.size, np.float64)
    n_compared = 0
    for component in range(starts.size - 1):
        piece = slice(starts[component], starts[component + 1])
        found = survivors[piece]
        n_compared += _select(members[piece], bounds, hashes, is_older[piece], threshold, found, similarity[piece])
        for place in range(found.size):
            if found[place] != STAYS:
                found[place] += starts[component]
    return survivors, similarity, n_compared


@kernel
def _select(
    members: NDArray[np.int64],
    bounds: NDArray[np.int64],
    hashes: Hashes,
    is_older: NDArray[np.bool_],
    threshold: float,
    survivors: NDArray[np.int64],
    similarity: NDArray[np.float64],
) -> int:  # pragma: no cover (compiled)
    """Walk down one component; the number of comparisons."""
    counts = _counts(members, bounds, hashes)
    n_prefixes = 0
    for one in members:
        n_prefixes += _prefix_size(bounds[one + 1] - bounds[one], threshold)
    heads = np.full(_power_of_two(2 * n_prefixes), -1, np.int64)
    nexts, owners = np.empty(n_prefixes, np.int64), np.empty(n_prefixes, np.int64)
    asked = np.full(members.size, -1, np.int64)
    n_postings, n_compared = 0, 0
    for place in range(members.size):
        own = hashes[bounds[members[place]] : bounds[members[place] + 1]]
        prefix = _rarest(own, counts, _prefix_size(own.size, threshold))
        if not is_older[place]:
            least = threshold
            for shingle in prefix:
                posting = heads[shingle & np.uint64(heads.size - 1)]
                while posting != -1:
                    other = owners[posting]
                    posting = nexts[posting]
                    if asked[other] == place:
                        continue
                    asked[other] = place
                    theirs = hashes[bounds[members[other]] : bounds[members[other] + 1]]
                    if min(own.size, theirs.size) < least * max(own.size, theirs.size) - 1e-6:
                        continue
                    n_compared += 1
                    value = jaccard(own, theirs, least)
                    if value > least or (value == least and (survivors[place] == STAYS or other < survivors[place])):
                        survivors[place], least = other, value
            if survivors[place] != STAYS:
                similarity[place] = least
                continue
        for shingle in prefix:
            slot = shingle & np.uint64(heads.size - 1)
            nexts[n_postings], owners[n_postings], heads[slot] = heads[slot], place, n_postings
            n_postings += 1
    return n_compared


@kernel
def _prefix_size(n_shingles: int, threshold: float) -> int:  # pragma: no cover (compiled)
    """How many of its rarest shingles a set of this size shares one of with every similar set."""
    return n_shingles - int(np.ceil(threshold * n_shingles - 1e-6)) + 1


@kernel
def _rarest(own: Hashes, counts: NDArray[np.uint32], number: int) -> Hashes:  # pragma: no cover (compiled)
    """The ``number`` first of a sorted set in the order (count, hash)."""
    frequency = np.empty(own.size, np.uint32)
    for i in range(own.size):
        frequency[i] = counts[own[i] & np.uint64(counts.size - 1)]
    return own[np.argsort(frequency, kind="mergesort")[:number]]


@kernel
def _counts(
    members: NDArray[np.int64], bounds: NDArray[np.int64], hashes: Hashes
) -> NDArray[np.uint32]:  # pragma: no cover (compiled)
    """How many of the sets hold each shingle, at the last bits of its hash."""
    n_shingles = 0
    for one in members:
        n_shingles += bounds[one + 1] - bounds[one]
    counts = np.zeros(min(_power_of_two(2 * n_shingles), MOST_COUNTERS), np.uint32)
    for one in members:
        for shingle in hashes[bounds[one] : bounds[one + 1]]:
            counts[shingle & np.uint64(counts.size - 1)] += np.uint32(1)
    return counts


@kernel
def _power_of_two(least: int) -> int:  # pragma: no cover (compiled)
    size = 1
    while size < least:
        size *= 2
    return size
