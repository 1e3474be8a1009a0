import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.dedup.clusters import (
    EDGE,
    components,
    contract,
    final_roots,
    provisional_roots,
    star_edges,
    with_roots,
)

EDGES = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=20)


def smallest_reachable(edges):
    """Returns node → smallest node of its component, for the nodes in ``edges``, by merging sets."""
    reach = {node: {node} for edge in edges for node in edge}
    for one, two in edges:
        joined = reach[one] | reach[two]
        for node in joined:
            reach[node] = joined
    return {node: min(joined) for node, joined in reach.items()}


def as_edges(pairs):
    both = [(one, two) for one, two in pairs] + [(two, one) for one, two in pairs]
    return np.array(both, dtype=EDGE).reshape(-1)


def pieces(edges, n_tasks):
    return [edges[edges["node"] % n_tasks == task] for task in range(n_tasks)]


def distributed(edges, n_tasks, rounds):
    """Returns node → root, computed by tasks that see only the edges of their nodes, and the number of edges left."""
    for _ in range(rounds):
        edges = np.concatenate([contract(piece) for piece in pieces(edges, n_tasks)])
    per_task = [provisional_roots(piece) for piece in pieces(edges, n_tasks)]
    left = np.concatenate([one for _, one in per_task])
    roots = {}
    for provisional, _ in per_task:
        final = final_roots(provisional["neighbour"], left)
        roots |= dict(zip(provisional["node"].tolist(), final.tolist(), strict=True))
    return roots, left.size


@given(EDGES)
def test_components_are_what_edges_connect(edges):
    roots = smallest_reachable(edges)
    first, second = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    assert components(15, first, second).tolist() == [roots.get(node, node) for node in range(15)]


@given(EDGES, st.integers(1, 4), st.integers(0, 3))
def test_roots_are_those_of_one_union_find(edges, n_tasks, rounds):
    edges = [edge for edge in edges if edge[0] != edge[1]]
    found, _ = distributed(as_edges(edges), n_tasks, rounds)
    assert found == smallest_reachable(edges)


@pytest.mark.parametrize("n_tasks", [1, 5])
@pytest.mark.parametrize("shape", ["path", "shuffled path", "ring", "tree"])
def test_long_graphs_are_solved_too(shape, n_tasks):
    names = list(range(1000))
    if shape == "shuffled path":
        random.Random(1).shuffle(names)
    edges = list(itertools.pairwise(names))
    if shape == "ring":
        edges.append((999, 0))
    if shape == "tree":
        edges = [(node, (node - 1) // 2) for node in range(1, 1000)]
    found, left = distributed(as_edges(edges), n_tasks, rounds=2)
    assert found == dict.fromkeys(range(1000), 0)
    assert 0 < left < 1000 * n_tasks


def test_two_rounds_leave_nothing_of_stars():
    """The usual graph of near duplicates: one node is linked with all others."""
    generator = random.Random(2)
    groups = [generator.sample(range(10 * start, 10 * start + 10), 8) for start in range(50)]
    edges = [(group[0], one) for group in groups for one in group[1:]]
    found, left = distributed(as_edges(edges), n_tasks=3, rounds=2)
    assert found == {node: min(group) for group in groups for node in group}
    assert left == 0


@given(EDGES)
def test_pairs_become_stars(pairs):
    first, second = np.array(pairs, dtype=np.uint64).reshape(-1, 2).T
    stars = star_edges(first, second).tolist()
    roots = smallest_reachable(pairs)
    expected = {edge for node, root in roots.items() if node != root for edge in ((node, root), (root, node))}
    assert len(stars) == len(expected)
    assert set(stars) == expected


def test_no_edges():
    none = np.empty(0, dtype=EDGE)
    assert contract(none).size == 0
    roots, left = provisional_roots(none)
    assert roots.size == left.size == 0
    assert final_roots(np.array([3, 5], dtype=np.uint64), left).tolist() == [3, 5]


@pytest.mark.parametrize("nodes", [[], [(3, 1), (5, 5), (9, 1)]])
def test_records_of_nodes_get_their_roots(nodes):
    records = np.array([(9, b"nine"), (2, b"two"), (10, b"ten"), (3, b"three")], [("document", "<u8"), ("id", "S5")])
    found = with_roots(records, "document", np.array(nodes, EDGE))
    assert found.dtype.names == ("root", "document", "id")
    assert found.tolist() == ([(1, 9, b"nine"), (1, 3, b"three")] if nodes else [])
