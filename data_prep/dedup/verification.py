"""Verification: exact Jaccard similarity within the LSH groups of one bucket, in bounded memory.

    members from the shards  by document     numbered, their sets gathered (see ``shingle_sets``)
       │ external sort
    members in groups        [ group 0 | group 1 | group 2 ……………… | … ]      by (hash, shingles, digest, document)
    pieces                   [ 0       | 1       | 2    | 3    | 4  | … ]      of ``window`` documents at most
    batches                  [ 0                 | 1           | 2 …  ]        pieces, and the next one after the last

A piece of a large group is compared with itself and the next one. For the whole bucket there are three arrays with a
value for each document (its number, its parent in the union-find, a pair), mapped from files if memory is too small.

    group, sorted by size of the set      s0 ≤ s1 ≤ s2 ≤ s3 ≤ …

Each document is compared with the next larger ones, while |s_i| / |s_j|, the upper bound of the Jaccard similarity,
reaches the threshold. Two kinds of pairs are skipped: those that verified pairs already connect, and those of two older
documents (see ``corpus``), which are both kept.

So a group of n near duplicates costs n comparisons, not n², and the verified pairs still connect exactly the documents
that all similar pairs of the group would connect. Only in a group larger than ``window`` connections may be missed: a
document there is compared with at most ``window`` next ones, which bounds time and memory.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.clusters import PAIR, find
from headrace.data_prep.dedup.corpus import Numbers
from headrace.data_prep.dedup.shingle_sets import PHASE, GatheredSets, Hashes, Offsets
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.exchange import allocate, count_received, receive_blocks, sorting_folder
from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, records_of, run_starts, whole_runs
from headrace.pipeline.core.artifact import TaskOutput

MEMBERS = "members"
"""The kind of records that ``verified_pairs`` receives from PHASE."""
SOURCE = f"{PHASE}/{MEMBERS}"

NODE = np.dtype([("hash", "<u8"), ("shingles", "<i8"), ("digest", "<u8"), ("node", "<i8"), ("start", "<i8")])
"""A member of a group. ``node`` is its document's index in the bucket, ``start`` the start of its set."""

GROUPED = ("hash", "shingles", "digest", "node")
"""The order of members: by group, smaller sets first. The digest, which does not depend on the sharding, decides which
documents are compared in groups larger than the window."""
PIECE = ("hash", "piece")
"""Fields that are equal for all members of a piece."""


@dataclasses.dataclass(frozen=True)
class VerifiedPairs:
    """The verified pairs of one bucket."""

    pairs: NDArray[np.void]
    """(n_pairs,) PAIR, in the order found. They connect the same documents as all similar pairs would."""
    documents: Numbers
    """(n_documents,) numbers, ascending."""
    parents: Offsets
    """(n_documents,) union-find over the documents' indices. A root is the first document of its component."""
    compared: int
    """Number of comparisons."""


def member_records(grouped: Records, digests: Numbers, starts: Offsets, shingles: Offsets) -> Records:
    """Returns the records that a shard sends for its group members: (n,).

    Args:
        grouped: GROUP_MEMBER, sorted by document, (n,).
        digests: the first 8 bytes of the SHA-256 of each member's text, (n,).
        starts: start of each member's set (see ``write_sets``), (n,).
        shingles: size of each member's set, (n,).
    """
    return records_of(
        hash=grouped["hash"], shingles=shingles, digest=digests, document=grouped["document"], start=starts
    )


