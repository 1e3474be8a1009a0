"""Queries shared out over ranks: each answers a part, all know all answers.

    queries, in the order of their tokens   a a a a b b b c c c c c c d d e e e e e
    round 0                                 [ rank 0  ][ rank 1 ]
    round 1                                                      [ rank 0 ][ rank 1]

A rank gets consecutive ones of the ordered queries, so that what begins alike is read by one of them; those with the
same context, the choices of an item, are never separated. After each round the ranks exchange their answers: so none
waits long for the others, and all go on as one process would. What is known already (kept.py) is not asked again;
rounds are cut as if it were, so that the rest has the company that it had.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from headrace.train.distributed.processes import Ranks, StopRequest, gather, stopped
from headrace.train.inference.answer_log import Kept, Plain, key_of
from headrace.train.inference.item import Answer, Attention, HeadWeights, Tokens
from headrace.train.inference.prefix_tree import shared_tokens
from headrace.train.inference.scorer import Scorer, Tally
from headrace.train.inference.subject import Subject

ROUND_BATCHES = 16
"""So many full batches of each rank make a round, which is what a kill may lose: with SmolLM2-135M and batches of 4,096
tokens a minute or two on a CPU. Cut so short, all that rounds read twice is less than 0.1 % of the tokens."""

Stretches = list[list[int]]
"""The numbers of what each rank does."""


@dataclasses.dataclass(frozen=True)
class Sharing:
    """What one or several ranks, all of which are asked the same, do together."""

    ranks: Ranks
    answered: Callable[[int], None]
    """Is told after each round how many queries it was, those whose answers were known included."""
    kept: Kept = dataclasses.field(default_factory=Kept)
    stop: StopRequest = dataclasses.field(default_factory=StopRequest)

    def answers(
        self, keys: Sequence[str], shares: Iterable[Stretches], work: Callable[[list[int]], Sequence[Plain]]
    ) -> list[Plain]:
        """The answer of each of ``keys``, on all ranks: what is kept, else what a rank's ``work`` makes of its number,
        round by round.

        Raises:
            RetryableError: on all ranks, after the round in which any was asked to stop.
        """
        for stretches in shares:
            left = [[number for number in stretch if keys[number] not in self.kept.answers] for stretch in stretches]
            if any(left):
                own = work(left[self.ranks.rank]), self.stop.asked
                found, stops = zip(*(gather(own) if self.ranks.world > 1 else [own]), strict=True)
                pairs = zip(itertools.chain(*left), itertools.chain(*found), strict=True)
                self.kept.add({keys[number]: answer for number, answer in pairs})
                if any(stops):
                    raise stopped("scores", f"with {len(self.kept.answers):,} answers kept")
            self.answered(sum(map(len, stretches)))
        return [self.kept.answers[key] for key in keys]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedScorer(Scorer):
    """A scorer on each of several ranks."""

    sharing: Sharing

    def answers(self, queries: Sequence[Tokens]) -> tuple[list[Answer], Tally]:
        """One answer per query, in their order, on every rank: those of one process, bit for bit where its scores do
        not depend on the batch."""
        tally, alone = Tally(), super().answers
        for query in queries:
            self._count(query, tally)

        def work(own: list[int]) -> list[Plain]:
            return [(one.log_likelihood, one.greedy) for one in alone([queries[number] for number in own])[0]]

        shares = rounds(queries, self.sharing.ranks.world, ROUND_BATCHES * self.batch_tokens)
        found = self.sharing.answers([query_key(query) for query in queries], shares, work)
        return [Answer(*one, len(query.continuation)) for one, query in zip(found, queries, strict=True)], tally

    def head_weights(self, query: Attention) -> HeadWeights:
        """Computed by every rank: it is one short sequence."""
        found = super().head_weights(query)
        self.sharing.answered(1)
        return found


def shared(subject: Subject, sharing: Sharing) -> Subject:
    """``subject``, which each rank of ``sharing`` has, to be asked by all of them together."""
    own = {field.name: getattr(subject.scorer, field.name) for field in dataclasses.fields(Scorer)}
    return dataclasses.replace(subject, scorer=SharedScorer(**own, sharing=sharing))


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


def query_key(query: Tokens) -> str:
    return key_of(_key(query.context), _key(query.continuation), repr(query.passed_over).encode())


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
