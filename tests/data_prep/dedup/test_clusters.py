import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_prep.dedup.clusters import components, survivors


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=20))
def test_components_are_what_edges_connect(edges):
    reach = {node: {node} for node in range(15)}
    for one, two in edges:
        joined = reach[one] | reach[two]
        for node in joined:
            reach[node] = joined
    first, second = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    assert components(15, first, second).tolist() == [min(reach[node]) for node in range(15)]


def test_survivor_has_the_longest_text_then_the_smallest_id():
    component = np.array([0, 0, 0, 3, 3, 5])
    characters = np.array([5, 9, 9, 4, 4, 0], dtype=np.uint32)
    ids = np.array([b"a", b"c", b"b", b"x:10", b"x:9", b"z"])
    assert survivors(component, characters, ids).tolist() == [2, 2, 2, 3, 3, 5]


def test_ids_compare_by_bytes_when_one_begins_the_other():
    found = survivors(np.zeros(3, np.int64), np.ones(3, np.uint32), np.array([b"f:12", b"f:1", "f:é".encode()]))
    assert found.tolist() == [1, 1, 1]


def test_no_documents():
    empty = np.empty(0, np.int64)
    assert components(0, empty, empty).size == 0
    assert survivors(empty, empty.astype(np.uint32), np.empty(0, "S1")).size == 0