def verified_pairs(
    out: TaskOutput,
    shards: int,
    is_older: Callable[[Numbers], NDArray[np.bool_]],
    threshold: float,
    window: int,
    memory_bytes: int,
) -> VerifiedPairs:
    """Compares the documents within the groups that the shards sent to this task.

    Args:
        out: output of this task.
        shards: number of tasks of PHASE, which wrote MEMBERS and shingle sets.
        is_older: returns whether documents are older ones, which are not compared with each other.
        threshold: least exact Jaccard similarity of a pair.
        window: number of next larger documents that a document is compared with.
        memory_bytes: bound on memory: half for sorting, an eighth for the arrays, the rest for batches. Single sets and
            the members of ``window`` documents are held whole.
    """
    most = count_received(out, SOURCE, shards, out.task)
    documents, parents, pairs = (allocate(out, most, kind, memory_bytes // 24) for kind in (np.uint64, np.int64, PAIR))
    n_pairs, compared = 0, 0
    with (
        ExternalSort(NODE, GROUPED, memory_bytes // 2, sorting_folder(out)) as members,
        GatheredSets(out, memory_bytes // 16) as sets,
    ):
        blocks = receive_blocks(out, SOURCE, shards, out.task)
        n_documents = _index_members(blocks, members, sets, documents, parents)
        for batch, pieces in _batches(members.blocks(), window, sets):
            nodes, first, indices = np.unique(batch["node"], return_index=True, return_inverse=True)
            bounds, hashes = sets.read(batch["start"][first], batch["shingles"][first])
            owners = documents[nodes]
            first_nodes, second_nodes, similarity, n_compared = verify(
                pieces, indices, bounds, hashes, parents, nodes, is_older(owners), threshold, window
            )
            compared += n_compared
            written = pairs[n_pairs : n_pairs + first_nodes.size]
            written["first"], written["second"] = owners[first_nodes], owners[second_nodes]
            written["jaccard"] = similarity
            n_pairs += first_nodes.size
    return VerifiedPairs(pairs[:n_pairs], documents[:n_documents], parents[:n_documents], compared)


def _index_members(
    blocks: Iterable[Records], members: ExternalSort, sets: GatheredSets, documents: Numbers, parents: Offsets
) -> int:
    """Adds the members in ``blocks``, sorted by document, to the sort, their sets to ``sets``, and fills both arrays.

    Returns:
        The number of documents.
    """
    n_documents, last_start = 0, np.empty(0, np.int64)
    for block in blocks:
        fresh = run_starts(block, ("document",))
        fresh[0] = n_documents == 0 or block["document"][0] != documents[n_documents - 1]
        new = block[fresh]
        starts = np.concatenate([last_start, sets.add(new["document"], new["start"], new["shingles"])])
        added = slice(n_documents, n_documents + new.size)
        documents[added], parents[added] = new["document"], np.arange(added.start, added.stop)
        nodes = n_documents - 1 + np.cumsum(fresh)
        own = starts[nodes - nodes[-1] - 1]
        columns = {name: block[name] for name in ("hash", "shingles", "digest")}
        members.add(records_of(**columns, node=nodes, start=own))
        n_documents, last_start = added.stop, own[-1:]
    return n_documents


def _batches(blocks: Iterable[Records], window: int, sets: GatheredSets) -> Iterator[tuple[Records, NDArray[np.int64]]]:
    """Yields members that fit in memory together, and their pieces: (n_pieces, 3) start, end, reach (see
    ``verify``)."""
    for members, own in _with_next_piece(whole_runs(_cut(blocks, window), PIECE)):
        limits = np.append(np.flatnonzero(run_starts(members, PIECE)), members.size)
        starts, ends, reach = limits[:-1], limits[1:], limits[1:].copy()
        group = members["hash"][starts]
        reach[:-1][group[1:] == group[:-1]] = ends[1:][group[1:] == group[:-1]]
        pieces = np.stack([starts, ends, reach], axis=1)[starts < own]
        before = np.concatenate(([0], np.cumsum(members["shingles"])))
        for first, last in sets.batches(before[pieces[:, 2]] - before[pieces[:, 0]]):
            begin, end = pieces[first, 0], pieces[first:last, 2].max()
            yield members[begin:end], pieces[first:last] - begin


def _cut(blocks: Iterable[Records], window: int) -> Iterator[Records]:
    """Adds a field ``piece`` to sorted members: the index of the piece in its group."""
    group, size = None, 0
    for block in blocks:
        starts = np.flatnonzero(run_starts(block, ("hash",)))
        lengths = np.diff(starts, append=block.size)
        ranks = np.arange(block.size) - np.repeat(starts, lengths)
        if block["hash"][0] == group:
            ranks[: lengths[0]] += size
        group, size = block["hash"][-1], int(ranks[-1]) + 1
        yield records_of(**{name: block[name] for name in NODE.names or ()}, piece=ranks // window)


def _with_next_piece(blocks: Iterable[Records]) -> Iterator[tuple[Records, int]]:
    """Yields blocks of whole pieces, each with the next piece if it is in the same group, and the size without it."""
    last: Records | None = None
    for block in blocks:
        if last is not None:
            ends = np.append(np.flatnonzero(run_starts(block, PIECE))[1:], block.size)
            follows = int(ends[0]) if block["hash"][0] == last["hash"][-1] else 0
            yield np.concatenate([last, block[:follows]]), last.size
        last = block
    if last is not None:
        yield last, last.size


@kernel
def jaccard(a: Hashes, b: Hashes, least: float) -> float:  # pragma: no cover (compiled)
    """Returns the Jaccard similarity of two sorted sets, or -1 if it is below ``least``.

    It stops as soon as the similarity cannot reach ``least``.
    """
    spare = (a.size + b.size) * (1 - least) / (1 + least) + 1e-6
    i, j, common, alone = 0, 0, 0, 0
    while i < a.size and j < b.size:
        if a[i] == b[j]:
            common += 1
            i += 1
            j += 1
            continue
        if a[i] < b[j]:
            i += 1
        else:
            j += 1
        alone += 1
        if alone > spare:
            return -1.0
    return common / (a.size + b.size - common)


@kernel
def verify(
    pieces: NDArray[np.int64],
    members: NDArray[np.int64],
    bounds: NDArray[np.int64],
    hashes: Hashes,
    parents: NDArray[np.int64],
    nodes: NDArray[np.int64],
    is_older: NDArray[np.bool_],
    threshold: float,
    window: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]:  # pragma: no cover (compiled)
    """Compares the documents of some groups.

    Args:
        pieces: start, end and reach in ``members``, (n_pieces, 3). The members from start to end are compared with the
            members after them, up to reach.
        members: index in ``bounds`` of each member's document. Within a group they are sorted by size of the set.
        bounds: with ``hashes``, the shingle sets (see ``shingle_sets``).
        parents: union-find over the whole bucket, updated here.
        nodes: index of each document in ``parents``, (n_documents,).
        is_older: whether a document is an older one, (n_documents,). Older ones are not compared with each other.
        threshold: least Jaccard similarity.
        window: number of next larger documents that a document is compared with.

    Returns:
        The similar pairs that connect two components (first, second: indices in ``bounds``), their Jaccard similarity,
        and the number of comparisons.
    """
    most = bounds.size - 1
    first, second, similarity = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float64)
    n_pairs, n_compared = 0, 0
    for piece in range(len(pieces)):
        start, end, reach = pieces[piece]
        for i in range(start, end):
            member = members[i]
            a = hashes[bounds[member] : bounds[member + 1]]
            for j in range(i + 1, min(i + 1 + window, reach)):
                other = members[j]
                b = hashes[bounds[other] : bounds[other + 1]]
                if a.size / b.size < threshold:
                    break
                root_one, root_two = find(parents, nodes[member]), find(parents, nodes[other])
                if root_one == root_two or (is_older[member] and is_older[other]):
                    continue
                n_compared += 1
                value = jaccard(a, b, threshold)
                if value >= threshold:
                    parents[max(root_one, root_two)] = min(root_one, root_two)
                    first[n_pairs], second[n_pairs], similarity[n_pairs] = member, other, value
                    n_pairs += 1
    return first[:n_pairs], second[:n_pairs], similarity[:n_pairs], n_compared
