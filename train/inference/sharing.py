"""Shares queries out over ranks: each rank answers a part, and all know all answers.

    queries, in the order of their tokens   a a a a b b b c c c c c c d d e e e e e
    round 0                                 [ rank 0  ][ rank 1 ]
    round 1                                                      [ rank 0 ][ rank 1]

A rank gets consecutive queries of this order, so queries that begin alike are read by one rank. Queries with the same
context, the choices of an item, are never separated. After each round the ranks exchange their answers, so no rank
waits long for the others. Answers in the log are not computed again. Rounds are cut identically on
resume, so batches do not change.

**The log of answers**: a scoring that was killed resumes from it.

    round of answers ── rank 0 ──> scratch/answers of the unfinished artifact: one more line, synced to the disk
    killed, and run again          scratch/answers ──> all ranks, which ask the model only the rest

    line    SHA-256 of the rest of the line, {"<key>": [-12.5, true], "<key>": [-3.25, false], …}

A line is read whole or not at all: answers in a torn or changed line are computed again. A key is a hash of the whole
query, down to its tokens. The model and the settings are in the address of the artifact, so answers cannot be mixed up.
The file is removed with the artifact's scratch.
"""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.pipeline.core.artifact_files import make
from headrace.train.distributed.processes import Ranks, StopRequest, gather, on_first, stopped
from headrace.train.inference.causal_likelihood import shared_tokens
from headrace.train.inference.queries import Answer, Likelihood, Tally, TokenQuery

SEAL_BYTES = 64
JsonValue = Any
"""A value that JSON can hold; sequences come back from a file as lists."""


@dataclasses.dataclass(frozen=True)
class AnswerLog:
    """Answers by their keys, of this process and of earlier ones."""

    answers: dict[str, JsonValue] = dataclasses.field(default_factory=dict)
    path: Path | None = None
    """The file that new answers are written to; None on all ranks but the first."""

    @classmethod
    def resumed(cls, path: Path, ranks: Ranks) -> "AnswerLog":
        """Returns the log in ``path`` on all ranks; the first rank writes new answers to it."""
        return cls(on_first(ranks, lambda: read_answers(path)), path if ranks.first else None)

    def add(self, answers: Mapping[str, JsonValue]) -> None:
        """Adds ``answers``; on return they are on the disk."""
        self.answers.update(answers)
        if self.path:
            make(self.path.parent)
            body = json.dumps(answers).encode()
            with self.path.open("ab") as stream:
                stream.write(b"\n" + _seal(body) + body)  # the line before may be torn
                stream.flush()
                os.fsync(stream.fileno())


def read_answers(path: Path) -> dict[str, JsonValue]:
    """Returns the answers in the whole lines of ``path``; none when there is no such file."""
    answers: dict[str, JsonValue] = {}
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        seal, body = line[:SEAL_BYTES], line[SEAL_BYTES:]
        if seal == _seal(body):
            answers |= json.loads(body)
    return answers


def key_of(*parts: bytes) -> str:
    """Returns the key of a query that ``parts`` describe."""
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def _seal(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


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
                answered = work(left[self.ranks.rank]), self.stop.asked
                of_ranks, stops = zip(*(gather(answered) if self.ranks.world > 1 else [answered]), strict=True)
                pairs = zip(itertools.chain(*left), itertools.chain(*of_ranks), strict=True)
                self.log.add({keys[number]: answer for number, answer in pairs})
                if any(stops):
                    raise stopped("scores", f"with {len(self.log.answers):,} answers kept")
            self.answered(sum(map(len, stretches)))
        return [self.log.answers[key] for key in keys]


@dataclasses.dataclass(frozen=True)
class SharedLikelihood:
    """A likelihood that all ranks of ``sharing`` compute together; each has its ``likelihood``."""

    likelihood: Likelihood
    sharing: Sharing

    @property
    def window_tokens(self) -> int:
        return self.likelihood.window_tokens

    @property
    def batch_tokens(self) -> int:
        return self.likelihood.batch_tokens

    def answers(self, queries: Sequence[TokenQuery]) -> list[Answer]:
        """Returns one answer per query, in their order, on every rank.

        They equal the answers of one process bit for bit where its answers do not depend on the batch.
        """

        def work(numbers: list[int]) -> list[JsonValue]:
            return [
                (answer.log_likelihood, answer.greedy)
                for answer in self.likelihood.answers([queries[n] for n in numbers])
            ]

        shares = rounds(queries, self.sharing.ranks.world, ROUND_BATCHES * self.batch_tokens)
        shared = self.sharing.answers([query_key(query) for query in queries], shares, work)
        return [
            Answer(log_likelihood, greedy, len(query.continuation))
            for (log_likelihood, greedy), query in zip(shared, queries, strict=True)
        ]

    def tally(self, queries: Sequence[TokenQuery]) -> Tally:
        return self.likelihood.tally(queries)


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
    return key_of(_key(query.context), _key(query.continuation), *window)


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
