"""Selection: which documents of a component are kept, and the survivor of each removed one.

    component, by priority    d0  d1  d2  d3  …

The documents are visited in the order of priority. d0 is kept. Each di is kept if its exact Jaccard similarity with
every kept dj, j < i, is below the threshold. Otherwise its survivor is the most similar of these dj (the first one of
equally similar ones).

This is the greedy maximal independent set of the graph of all similar pairs. A removed document is similar to its
survivor (chains of duplicates do not lead to dissimilar documents), and no two kept documents of a component are
similar. The result depends only on the priorities and the components.

The prefix filter finds the kept documents that may be similar (Chaudhuri, Ganti, Kaushik, A primitive operator for
similarity joins, 2006; Bayardo, Ma, Srikant, Scaling up all pairs similarity search, 2007). All sets are sorted by one
order of shingles. Two sets with Jaccard ≥ t have at least ⌈t·max(|x|, |y|)⌉ shingles in common, so they share one among
the first |x| - ⌈t·|x|⌉ + 1 shingles of x and the first |y| - ⌈t·|y|⌉ + 1 of y. This holds for any order. The order is
rarest first, by a count of at most MOST_COUNTERS hashed shingles, which keeps the lists short. Sets whose sizes differ
too much are skipped. So a component of n near duplicates, of which m are kept, costs little more than n comparisons.

A link leads from a document to remove to the survivor that is kept for it.

exact   copy → representative              for each copy of a text but one
near    representative → survivor          found by the selection in each component
        copy → survivor                    ``with_copies``: exact copies share their representative's fate
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.corpus import BY_PRIORITY, FIRST_OF_OURS, rows_of
from headrace.data_prep.dedup.shingle_sets import GatheredSets, Hashes
from headrace.data_prep.dedup.verification import jaccard
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.exchange import dtype_of, receive_sorted, sorting_folder
from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, records_of, run_bounds, whole_runs
from headrace.pipeline.core.artifact import TaskOutput

MOST_COUNTERS = 1 << 22
"""Counters of shingles, 4 bytes each. Shingles that share a counter are counted as more common than they are."""

KEPT = -1
"""Marks a kept document in an array of survivors."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """The kept documents and the survivors in some components."""

    records: Records
    """(n_documents,) the components one after the other, each sorted by priority."""
    survivors: NDArray[np.int64]
    """(n_documents,) index in ``records`` of each document's survivor; its own index if it is kept."""
    similarity: NDArray[np.float64]
    """(n_documents,) exact Jaccard similarity with the survivor."""
    components: int
    """Number of components."""
    compared: int
    """Number of comparisons."""


