"""Clusters: the connected components of the graph of verified pairs, found without a task that holds the whole graph.

    pairs of a bucket    (a, b) (b, c)    ── star_edges ─────────>  edges from each document to the smallest of its
                                                                    component in this bucket: a–b a–c
    edges of a node v    v–u v–w v–x      ── contract ───────────>  edges from all of them to the smallest, u: u–v u–w
    u–x edges after that     u–v u–w u–x      ── provisional_roots ──>  the root of each node, and the edges left, if
    any

An edge is stored at both of its ends, and a task holds all edges of its nodes. ``contract`` keeps connected nodes
connected, because v is among the nodes that it joins to u, and it connects nothing else. Two rounds turn any star (the
usual shape of a component of near duplicates) into the star around its smallest document. In other graphs each round
doubles the distance over which a node finds a smaller one. (The idea is that of the star operations of Kiveris et al.,
Connected components in MapReduce and beyond, 2014.) ``provisional_roots`` leaves edges wherever roots are not final,
and ``final_roots`` unites these few edges (the counter ``unsettled_edges``). It is exact for any graph after any number
of rounds, also after none. So the number of phases is known in advance, and no task holds all edges.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.corpus import Numbers
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.records import Records, records_of, run_bounds

PAIR = np.dtype([("first", "<u8"), ("second", "<u8"), ("jaccard", "<f8")])
"""A verified pair: the numbers of both documents and their exact Jaccard similarity."""

EDGE = np.dtype([("node", "<u8"), ("neighbour", "<u8")])
"""An edge, stored at ``node``, one of its two ends."""

Edges = NDArray[np.void]

NODES_AT_ONCE = 1 << 16
"""Number of nodes whose edges are in a block of ``tree_edges``."""


def components(n_nodes: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the smallest node in the component of each node, (n_nodes,).

    Edges join ``first[i]`` and ``second[i]``.
    """
    parents = np.arange(n_nodes, dtype=np.int64)
    _unite_all(parents, first, second)
    return parents


def star_edges(first: Numbers, second: Numbers) -> Edges:
    """Returns edges, from both ends, between each document and the smallest one in its component of these pairs."""
    nodes, indices = np.unique(np.concatenate([first, second]), return_inverse=True)
    first_index, second_index = indices.reshape(2, -1)
    return _both_ends(nodes, nodes[components(nodes.size, first_index, second_index)])


def tree_edges(documents: Numbers, parents: NDArray[np.int64]) -> Iterator[Edges]:
    """Yields the ``star_edges`` of the components in a union-find forest, in blocks.

    Args:
        documents: number of each node's document, ascending, (n_nodes,).
        parents: parent of each node, (n_nodes,). A root is the smallest node of its component.
    """
    for start in range(0, documents.size, NODES_AT_ONCE):
        nodes = np.arange(start, min(start + NODES_AT_ONCE, documents.size))
        yield _both_ends(documents[nodes], documents[_roots(parents, nodes)])


def contract(edges: Edges) -> Edges:
    """Returns edges, from both ends, between each node or neighbour and the smallest in the node's neighbourhood.

    Args:
        edges: all edges of some nodes.
    """
    edges, starts, smallest = _neighbourhoods(edges)
    nodes = edges["node"][starts[:-1]]
    far = np.repeat(smallest, np.diff(starts))
    return _both_ends(np.concatenate([nodes, edges["neighbour"]]), np.concatenate([smallest, far]))


