"""Clusters: the connected components of the graph of verified pairs, and the document of each that survives.

    pairs  (a, b) (b, c) (d, e)   ──>   components {a, b, c} {d, e}   ──>   survivors a, d

Everything is in numpy arrays over the documents that occur in a pair (8 bytes each), never over all documents.
"""

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.kernel import kernel

PAIR = np.dtype([("first", "<u8"), ("second", "<u8"), ("jaccard", "<f8")])
"""A verified pair of documents, by number, and its exact Jaccard similarity."""


def components(n_nodes: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The component of each node, as the smallest node in it: (n_nodes,). Edges join ``first[i]`` and ``second[i]``."""
    parents = np.arange(n_nodes, dtype=np.int64)
    _unite_all(parents, first, second)
    return parents


def survivors(
    component: NDArray[np.int64], characters: NDArray[np.unsignedinteger], ids: NDArray[np.bytes_]
) -> NDArray[np.int64]:
    """For each node the node of its component with the longest text, then the smallest id (by UTF-8 bytes).

    Args:
        component: (n_nodes,) number of the component of each node.
        characters: (n_nodes,) length of its text.
        ids: (n_nodes,) its id, UTF-8, zero-padded.
    """
    order = np.lexsort((ids, -characters.astype(np.int64), component))
    _, starts, inverse = np.unique(component[order], return_index=True, return_inverse=True)
    found = np.empty(component.size, np.int64)
    found[order] = order[starts[inverse]]
    return found


@kernel
def find(parents: NDArray[np.int64], node: int) -> int:  # pragma: no cover (compiled)
    """The root of ``node``, halving the path to it (Tarjan, van Leeuwen, 1984)."""
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


@kernel
def _unite_all(
    parents: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> None:  # pragma: no cover (compiled)
    for i in range(first.size):
        one, two = find(parents, first[i]), find(parents, second[i])
        parents[max(one, two)] = min(one, two)
    for node in range(parents.size):
        parents[node] = find(parents, node)
