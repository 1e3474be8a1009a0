"""The in-context-learning score: the fall of the loss with the length of the context.

    document   EOT d d d … d[50] … d[500] …       loss at token 500 − loss at token 50, in nats

Olsson et al. 2022 ("In-context Learning and Induction Heads", Argument 1): the score is the loss of the 500th token in
the context minus that of the 50th, each of its own document, averaged over documents. What the two tokens are does not
matter over many documents; the tokens before them do. Below 0, later tokens are easier; a model that does not use its
context stays at 0.

    tokens       1 | 2 3 | 4 5 6 7 | 8 … 15 | … 500       the loss of each octave of the token's index

The score has two points of a curve; the losses of the octaves are all of it. Its derivative by the
logarithm of the index (the same paper) shows where in the context a model learns from it.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.held_out_documents import HeldOutDocument, sample
from headrace.train.evaluation.metrics import mean
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, TokenQuery
from headrace.train.parts import StackName

LOSS_BY_INDEX = "loss_by_index"
OCTAVE = "tokens_{}_{}"
"""The group of the loss of an octave, with its first and last index."""
Octave = tuple[int, int]


@settings
class InContext(Benchmark):
    """Loss at a late token minus loss at an early one, over held-out documents that are long enough for both."""

    needs_run: ClassVar[bool] = True
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    revision: ClassVar[int] = 1
    type: Literal["in_context"] = "in_context"
    sentence: ClassVar[str] = "How much better the model predicts late in a text than early in it."
    early_token: Positive = 50
    """The position of the early token, counted from 1 in its document."""
    late_token: Positive = 500
    """The position of the late token; the model's window and a document must be at least as long."""

    def __post_init__(self) -> None:
        if self.early_token >= self.late_token:
            problem = f"early_token is {self.early_token}, late_token {self.late_token}"
            raise ConfigError("evaluation.benchmarks", problem, "give a larger late_token")

    @property
    def least_window_tokens(self) -> int:
        return self.late_token

    def items(self, sources: Sources) -> list[Item]:
        long = [document for document in sources.held_out_documents if len(document.tokens) - 2 >= self.late_token]
        return [Item(document.name, self._queries(document)) for document in sample(long, self.limit)]

    def _queries(self, document: HeldOutDocument) -> tuple[TokenQuery, ...]:
        """Returns the early and the late token, then each octave, after all tokens before, the end-of-text token
        first."""
        tokens, ranges = document.tokens, [(at, at) for at in (self.early_token, self.late_token)]
        return tuple(TokenQuery(tokens[:a], tokens[a : b + 1]) for a, b in [*ranges, *self._octaves])

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        early, late, *others = (-answer.log_likelihood / answer.tokens for answer in answers)
        by_index = {OCTAVE.format(*octave): loss for octave, loss in zip(self._octaves, others, strict=True)}
        return {"in_context_score": late - early, "loss_at_early": early, "loss_at_late": late, **by_index}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the score and the two losses, then the loss of each octave, in nats per token; documents are the unit
        of the errors."""
        uniform = {"in_context_score": 0.0, "loss_at_early": math.log(vocabulary), "loss_at_late": math.log(vocabulary)}
        groups = [OCTAVE.format(*octave) for octave in self._octaves]
        return [
            *(mean(name, column(outcomes, name), random) for name, random in uniform.items()),
            *(mean(LOSS_BY_INDEX, column(outcomes, group), math.log(vocabulary), group) for group in groups),
        ]

    @property
    def _octaves(self) -> list[Octave]:
        """The first and last index of each octave up to the late token, from 1."""
        starts = [2**power for power in range(self.late_token.bit_length())]
        return [(start, min(2 * start - 1, self.late_token)) for start in starts]
