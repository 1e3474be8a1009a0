"""A slow link is found by sums of two ranks at a time, although both ranks of a pair take equally long."""

import itertools

import pytest

from headrace.train.loop.rank_links import partners, rings, slow_links

SECONDS, SLOW_SECONDS = 1.0, 3.0


def rounds(ring: list[int]) -> list[tuple[int, int]]:
    """The pairs in an order in which they can meet: each is next for both its ranks, so no rank waits forever."""
    left = {rank: partners(ring, rank) for rank in ring}
    met = []
    while any(left.values()):
        pair = next((a, b) for a, b in itertools.combinations(ring, 2) if left[a][:1] == [b] and left[b][:1] == [a])
        met.append(pair)
        for rank in pair:
            left[rank].pop(0)
    return met


@pytest.mark.parametrize("size", range(1, 10))
def test_ranks_of_a_ring_meet_both_neighbours_in_at_most_three_rounds(size):
    ring = [10 * number for number in range(size)]
    pairs = {tuple(sorted((ring[one - 1], ring[one]))) for one in range(size)} if size > 1 else set()
    assert sorted(rounds(ring)) == sorted(pairs)


@pytest.mark.parametrize("size", range(3, 10))
def test_the_rank_whose_link_is_slow_is_the_only_one_that_is_named(size):
    for slow in range(size):
        pairs = {pair: SLOW_SECONDS if slow in pair else SECONDS for pair in rounds(list(range(size)))}
        times = [min(seconds for pair, seconds in pairs.items() if rank in pair) for rank in range(size)]
        nodes = [f"n{rank}" for rank in range(size)]
        assert [(one.first, one.nodes) for one in slow_links(nodes, times)] == [(slow, (f"n{slow}",))]


def test_a_rank_has_a_ring_in_its_node_and_one_over_all_nodes():
    nodes = ["a", "a", "b", "b", "c", "a"]
    assert rings(nodes, 1) == ([0, 1, 5], [1, 3])
    assert rings(nodes, 2) == ([2, 3], [0, 2, 4])
    assert rings(nodes, 5) == ([0, 1, 5], [5])


def test_ranks_without_a_time_are_not_compared():
    assert [one.first for one in slow_links(["a", "b", "c", "d", "e"], [None, 1.0, 1.0, None, 2.0])] == [4]
    assert list(slow_links(["a", "b"], [None, None])) == []
