"""Exact Jaccard similarity of the documents of one LSH group, and the pairs that hold.

    group, sorted by size of the set      s0 ≤ s1 ≤ s2 ≤ s3 ≤ …
    each document with the next larger ones, until |s_j| > |s_i| / threshold (the Jaccard is at most |s_i| / |s_j|)
    skipped: pairs that verified pairs already connect

          and pairs of two older documents (see ``corpus``), which stay both

So a group of n near duplicates costs n comparisons, not n², and still the verified pairs connect exactly what all
verified pairs of the group would connect. Only in a group larger than ``window`` may connections be missed: there a
document is compared with the next ``window`` ones at most, which bounds time and memory.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.clusters import find
from headrace.data_prep.dedup.shingle_sets import Hashes
from headrace.data_prep.kernel import kernel


@kernel
def jaccard(a: Hashes, b: Hashes, least: float) -> float:  # pragma: no cover (compiled)
    """The Jaccard similarity of two sorted sets, or -1 as soon as it is certain to be below ``least``."""
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
    """Compare the documents of some groups.

    Args:
        pieces: (n_pieces, 3) start, end and reach in ``members``: those from start to end are compared with the ones
            that follow them, up to reach.
        members: the documents of the groups, as places in ``bounds``; sorted by size within a group.
        bounds: with ``hashes``, the shingle sets (see ``shingle_sets``).
        parents: union-find over the whole bucket, which goes on growing.
        nodes: (n_documents,) the place of each document in ``parents``.
        is_older: (n_documents,) those that are not compared with one another.
        threshold: least Jaccard similarity.
        window: how many of the next larger documents a document is compared with.

    Returns:
        The pairs that hold and connect something new (first, second: places in ``bounds``), their Jaccard similarity,
        and the number of comparisons.
    """
    most = bounds.size - 1
    first, second, similarity = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float64)
    n_pairs, n_compared = 0, 0
    for piece in range(len(pieces)):
        start, end, reach = pieces[piece]
        for i in range(start, end):
            one = members[i]
            a = hashes[bounds[one] : bounds[one + 1]]
            for j in range(i + 1, min(i + 1 + window, reach)):
                two = members[j]
                b = hashes[bounds[two] : bounds[two + 1]]
                if a.size / b.size < threshold:
                    break
                root_one, root_two = find(parents, nodes[one]), find(parents, nodes[two])
                if root_one == root_two or (is_older[one] and is_older[two]):
                    continue
                n_compared += 1
                value = jaccard(a, b, threshold)
                if value >= threshold:
                    parents[max(root_one, root_two)] = min(root_one, root_two)
                    first[n_pairs], second[n_pairs], similarity[n_pairs] = one, two, value
                    n_pairs += 1
    return first[:n_pairs], second[:n_pairs], similarity[:n_pairs], n_compared
