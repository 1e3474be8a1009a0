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

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.corpus import BY_PRIORITY, FIRST_OF_OURS
from headrace.data_prep.dedup.shingle_sets import GatheredSets, Hashes
from headrace.data_prep.dedup.verification import jaccard
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.exchange import dtype_of, receive_sorted, sorting_folder
from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, runs, whole_runs
from headrace.pipeline.core.artifact import TaskOutput

MOST_COUNTERS = 1 << 22
"""Counters of shingles, 4 bytes each. Two shingles that share one count as more common than they are."""

STAYS = -1
"""Instead of the place of a survivor."""


@dataclasses.dataclass(frozen=True)
class Selected:
    """Who stays in some components."""

    records: Records
    """(n_documents,) the components one behind the other, each by priority."""
    stays: NDArray[np.int64]
    """(n_documents,) the place of each one's survivor, its own if it stays."""
    similarity: NDArray[np.float64]
    """(n_documents,) exact Jaccard similarity with it."""
    components: int
    compared: int


def selected(out: TaskOutput, source: str, writers: int, threshold: float, memory_bytes: int) -> Iterator[Selected]:
    """Who stays in the components that are this task's, in blocks.

    Args:
        out: of this task.
        source: what the ``writers`` tasks of the phase before left (see ``receive``): ``root`` says which component a
            document is of, BY_PRIORITY (see ``corpus``) who comes first, and whose precedence is of an older run stays
            without being asked; ``start`` and ``shingles`` say where the set lies in its shard.
        threshold: least Jaccard similarity of a duplicate.
        memory_bytes: bound on what is held; larger components are held whole, their sets in a file.
    """
    dtype, memory_bytes = dtype_of(out, source, writers), memory_bytes // 4
    with (
        GatheredSets(out, memory_bytes // 4) as sets,
        ExternalSort(dtype, ("root", *BY_PRIORITY), memory_bytes, sorting_folder(out)) as sorting,
    ):
        for records in receive_sorted(out, source, writers, dtype, ("document",), memory_bytes):
            records["start"] = sets.add(records["document"], records["start"], records["shingles"])
            sorting.add(records)
        for records in whole_runs(sorting.blocks(), ("root",)):
            yield _select_within(records, sets, threshold)


def _select_within(records: Records, sets: GatheredSets, threshold: float) -> Selected:
    """``Selected`` of whole components, a batch of their sets at a time."""
    starts = runs(records["root"])
    stays, similarity, compared = np.arange(records.size), np.ones(records.size), 0
    for first, last in sets.batches(np.add.reduceat(records["shingles"], starts[:-1])):
        begin, end = starts[first], starts[last]
        here = records[begin:end]
        order = np.argsort(here["start"])
        bounds, hashes = sets.read(here["start"][order], here["shingles"][order])
        is_older = here["precedence"] < FIRST_OF_OURS
        found, values, n = _select_all(
            starts[first : last + 1] - begin, np.argsort(order), bounds, hashes, is_older, threshold
        )
        stays[begin:end] = np.where(found == STAYS, stays[begin:end], found + begin)
        similarity[begin:end] = values
        compared += n
    return Selected(records, stays, similarity, starts.size - 1, compared)


@kernel
def _select_all(
    starts: NDArray[np.int64],
    members: NDArray[np.int64],
    bounds: NDArray[np.int64],
    hashes: Hashes,
    is_older: NDArray[np.bool_],
    threshold: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:  # pragma: no cover (compiled)
    """The survivors in components between ``starts``; ``members`` are places in ``bounds`` (see ``shingle_sets``)."""
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
