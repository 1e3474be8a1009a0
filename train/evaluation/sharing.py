"""Queries shared out over ranks: each answers a part, all know all answers.

    queries, in the order of their tokens   a a a a b b b c c c c c c d d e e e e e
    round 0                                 [ rank 0  ][ rank 1 ]
    round 1                                                      [ rank 0 ][ rank 1]

A rank gets consecutive ones of the ordered queries, so that what begins alike is read by one of them; those with the
same context, the choices of an item, are never separated. After each round the ranks exchange their answers: so none
waits long for the others, and all go on as one process would.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from train.distributed import Ranks, gather
from train.evaluation.item import Answer, Attention, HeadWeights, Tokens
from train.evaluation.prefixes import shared_tokens
from train.evaluation.scorer import Scorer, Tally
from train.evaluation.subject import Subject

T = TypeVar("T")

ROUND_BATCHES = 64
"""So many full batches of each rank make a round: seconds on a GPU, minutes on a CPU."""

Stretches = list[list[int]]
"""The numbers of what each rank does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedScorer(Scorer):
    """A scorer on each of several ranks, all of which are asked the same queries."""

    ranks: Ranks
    answered: Callable[[int], None]
    """Is told after each round how many queries it was."""

    def answers(self, queries: Sequence[Tokens]) -> tuple[list[Answer], Tally]:
        """One answer per query, in their order, on every rank: those of one process, bit for bit where its scores do
        not depend on the batch."""
        found: dict[int, Answer] = {}
        tally, alone = Tally(), super().answers
        shares = rounds(queries, self.ranks.world, ROUND_BATCHES * self.batch_tokens)

        def work(own: list[int]) -> tuple[list[Answer], Tally]:
            return alone([queries[number] for number in own])

        for numbers, (answers, counted) in exchanged(shares, work, self.ranks, self.answered):
            found.update(zip(numbers, answers, strict=True))
            tally += counted
        return [found[number] for number in range(len(queries))], tally

    def head_weights(self, query: Attention) -> HeadWeights:
        """Computed by every rank: it is one short sequence."""
        found = super().head_weights(query)
        self.answered(1)
        return found


def shared(subject: Subject, ranks: Ranks, answered: Callable[[int], None]) -> Subject:
    """``subject``, which each of ``ranks`` has, to be asked by all of them together."""
    own = {field.name: getattr(subject.scorer, field.name) for field in dataclasses.fields(Scorer)}
    return dataclasses.replace(subject, scorer=SharedScorer(**own, ranks=ranks, answered=answered))


def exchanged(
    shares: Iterable[Stretches], work: Callable[[list[int]], T], ranks: Ranks, answered: Callable[[int], None]
) -> Iterator[tuple[list[int], T]]:
    """What each rank had, and what its ``work`` made of it, round by round, on all ranks."""
    for stretches in shares:
        own = work(stretches[ranks.rank])
        yield from zip(stretches, gather(own) if ranks.world > 1 else [own], strict=True)
        answered(sum(map(len, stretches)))


def rounds(queries: Sequence[Tokens], ranks: int, round_tokens: int) -> Iterator[Stretches]:
    """What each of ``ranks`` answers in each round: about ``round_tokens`` at most, and about as many as the others."""
    wholes = [np.concatenate([query.context, query.continuation]).astype(np.int64) for query in queries]
    ordered = sorted(range(len(queries)), key=lambda number: (_key(queries[number].context), _key(wholes[number])))
    blocks: list[list[int]] = []
    costs: list[int] = []
    for place, number in enumerate(ordered):
        before = ordered[place - 1] if place else None
        if before is None or not np.array_equal(queries[before].context, queries[number].context):
            blocks.append([])
            costs.append(0)
        blocks[-1].append(number)
        costs[-1] += len(wholes[number]) - (0 if before is None else shared_tokens(wholes[before], wholes[number]))
    return in_rounds(blocks, costs, ranks, round_tokens)


def _key(tokens: np.ndarray) -> bytes:
    """Sorts as the list of ``tokens`` would."""
    return tokens.astype(">i8").tobytes()


def in_rounds(blocks: Sequence[list[int]], costs: Sequence[int], ranks: int, round_cost: int) -> Iterator[Stretches]:
    """``blocks``, none of them cut, as consecutive stretches of about equal cost: ``ranks`` of them a round, each of
    about ``round_cost`` at most."""
    total = max(sum(costs), 1)
    parts = ranks * -(-total // (ranks * round_cost))
    stretches: Stretches = [[] for _ in range(parts)]
    before = 0
    for block, cost in zip(blocks, costs, strict=True):
        middle = 2 * before + cost
        stretches[min(middle * parts // (2 * total), parts - 1)] += block
        before += cost
    for first in range(0, parts, ranks):
        if any(stretches[first : first + ranks]):
            yield stretches[first : first + ranks]