def select_survivors(
    out: TaskOutput, source: str, writers: int, threshold: float, memory_bytes: int
) -> Iterator[Selection]:
    """Selects the documents to keep in the components of this task, in blocks.

    Args:
        out: output of this task.
        source: the records from the ``writers`` tasks of the previous phase (see ``receive``). ``root`` identifies the
            component of a document, the fields BY_PRIORITY (see ``corpus``) its priority; a document whose precedence
            is that of an older run is always kept. ``start`` and ``shingles`` locate its set in its shard.
        writers: number of tasks of the previous phase.
        threshold: least Jaccard similarity of a duplicate.
        memory_bytes: bound on memory. Larger components are held whole, their sets in a memory-mapped file.
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


def _select_within(records: Records, sets: GatheredSets, threshold: float) -> Selection:
    """Selects in whole components. Memory holds a batch of their sets."""
    starts = run_bounds(records["root"])
    survivors, similarity, compared = np.arange(records.size), np.ones(records.size), 0
    for first, last in sets.batches(np.add.reduceat(records["shingles"], starts[:-1])):
        begin, end = starts[first], starts[last]
        piece = records[begin:end]
        order = np.argsort(piece["start"])
        bounds, hashes = sets.read(piece["start"][order], piece["shingles"][order])
        is_older = piece["precedence"] < FIRST_OF_OURS
        chosen, values, n = select_all(
            starts[first : last + 1] - begin, np.argsort(order), bounds, hashes, is_older, threshold
        )
        survivors[begin:end] = np.where(chosen == KEPT, survivors[begin:end], chosen + begin)
        similarity[begin:end] = values
        compared += n
    return Selection(records, survivors, similarity, starts.size - 1, compared)


@kernel
def select_all(
    starts: NDArray[np.int64],
    members: NDArray[np.int64],
    bounds: NDArray[np.int64],
    hashes: Hashes,
    is_older: NDArray[np.bool_],
    threshold: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:  # pragma: no cover (compiled)
    """Selects in each of the components between ``starts``.

    Args:
        starts: index in ``members`` at which each component starts, and the end, (n_components + 1,).
        members: index in ``bounds`` of each document, (n_documents,).
        bounds: with ``hashes``, the shingle sets (see ``shingle_sets``).
        is_older: whether a document is an older one, (n_documents,).
        threshold: least Jaccard similarity of a duplicate.

    Returns:
        The index in ``members`` of each document's survivor, or KEPT; its similarity; the number of comparisons.
    """
    survivors = np.full(members.size, KEPT, np.int64)
    similarity = np.ones(members.size, np.float64)
    n_compared = 0
    for component in range(starts.size - 1):
        piece = slice(starts[component], starts[component + 1])
        chosen = survivors[piece]
        n_compared += _select(members[piece], bounds, hashes, is_older[piece], threshold, chosen, similarity[piece])
        for i in range(chosen.size):
            if chosen[i] != KEPT:
                chosen[i] += starts[component]
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
    """Fills ``survivors`` and ``similarity`` of one component and returns the number of comparisons."""
    counts = _counts(members, bounds, hashes)
    n_prefixes = 0
    for member in members:
        n_prefixes += _prefix_size(bounds[member + 1] - bounds[member], threshold)
    heads = np.full(_power_of_two(2 * n_prefixes), -1, np.int64)
    nexts, owners = np.empty(n_prefixes, np.int64), np.empty(n_prefixes, np.int64)
    last_seen = np.full(members.size, -1, np.int64)
    n_postings, n_compared = 0, 0
    for i in range(members.size):
        own = hashes[bounds[members[i]] : bounds[members[i] + 1]]
        prefix = _rarest(own, counts, _prefix_size(own.size, threshold))
        if not is_older[i]:
            least = threshold
            for shingle in prefix:
                posting = heads[shingle & np.uint64(heads.size - 1)]
                while posting != -1:
                    other = owners[posting]
                    posting = nexts[posting]
                    if last_seen[other] == i:
                        continue
                    last_seen[other] = i
                    other_set = hashes[bounds[members[other]] : bounds[members[other] + 1]]
                    if min(own.size, other_set.size) < least * max(own.size, other_set.size) - 1e-6:
                        continue
                    n_compared += 1
                    value = jaccard(own, other_set, least)
                    if value > least or (value == least and (survivors[i] == KEPT or other < survivors[i])):
                        survivors[i], least = other, value
            if survivors[i] != KEPT:
                similarity[i] = least
                continue
        for shingle in prefix:
            slot = shingle & np.uint64(heads.size - 1)
            nexts[n_postings], owners[n_postings], heads[slot] = heads[slot], i, n_postings
            n_postings += 1
    return n_compared


@kernel
def _prefix_size(n_shingles: int, threshold: float) -> int:  # pragma: no cover (compiled)
    """Returns the prefix length of a set: it shares one of that many rarest shingles with each similar set."""
    return n_shingles - int(np.ceil(threshold * n_shingles - 1e-6)) + 1


@kernel
def _rarest(own: Hashes, counts: NDArray[np.uint32], number: int) -> Hashes:  # pragma: no cover (compiled)
    """Returns the first ``number`` shingles of a sorted set in the order (count, hash)."""
    frequency = np.empty(own.size, np.uint32)
    for i in range(own.size):
        frequency[i] = counts[own[i] & np.uint64(counts.size - 1)]
    return own[np.argsort(frequency, kind="mergesort")[:number]]


@kernel
def _counts(
    members: NDArray[np.int64], bounds: NDArray[np.int64], hashes: Hashes
) -> NDArray[np.uint32]:  # pragma: no cover (compiled)
    """Counts the sets that hold each shingle. The index of a counter is the last bits of the shingle's hash."""
    n_shingles = 0
    for member in members:
        n_shingles += bounds[member + 1] - bounds[member]
    counts = np.zeros(min(_power_of_two(2 * n_shingles), MOST_COUNTERS), np.uint32)
    for member in members:
        for shingle in hashes[bounds[member] : bounds[member + 1]]:
            counts[shingle & np.uint64(counts.size - 1)] += np.uint32(1)
    return counts


@kernel
def _power_of_two(least: int) -> int:  # pragma: no cover (compiled)
    size = 1
    while size < least:
        size *= 2
    return size


COPY = np.dtype([("document", "<u8"), ("representative", "<u8")])
"""A document, and its representative: the document with the same text that takes part in the search."""


def link_dtype(described: "np.dtype[Any]") -> "np.dtype[np.void]":
    """Returns the dtype of links between documents whose records have the dtype ``described`` (see ``links_of``)."""
    return np.dtype([("document", "<u8"), ("survivor", "<u8"), ("jaccard", "<f8"), ("survivor_id", described["id"])])


def links_of(described: Records, survivors: NDArray[np.int64], similarity: NDArray[np.float64]) -> Records:
    """Returns a link for each document to remove.

    Args:
        described: records with ``document`` and ``id``, (n,).
        survivors: index in ``described`` of each document's survivor, its own index if it is kept, (n,).
        similarity: similarity of the document and its survivor, (n,).
    """
    removed = np.flatnonzero(survivors != np.arange(survivors.size))
    kept = described[survivors[removed]]
    return records_of(
        document=described["document"][removed],
        survivor=kept["document"],
        jaccard=similarity[removed],
        survivor_id=kept["id"],
    )


def with_copies(links: Records, copies: Records) -> Records:
    """Returns ``links`` of near duplicates, and the same link for each exact copy of a document to remove.

    Args:
        links: links of representatives.
        copies: COPY of these and of other representatives.
    """
    if not links.size:
        return links
    links = links[np.argsort(links["document"])]
    indices = np.minimum(np.searchsorted(links["document"], copies["representative"]), links.size - 1)
    is_removed = links["document"][indices] == copies["representative"]
    links_of_copies = links[indices[is_removed]]
    links_of_copies["document"] = copies["document"][is_removed]
    return np.concatenate([links, links_of_copies])


def removed_records(links: Records, exact: NDArray[np.bool_]) -> Records:
    """Returns the records in removed/*.npy of one shard, one for each link: (n,).

    Args:
        links: links of the shard's documents, sorted by document, (n,).
        exact: whether the texts are equal, (n,).
    """
    ids = links["survivor_id"]
    return records_of(
        row=rows_of(links["document"]).astype(np.uint32),
        survivor=links["survivor"],
        jaccard=links["jaccard"],
        exact=exact,
        survivor_id=ids.astype(f"S{np.strings.str_len(ids).max(initial=1)}"),
    )
