"""The speed of the links between ranks, measured so that it names the slow rank.

An all-reduce of all ranks is as slow as the slowest link, on all ranks. So each rank sums a tensor with one other rank
at a time, its neighbours in two rings, and the shorter of the two times counts:

    pair       0 1   1 2   2 3   3 0            rank       0   1   2   3
    time       9     9     1     1      ──>     shortest   1   9   1   1       rank 1 is slow

One ring has the ranks of a node, the other the ranks at the same position in all nodes: links inside a node are faster
than those between nodes. Of two nodes neither can be named.
"""

import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from headrace.train.distributed.processes import Ranks
from headrace.train.loop.stragglers import SlowRanks, slow_ranks

REPEATS = 6
"""Exchanges of a pair. The first one, which sets up the connection, is not counted."""


def link_seconds(ranks: Ranks, nodes: Sequence[str], values: int) -> tuple[float | None, float | None]:
    """Returns the times of this rank for the sum of so many ``values`` with its faster neighbour in each of its rings.

    All ranks call it.

    Args:
        ranks: this rank and its device.
        nodes: the node of each rank.
        values: the number of fp32 values.

    Returns:
        The seconds inside the node, None without another rank there; and between nodes, None with less than three.
    """
    own, others = torch.ones(values, device=ranks.device), torch.empty(values, device=ranks.device)
    inside, between = rings(nodes, ranks.rank)

    def shortest(ring: Sequence[int]) -> float | None:
        return min((_pair_seconds(own, others, partner) for partner in partners(ring, ranks.rank)), default=None)

    return shortest(inside), shortest(between) if len(between) > 2 else None


def slow_links(nodes: Sequence[str], seconds: Sequence[float | None]) -> Iterator[SlowRanks]:
    """Yields the ranks with slow links; ``seconds`` of each rank as ``link_seconds`` returns them."""
    measured = [(rank, link_seconds) for rank, link_seconds in enumerate(seconds) if link_seconds is not None]
    if measured:
        for slow in slow_ranks([(nodes[rank], link_seconds) for rank, link_seconds in measured]):
            yield dataclasses.replace(slow, first=measured[slow.first][0])


def rings(nodes: Sequence[str], rank: int) -> tuple[list[int], list[int]]:
    """Returns the ranks of the node of ``rank``, and the ranks at its position in all nodes; ``rank`` is in both."""
    by_node = defaultdict[str, list[int]](list)
    for node_rank, node in enumerate(nodes):
        by_node[node].append(node_rank)
    inside = by_node[nodes[rank]]
    position = inside.index(rank)
    return inside, [ranks_of_node[position] for ranks_of_node in by_node.values() if len(ranks_of_node) > position]


def partners(ring: Sequence[int], rank: int) -> list[int]:
    """Returns the neighbours of ``rank`` in ``ring``, in an order of rounds that is the same for both ranks of a pair.

    Pairs that begin at an even index are in the first round, the others in the second, and the last of an odd number of
    pairs is in the third.
    """
    size, index = len(ring), ring.index(rank)
    if size < 3:
        return [neighbour for neighbour in ring if neighbour != rank]
    rounds = {first: 2 if first == size - 1 and size % 2 else first % 2 for first in range(size)}
    before = (index - 1) % size
    rounds_and_partners = sorted([(rounds[index], ring[(index + 1) % size]), (rounds[before], ring[before])])
    return [partner for _, partner in rounds_and_partners]


def _pair_seconds(own: Tensor, others: Tensor, partner: int) -> float:
    """Returns the shortest time in which this rank and ``partner`` exchange their values and add them up."""
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        both = [dist.P2POp(dist.isend, own, partner), dist.P2POp(dist.irecv, others, partner)]
        for transfer in dist.batch_isend_irecv(both):
            transfer.wait()
        (own + others)[0].item()  # waits for the sum
        times.append(time.perf_counter() - begun)
    return min(times[1:])
