"""Shares queries out over ranks: each rank answers a part, and all know all answers.

    queries, in the order of their tokens   a a a a b b b c c c c c c d d e e e e e
    round 0                                 [ rank 0  ][ rank 1 ]
    round 1                                                      [ rank 0 ][ rank 1]

A rank gets consecutive queries of this order, so queries that begin alike are read by one rank. Queries with the same
context, the choices of an item, are never separated. After each round the ranks exchange their answers, so no rank
waits long for the others. Answers in the log (answer_log.py) are not computed again. Rounds are cut identically on
resume, so batches do not change.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from headrace.train.distributed.processes import Ranks, StopRequest, gather, stopped
from headrace.train.inference.answer_log import AnswerLog, JsonValue, key_of
from headrace.train.inference.likelihood import Likelihood
from headrace.train.inference.prefix_tree import shared_tokens
from headrace.train.inference.queries import Answer, Tally, TokenQuery

ROUND_BATCHES = 16
"""Full batches of each rank in a round. A kill loses at most one round: with SmolLM2-135M and batches of 4,096 tokens
a minute or two on a CPU. Cut so short, rounds read less than 0.1 % of the tokens twice."""

Stretches = list[list[int]]
"""The numbers of the queries of each rank."""


@dataclasses.dataclass(frozen=True)
class Sharing:
    """The joint work of one or several ranks, which are all asked the same."""

    ranks: Ranks
    answered: Callable[[int], None]
    """Is called after each round with its number of queries, those with known answers included."""
    log: AnswerLog = dataclasses.field(default_factory=AnswerLog)
    stop: StopRequest = dataclasses.field(default_factory=StopRequest)

    def answers(
        self, keys: Sequence[str], shares: Iterable[Stretches], work: Callable[[list[int]], Sequence[JsonValue]]
    ) -> list[JsonValue]:
        """Returns the answer of each of ``keys`` on all ranks: from the log, else from a rank's ``work``, by round.

        Raises:
            RetryableError: on all ranks, after the round in which any was asked to stop.
        """
        for stretches in shares:
            left = [[number for number in stretch if keys[number] not in self.log.answers] for stretch in stretches]
            if any(left):
                own = work(left[self.ranks.rank]), self.stop.asked
                of_ranks, stops = zip(*(gather(own) if self.ranks.world > 1 else [own]), strict=True)
                pairs = zip(itertools.chain(*left), itertools.chain(*of_ranks), strict=True)
                self.log.add({keys[number]: answer for number, answer in pairs})
                if any(stops):
                    raise stopped("scores", f"with {len(self.log.answers):,} answers kept")
            self.answered(sum(map(len, stretches)))
        return [self.log.answers[key] for key in keys]


@dataclasses.dataclass(frozen=True)
class SharedLikelihood:
    """A likelihood that all ranks of ``sharing`` compute together; each has ``own``."""

    own: Likelihood
    sharing: Sharing

    @property
    def window_tokens(self) -> int:
        return self.own.window_tokens

    @property
    def batch_tokens(self) -> int:
        return self.own.batch_tokens

    def answers(self, queries: Sequence[TokenQuery]) -> list[Answer]:
        """Returns one answer per query, in their order, on every rank.

        They equal the answers of one process bit for bit where its answers do not depend on the batch.
        """

        def work(numbers: list[int]) -> list[JsonValue]:
            return [
                (answer.log_likelihood, answer.greedy) for answer in self.own.answers([queries[n] for n in numbers])
            ]

        shares = rounds(queries, self.sharing.ranks.world, ROUND_BATCHES * self.batch_tokens)
        shared = self.sharing.answers([query_key(query) for query in queries], shares, work)
        return [
            Answer(log_likelihood, greedy, len(query.continuation))
            for (log_likelihood, greedy), query in zip(shared, queries, strict=True)
        ]

    def tally(self, queries: Sequence[TokenQuery]) -> Tally:
        return self.own.tally(queries)


def rounds(queries: Sequence[TokenQuery], ranks: int, round_tokens: int) -> Iterator[Stretches]:
    """Yields the queries of each rank in each round: at most about ``round_tokens``, and about equally many."""
    wholes = [np.concatenate([query.context, query.continuation]).astype(np.int64) for query in queries]
    ordered = sorted(range(len(queries)), key=lambda number: (_key(queries[number].context), _key(wholes[number])))
    blocks: list[list[int]] = []
    costs: list[int] = []
    for index, number in enumerate(ordered):
        before = ordered[index - 1] if index else None
        if before is None or not np.array_equal(queries[before].context, queries[number].context):
            blocks.append([])
            costs.append(0)
        blocks[-1].append(number)
        costs[-1] += len(wholes[number]) - (0 if before is None else shared_tokens(wholes[before], wholes[number]))
    return in_rounds(blocks, costs, ranks, round_tokens)


def query_key(query: TokenQuery) -> str:
    """Returns the key of ``query`` in the log of answers."""
    window = () if query.window_tokens is None else (str(query.window_tokens).encode(),)
    return key_of(_key(query.context), _key(query.continuation), repr(query.passed_over).encode(), *window)


def _key(tokens: np.ndarray) -> bytes:
    """Returns bytes that sort like the list of ``tokens``."""
    return tokens.astype(">i8").tobytes()


def in_rounds(blocks: Sequence[list[int]], costs: Sequence[int], ranks: int, round_cost: int) -> Iterator[Stretches]:
    """Yields ``blocks``, none of them cut, as consecutive stretches of about equal cost.

    There are ``ranks`` stretches in a round, each of at most about ``round_cost``.
    """
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
