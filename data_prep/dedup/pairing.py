"""From the groups of one bucket to its verified pairs, in bounded memory.

    members of the shards    by document     numbered, their sets gathered (see ``shingle_sets``)
       │ external sort
    members in groups        [ group 0 | group 1 | group 2 ……………… | … ]      by (hash, shingles, digest, document)
    pieces                   [ 0       | 1       | 2    | 3    | 4  | … ]      of ``window`` documents at most
    batches                  [ 0                 | 1           | 2 …  ]        pieces, and the one that follows the last

A piece of a large group is compared with itself and the next one. Of the whole bucket there are three arrays with a
value for each document, in files where memory is too small for them: its number, its place in the union-find, a pair.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.clusters import PAIR
from headrace.data_prep.dedup.numbering import Numbers
from headrace.data_prep.dedup.shingle_sets import PHASE, GatheredSets, Places
from headrace.data_prep.dedup.verification import verify
from headrace.data_prep.shuffle.capacity import room
from headrace.data_prep.shuffle.exchange import receive_blocks, received, sorting_folder
from headrace.data_prep.shuffle.external_sort import ExternalSort
from headrace.data_prep.shuffle.records import Records, records_of, run_starts, whole_runs
from headrace.pipeline.core.artifact import TaskOutput

MEMBERS = "members"
"""The records that ``verified_pairs`` receives, from PHASE."""
SOURCE = f"{PHASE}/{MEMBERS}"

NODE = np.dtype([("hash", "<u8"), ("shingles", "<i8"), ("digest", "<u8"), ("node", "<i8"), ("start", "<i8")])
"""A member of a group: its document's place among the bucket's ones, and where its set starts."""

GROUPED = ("hash", "shingles", "digest", "node")
"""The order of members: by group, and the smaller sets first. The digest, which no sharding changes, matters in groups
larger than the window."""
PIECE = ("hash", "piece")
"""What is the same for the members of a piece."""


@dataclasses.dataclass(frozen=True)
class Verified:
    """What the comparisons of one bucket found."""

    pairs: NDArray[np.void]
    """(n_pairs,) PAIR, in the order found: enough of those that hold to connect what all of them would."""
    documents: Numbers
    """(n_documents,) sorted."""
    parents: Places
    """(n_documents,) union-find of the documents' places; the root is the first document."""
    compared: int


def members_of(grouped: Records, digests: Numbers, starts: Places, shingles: Places) -> Records:
    """What a shard sends for its GROUP_MEMBERs, sorted by document: (n,), and (n,) for each one's document.

    Args:
        grouped: GROUP_MEMBER.
        digests: the first 8 bytes of the SHA-256 of the text.
        starts: where the set starts (see ``write_sets``).
        shingles: how large it is.
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
) -> Verified:
    """Compare the documents within the groups that the shards sent to this task.

    Args:
        out: of this task.
        shards: how many tasks of PHASE left MEMBERS and shingle sets.
        is_older: tells which documents are not to be compared with one another.
        threshold: least exact Jaccard similarity of a pair.
        window: see ``verification``.
        memory_bytes: bound on what is held: half for sorting, an eighth for the arrays, the rest for batches. A set is
            held whole, and so are ``window`` documents' places.
    """
    most = received(out, SOURCE, shards, out.task)
    documents, parents, pairs = (room(out, most, kind, memory_bytes // 24) for kind in (np.uint64, np.int64, PAIR))
    n_pairs, compared = 0, 0
    with (
        ExternalSort(NODE, GROUPED, memory_bytes // 2, sorting_folder(out)) as members,
        GatheredSets(out, memory_bytes // 16) as sets,
    ):
        blocks = receive_blocks(out, SOURCE, shards, out.task)
        n_documents = _number(blocks, members, sets, documents, parents)
        for batch, pieces in _batches(members.blocks(), window, sets):
            nodes, first, places = np.unique(batch["node"], return_index=True, return_inverse=True)
            bounds, hashes = sets.read(batch["start"][first], batch["shingles"][first])
            here = documents[nodes]
            one, two, similarity, n_compared = verify(
                pieces, places, bounds, hashes, parents, nodes, is_older(here), threshold, window
            )
            compared += n_compared
            found = pairs[n_pairs : n_pairs + one.size]
            found["first"], found["second"], found["jaccard"] = here[one], here[two], similarity
            n_pairs += one.size
    return Verified(pairs[:n_pairs], documents[:n_documents], parents[:n_documents], compared)


def _number(
    blocks: Iterable[Records], members: ExternalSort, sets: GatheredSets, documents: Numbers, parents: Places
) -> int:
    """Fill what follows ``blocks``, whose documents ascend, and return the number of documents."""
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
    """Members that lie in memory together, and their pieces: (n_pieces, 3) start, end and reach (see ``verify``)."""
    for members, own in _with_what_follows(whole_runs(_cut(blocks, window), PIECE)):
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
    """``blocks`` of sorted members with a field ``piece``: its number in the group."""
    group, size = None, 0
    for block in blocks:
        starts = np.flatnonzero(run_starts(block, ("hash",)))
        lengths = np.diff(starts, append=block.size)
        places = np.arange(block.size) - np.repeat(starts, lengths)
        if block["hash"][0] == group:
            places[: lengths[0]] += size
        group, size = block["hash"][-1], int(places[-1]) + 1
        yield records_of(**{name: block[name] for name in NODE.names or ()}, piece=places // window)


def _with_what_follows(blocks: Iterable[Records]) -> Iterator[tuple[Records, int]]:
    """Blocks of whole pieces, each with the next piece if that is of the same group, and the size without it."""
    last: Records | None = None
    for block in blocks:
        if last is not None:
            ends = np.append(np.flatnonzero(run_starts(block, PIECE))[1:], block.size)
            follows = int(ends[0]) if block["hash"][0] == last["hash"][-1] else 0
            yield np.concatenate([last, block[:follows]]), last.size
        last = block
    if last is not None:
        yield last, last.size