def provisional_roots(edges: Edges) -> tuple[Edges, Edges]:
    """Returns the provisional root of each node (as EDGE: node and root) and the edges that may change it.

    The provisional root is the smallest of the node and its neighbours. Two kinds of edges are left: between the root
    and other smaller neighbours, and between the root and a node that may itself be the root of a larger neighbour. No
    edge is left in a star around the smallest document of a component: there the roots are final.

    Args:
        edges: all edges of some nodes.
    """
    edges, starts, smallest = _neighbourhoods(edges)
    lengths = np.diff(starts)
    roots = np.empty(smallest.size, dtype=EDGE)
    roots["node"], roots["neighbour"] = edges["node"][starts[:-1]], smallest
    has_larger = edges["neighbour"][starts[1:] - 1] > roots["node"]
    between = has_larger & (roots["node"] != smallest)
    left = edges.copy()
    left["node"] = np.repeat(smallest, lengths)
    is_further = (edges["neighbour"] < edges["node"]) & (edges["neighbour"] != left["node"])
    left = np.concatenate([left[is_further], roots[between]])
    stars = star_edges(left["node"], left["neighbour"])
    return roots, stars[stars["node"] > stars["neighbour"]]


def final_roots(provisional: Numbers, left: Edges) -> Numbers:
    """Returns the final root of each node: the smallest document of its component.

    Args:
        provisional: provisional roots of any nodes, (n_nodes,).
        left: the edges that ``provisional_roots`` left, of all nodes.
    """
    nodes, indices = np.unique(np.concatenate([left["node"], left["neighbour"]]), return_inverse=True)
    if not nodes.size:
        return provisional
    first_index, second_index = indices.reshape(2, -1)
    final = nodes[components(nodes.size, first_index, second_index)]
    positions = np.minimum(np.searchsorted(nodes, provisional), nodes.size - 1)
    return np.where(nodes[positions] == provisional, final[positions], provisional)


def with_roots(records: Records, by: str, nodes: Edges) -> Records:
    """Returns the ``records`` whose field ``by`` is one of the ``nodes``, each with the ``root`` of this node.

    Args:
        records: records of any documents.
        by: the field with the number of a document.
        nodes: EDGE, node and root, sorted by node.
    """
    if not nodes.size:
        nodes, records = np.zeros(1, EDGE), records[:0]
    indices = np.minimum(np.searchsorted(nodes["node"], records[by]), nodes.size - 1)
    has_root = nodes["node"][indices] == records[by]
    columns = {name: records[name][has_root] for name in records.dtype.names or ()}
    return records_of(root=nodes["neighbour"][indices[has_root]], **columns)


def _neighbourhoods(edges: Edges) -> tuple[Edges, NDArray[np.int64], Numbers]:
    """Returns the distinct edges, sorted; the start of each node's edges; the smallest node of each neighbourhood."""
    edges = _distinct(edges)
    starts = run_bounds(edges["node"])
    first = starts[:-1]
    return edges, starts, np.minimum(edges["node"][first], edges["neighbour"][first])


def _both_ends(first: Numbers, second: Numbers) -> Edges:
    """Returns the distinct edges between ``first[i]`` and ``second[i]``, from both ends, without loops."""
    joins = first != second
    edges = np.empty(2 * int(joins.sum()), dtype=EDGE)
    edges["node"] = np.concatenate([first[joins], second[joins]])
    edges["neighbour"] = np.concatenate([second[joins], first[joins]])
    return _distinct(edges)


def _distinct(edges: Edges) -> Edges:
    edges = edges[np.lexsort((edges["neighbour"], edges["node"]))]
    repeats = (edges["node"][1:] == edges["node"][:-1]) & (edges["neighbour"][1:] == edges["neighbour"][:-1])
    return edges[np.concatenate([[True], ~repeats])] if edges.size else edges


@kernel
def find(parents: NDArray[np.int64], node: int) -> int:  # pragma: no cover (compiled)
    """Returns the root of ``node`` and halves the path to it (Tarjan, van Leeuwen, 1984)."""
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


@kernel
def _roots(parents: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    roots = np.empty_like(nodes)
    for i in range(nodes.size):
        roots[i] = find(parents, nodes[i])
    return roots


@kernel
def _unite_all(
    parents: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> None:  # pragma: no cover (compiled)
    for i in range(first.size):
        root, other_root = find(parents, first[i]), find(parents, second[i])
        parents[max(root, other_root)] = min(root, other_root)
    for node in range(parents.size):
        parents[node] = find(parents, node)
