"""Containment: the search for documents that hold almost all shingles of another one.

    set of A     ■■■■■■■■■■■■■■■■■■■■■■■■   n shingles
    sampled      ■  ■    ■ ■     ■    ■     one in SAMPLE, by its hash: the same ones in each document
    by rarity    ■ ■ ■ | ■ ■ ■              the rarest are probes: A is compared with the larger documents that have one

Of the m sampled shingles of A, a document with the containment t lacks each with the probability 1 - t. So A is a
candidate unless the sample has none in common, (1 - 1/SAMPLE)^(t·n), or all r probes are among those that are lacking;
r is three standard deviations above their mean (``probes``), which is exceeded in less than 1 % of cases. Recall at a
containment of exactly 0.8: 88 % of documents with 20 shingles, 99 % with 50 or more, if it lacks the rarest.

Candidates are compared exactly. In a group of documents that share a probe, each is compared with at most
``dedup.window_documents`` of the next larger ones.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.lsh import mix
from headrace.data_prep.dedup.shingle_sets import PHASE, GatheredSets, Hashes
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.exchange import receive_sorted, sorting_folder
from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, records_of, run_bounds, run_starts, whole_runs
from headrace.pipeline.core.artifact import TaskOutput

SAMPLE = 8
"""One in so many shingles is sampled. Fewer cost more disk and find more of the short documents."""
DEVIATIONS = 3
ROUNDING = 1e-9
LEAST = np.uint64(2**64 // SAMPLE)

COUNTED = np.dtype([("hash", "<u8"), ("document", "<u8"), ("documents", "<u4")])
"""A sampled shingle of a document, and the number of documents that have it."""
MEMBER = np.dtype(
    [
        ("hash", "<u8"),
        ("is_older", "?"),
        ("shingles", "<i8"),
        ("identity", "<u8"),
        ("document", "<u8"),
        ("start", "<i8"),
        ("is_probe", "?"),
    ]
)
BY_SIZE = ("is_older", "shingles", "identity", "document")
"""The order of containment, the last first."""
SIZED = np.dtype([(name, MEMBER[name]) for name in BY_SIZE])
EDGE = np.dtype([("pair", "<u8", (2,)), ("contained", SIZED), ("container", SIZED), ("containment", "<f8")])
"""A document, one that may contain it, the numbers of both, and the share of its shingles that the other one has."""


def sampled(shingles: Hashes) -> Hashes:
    """Returns the sampled ones of a set of shingles."""
    return shingles[mix(mix(shingles)) < LEAST]


def counted(samples: Records) -> Records:
    """Returns the ``samples``, COUNTED sorted by hash, of shingles that two documents have, with their number."""
    bounds = run_bounds(samples["hash"])
    documents = np.repeat(np.diff(bounds), np.diff(bounds))
    counted_samples = samples[documents > 1]
    counted_samples["documents"] = documents[documents > 1]
    return counted_samples


def most_lacking(sample: int, threshold: float) -> int:
    """Returns how many of ``sample`` shingles a container may lack: DEVIATIONS above the mean."""
    mean = (1 - threshold) * sample
    return int(mean + DEVIATIONS * math.sqrt(mean * threshold) + ROUNDING)


def probes(alone: int, shared: int, threshold: float) -> int:
    """Returns the probes among the ``shared`` sampled shingles, the rarest first; ``alone`` others are rarer."""
    return min(max(most_lacking(alone + shared, threshold) + 1 - alone, 0), shared)


def contained_pairs(
    out: TaskOutput, shards: int, threshold: float, window: int, memory_bytes: int
) -> Iterator[tuple[Records, int]]:
    """Yields the pairs of a bucket whose containment is at least ``threshold``, EDGE, and how many were compared.

    Args:
        out: output of this task.
        shards: number of tasks of PHASE, which sent MEMBER and wrote shingle sets.
        threshold: least containment.
        window: number of next larger documents that a probe compares a document with.
        memory_bytes: bound on memory, in addition to the members of one shingle and 16 bytes a document.
    """
    sort_bytes, source = memory_bytes // 3, f"{PHASE}/members"
    with (
        ExternalSort(EDGE, ("pair",), sort_bytes, sorting_folder(out)) as pairs,
        GatheredSets(out, memory_bytes // 16) as sets,
    ):
        for members in receive_sorted(out, source, shards, MEMBER, ("hash", *BY_SIZE), sort_bytes):
            pairs.add(_candidates(members, threshold, window))
        documents, starts = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for members in receive_sorted(out, source, shards, MEMBER, ("document",), sort_bytes):
            members = members[run_starts(members, ("document",))]
            documents.append(members["document"])
            starts.append(sets.add(members["document"], members["start"], members["shingles"]))
        all_documents, all_starts = np.concatenate(documents), np.concatenate(starts)
        for block in whole_runs(pairs.blocks(), ("pair",)):
            block = block[run_starts(block, ("pair",))]
            for first, last in sets.batches(block["contained"]["shingles"] + block["container"]["shingles"]):
                edges = block[first:last]
                _compare(edges, all_documents, all_starts, sets)
                yield edges[edges["containment"] >= threshold - ROUNDING], edges.size


def _candidates(members: Records, threshold: float, window: int) -> Records:
    """Returns the pairs of ``members``, sorted by hash and size, that a probe finds: EDGE without containment."""
    bounds = run_bounds(members["hash"])
    first, second = _pairs(bounds, members["is_probe"], members["shingles"], threshold, window)
    edges = np.zeros(first.size, EDGE)
    for name, indices in (("contained", first), ("container", second)):
        for field in BY_SIZE:
            edges[name][field] = members[field][indices]
    edges["pair"] = np.stack([edges["contained"]["document"], edges["container"]["document"]], axis=1)
    return edges


def _compare(edges: Records, documents: Hashes, starts: NDArray[np.int64], sets: GatheredSets) -> None:
    """Writes the containment of ``edges``. ``starts`` locates the set of each of ``documents``, ascending."""
    wanted, indices = np.unique(edges["pair"], return_inverse=True)
    sizes = np.zeros(wanted.size, np.int64)
    first, second = indices.reshape(-1, 2).T
    sizes[first], sizes[second] = edges["contained"]["shingles"], edges["container"]["shingles"]
    bounds, hashes = sets.read(starts[np.searchsorted(documents, wanted)], sizes)
    edges["containment"] = _common(bounds, hashes, first, second) / sizes[first]


def survivors(edges: Records) -> Records:
    """Returns a record for each document to remove: document, survivor (numbers) and containment.

    Args:
        edges: all pairs, EDGE with containment; a pair may be there several times.
    """
    columns = [edges[name][field] for name in ("contained", "container") for field in BY_SIZE]
    columns.insert(len(BY_SIZE), edges["containment"])
    removed = dict[int, tuple[int, float]]()
    for edge in edges[np.lexsort(columns[::-1])[::-1]]:
        document, container = edge["pair"].tolist()
        if document not in removed and container not in removed:
            removed[document] = container, float(edge["containment"])
    return records_of(
        document=np.array(list(removed), np.uint64),
        survivor=np.array([container for container, _ in removed.values()], np.uint64),
        containment=np.array([containment for _, containment in removed.values()], np.float64),
    )


@kernel
def _pairs(
    bounds: NDArray[np.int64],
    is_probe: NDArray[np.bool_],
    shingles: NDArray[np.int64],
    threshold: float,
    window: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # pragma: no cover (compiled)
    """Returns the indices of each probe and of the ``window`` next members of its group that may be containers."""
    first, second, n_pairs = np.empty(16, np.int64), np.empty(16, np.int64), 0
    for group in range(bounds.size - 1):
        for i in range(bounds[group], bounds[group + 1]):
            if not is_probe[i]:
                continue
            for j in range(i + 1, min(i + 1 + window, bounds[group + 1])):
                if shingles[j] < threshold * shingles[i] - ROUNDING:
                    continue
                if n_pairs == first.size:
                    first, second = np.concatenate((first, first)), np.concatenate((second, second))
                first[n_pairs], second[n_pairs] = i, j
                n_pairs += 1
    return first[:n_pairs], second[:n_pairs]


@kernel
def _common(
    bounds: NDArray[np.int64], hashes: Hashes, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    """Returns the number of common shingles of each pair of sets: (n_pairs,)."""
    common = np.zeros(first.size, np.int64)
    for pair in range(first.size):
        i, j = bounds[first[pair]], bounds[second[pair]]
        while i < bounds[first[pair] + 1] and j < bounds[second[pair] + 1]:
            if hashes[i] == hashes[j]:
                common[pair] += 1
                i += 1
                j += 1
            elif hashes[i] < hashes[j]:
                i += 1
            else:
                j += 1
    return common
