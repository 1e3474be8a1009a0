"""Clusters: the connected components of the graph of verified pairs, found without a task that sees all of it.

    pairs of a bucket    (a, b) (b, c)    ── star_edges ──>  each document with the smallest it is joined to: a–b a–c
    edges of a node v    v–u v–w v–x      ── contract ────>  all of them with their smallest u: u–v u–w u–x
    edges after that     u–v u–w u–x      ── settle ──────>  root of each node, and the edges that are left, if any

An edge belongs to both its ends, and a task holds all edges of its nodes. ``contract`` keeps what is connected
connected, for v is one of those that are joined to u, and it joins nothing else. Two rounds of it turn any star, the
shape of the components of near duplicates, into the one around its smallest document; on other graphs each round
doubles how far a node sees. (The idea is that of the star operations of Kiveris et al., Connected components in
MapReduce and beyond, 2014.) ``settle`` leaves edges wherever roots are not final, and a union-find over those few (the
counter ``unsettled_edges``) ends it: ``roots_of`` is exact for any graph after any number of rounds, also none. So the
number of phases is known in advance and no task holds all edges.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.numbering import Numbers
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.records import Records, records_of, runs

PAIR = np.dtype([("first", "<u8"), ("second", "<u8"), ("jaccard", "<f8")])
"""A verified pair of documents, by number, and its exact Jaccard similarity."""

EDGE = np.dtype([("node", "<u8"), ("neighbour", "<u8")])
"""An edge as one of its two ends sees it."""

Edges = NDArray[np.void]

NODES_AT_ONCE = 1 << 16
"""Nodes whose edges ``tree_edges`` holds."""


def components(n_nodes: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The component of each node, as the smallest node in it: (n_nodes,). Edges join ``first[i]`` and ``second[i]``."""
    parents = np.arange(n_nodes, dtype=np.int64)
    _unite_all(parents, first, second)
    return parents


def star_edges(first: Numbers, second: Numbers) -> Edges:
    """Edges, from both ends, that join each document with the smallest of its component of the graph of these pairs."""
    nodes, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, two = places.reshape(2, -1)
    return _both_ends(nodes, nodes[components(nodes.size, one, two)])


def tree_edges(documents: Numbers, parents: NDArray[np.int64]) -> Iterator[Edges]:
    """``star_edges`` of what a union-find has joined, in blocks.

    Args:
        documents: (n_nodes,) sorted.
        parents: (n_nodes,) whose roots are the smallest nodes of their components.
    """
    for start in range(0, documents.size, NODES_AT_ONCE):
        nodes = np.arange(start, min(start + NODES_AT_ONCE, documents.size))
        yield _both_ends(documents[nodes], documents[_roots(parents, nodes)])


def contract(edges: Edges) -> Edges:
    """Edges, from both ends, that join the neighbours of each node, and itself, with the smallest of them.

    Args:
        edges: all edges of some nodes.
    """
    edges, starts, smallest = _neighbourhoods(edges)
    nodes = edges["node"][starts[:-1]]
    far = np.repeat(smallest, np.diff(starts))
    return _both_ends(np.concatenate([nodes, edges["neighbour"]]), np.concatenate([smallest, far]))


def settle(edges: Edges) -> tuple[Edges, Edges]:
    """The provisional root of each node (an EDGE: node and root), and the edges that may make it another.

    A node's provisional root is the smallest among it and its neighbours. Edges are left between the root and further
    smaller neighbours, and between a node that others may have for a root and its own. So none is left in a component
    whose nodes all have one and the same neighbour, the smallest of the component: there the roots are final.

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


def roots_of(provisional: Numbers, left: Edges) -> Numbers:
    """The final root of each node with the ``provisional`` one: the smallest document of its component.

    Args:
        provisional: (n_nodes,) from ``settle``, of any nodes.
        left: the edges that ``settle`` left, of all nodes.
    """
    nodes, places = np.unique(np.concatenate([left["node"], left["neighbour"]]), return_inverse=True)
    if not nodes.size:
        return provisional
    one, two = places.reshape(2, -1)
    final = nodes[components(nodes.size, one, two)]
    at = np.minimum(np.searchsorted(nodes, provisional), nodes.size - 1)
    return np.where(nodes[at] == provisional, final[at], provisional)


def with_roots(records: Records, by: str, nodes: Edges) -> Records:
    """The ``records`` whose field ``by`` is among the ``nodes`` (sorted, with their roots), each with its ``root``."""
    if not nodes.size:
        nodes, records = np.zeros(1, EDGE), records[:0]
    places = np.minimum(np.searchsorted(nodes["node"], records[by]), nodes.size - 1)
    found = nodes["node"][places] == records[by]
    columns = {name: records[name][found] for name in records.dtype.names or ()}
    return records_of(root=nodes["neighbour"][places[found]], **columns)


def _neighbourhoods(edges: Edges) -> tuple[Edges, NDArray[np.int64], Numbers]:
    """The distinct edges, sorted; where those of each node start; the smallest of each node and its neighbours."""
    edges = _distinct(edges)
    starts = runs(edges["node"])
    first = starts[:-1]
    return edges, starts, np.minimum(edges["node"][first], edges["neighbour"][first])


def _both_ends(one: Numbers, two: Numbers) -> Edges:
    """The distinct edges between ``one[i]`` and ``two[i]``, from both ends, without loops."""
    joins = one != two
    edges = np.empty(2 * int(joins.sum()), dtype=EDGE)
    edges["node"] = np.concatenate([one[joins], two[joins]])
    edges["neighbour"] = np.concatenate([two[joins], one[joins]])
    return _distinct(edges)


def _distinct(edges: Edges) -> Edges:
    edges = edges[np.lexsort((edges["neighbour"], edges["node"]))]
    repeats = (edges["node"][1:] == edges["node"][:-1]) & (edges["neighbour"][1:] == edges["neighbour"][:-1])
    return edges[np.concatenate([[True], ~repeats])] if edges.size else edges


@kernel
def find(parents: NDArray[np.int64], node: int) -> int:  # pragma: no cover (compiled)
    """The root of ``node``, halving the path to it (Tarjan, van Leeuwen, 1984)."""
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


@kernel
def _roots(parents: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.int64]:  # pragma: no cover (compiled)
    found = np.empty_like(nodes)
    for place in range(nodes.size):
        found[place] = find(parents, nodes[place])
    return found


@kernel
def _unite_all(
    parents: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> None:  # pragma: no cover (compiled)
    for i in range(first.size):
        one, two = find(parents, first[i]), find(parents, second[i])
        parents[max(one, two)] = min(one, two)
    for node in range(parents.size):
        parents[node] = find(parents, node)
