"""From the groups of one bucket to its verified pairs, a batch of shingle sets at a time.

members   [ group 0 | group 1 | group 2 ……………… | … ]      sorted by (group, size, digest)
pieces    [ 0       | 1       | 2    | 3    | 4  | … ]      a large group is cut into pieces of ``window`` documents
batches   [ 0                 | 1           | 2 …  ]        pieces that together hold about BATCH_SHINGLES
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.clusters import PAIR
from data_prep.dedup.corpus import Corpus
from data_prep.dedup.shuffle import runs
from data_prep.dedup.verification import BATCH_SHINGLES, read_sets, read_sizes, verify
from pipeline.core.artifact import TaskOutput


def verified_pairs(
    out: TaskOutput, corpus: Corpus, members: NDArray[np.void], threshold: float, window: int
) -> tuple[NDArray[np.void], int]:
    """The pairs (PAIR, in the order found) that connect what is similar within the groups, and the comparisons made.

    Args:
        out: where the phase before left the shingle sets.
        corpus: the documents, for their digests.
        members: GROUP_MEMBER, sorted by (hash, document).
        threshold: least exact Jaccard similarity of a pair.
        window: see ``verification``.
    """
    documents, nodes = np.unique(members["document"], return_inverse=True)
    sizes = read_sizes(out, documents)
    bounds = runs(members["hash"])
    nodes = nodes[_by_size(corpus, members, sizes[nodes], bounds, window)]
    parents = np.arange(documents.size)
    pairs, compared = [np.empty(0, dtype=PAIR)], 0
    for pieces in _batches(_pieces(bounds, window), sizes[nodes]):
        first, last = pieces[0, 0], pieces[:, 2].max()
        here, places = np.unique(nodes[first:last], return_inverse=True)
        sets = read_sets(out, documents[here])
        older = corpus.is_older(sets.documents)
        one, two, similarity, n = verify(
            pieces - first, places, sets.bounds, sets.hashes, parents, here, older, threshold, window
        )
        found = np.empty(one.size, dtype=PAIR)
        found["first"], found["second"], found["jaccard"] = sets.documents[one], sets.documents[two], similarity
        pairs.append(found)
        compared += n
    return np.concatenate(pairs), compared


def _by_size(
    corpus: Corpus,
    members: NDArray[np.void],
    sizes: NDArray[np.int64],
    bounds: NDArray[np.int64],
    window: int,
) -> NDArray[np.int64]:
    """The order (group, size, digest, document). The digest, which no sharding changes, matters in large groups."""
    lengths = np.diff(bounds)
    large = np.repeat(lengths > window, lengths)
    ties = np.zeros(len(members), dtype="S32")
    if large.any():
        digests = corpus.look_up("digests", members["document"][large])
        ties[large] = np.ascontiguousarray(digests).view("S32").ravel()
    return np.lexsort((members["document"], ties, sizes, np.repeat(np.arange(lengths.size), lengths)))


def _pieces(bounds: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """(n_pieces, 3) start, end and reach (see ``verify``) of the groups between ``bounds``."""
    starts, ends = bounds[:-1], bounds[1:]
    counts = -(-(ends - starts) // window)
    group = np.repeat(np.arange(counts.size), counts)
    within = np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    first = starts[group] + within * window
    last = np.minimum(first + window, ends[group])
    return np.stack([first, last, np.minimum(last + window, ends[group])], axis=1)


def _batches(pieces: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """``pieces`` in consecutive batches; ``sizes`` are the numbers of shingles of the members."""
    before = np.concatenate(([0], np.cumsum(sizes)))
    weights = before[pieces[:, 2]] - before[pieces[:, 0]]
    batch = np.cumsum(weights) // BATCH_SHINGLES
    limits = runs(batch)
    for start, end in itertools.pairwise(limits):
        yield pieces[start:end]
