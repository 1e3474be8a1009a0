"""Copying of random sequences, by their length: the model reads a sequence and a separator, and must repeat it.

    context        E c ab f x =           E: the token that begins and ends a text
    continuation   c ab f x E             right when each token is the likeliest: greedy decoding would write it

Jelassi et al. 2024 ("Repeat After Me: Transformers are Better than State Space Models at Copying", section 3) train on
short strings and test on longer ones. The source ``synthetic`` with the same separator is the text to train on. The
window may be longer than the trained context if the position scheme reads it.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources, of_groups
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, TextEncoder, TokenQuery
from headrace.train.parts import StackName
from headrace_courses.exact_continuation import exact_metrics, exact_outcome, not_possible

WHERE = "evaluation.benchmarks"


@settings
class Copying(Benchmark):
    """Exact repetition of random tokens after a separator."""

    sentence: ClassVar[str] = "Random sequences that the model repeats exactly, by their length."
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    type: Literal["copying"] = "copying"
    lengths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (10, 20, 30, 50, 100)
    """Tokens of a sequence; each length has a score of its own."""
    sequences: Positive = 100
    """The number of sequences of each length."""
    separator: str = "="
    """The text after a sequence, a single token: that of the source which the model was trained on."""

    def __post_init__(self) -> None:
        if len(set(self.lengths)) < len(self.lengths):
            raise ConfigError(WHERE, f"lengths is {list(self.lengths)}", "give different numbers")

    def items(self, sources: Sources) -> list[Item]:
        """Returns the sequences of each length that the model can read; any ordinary token but the separator occurs."""
        encoder, most = sources.text_encoder, sources.most_window_tokens
        separator = self._separator(encoder)
        special = [number for number, token in encoder.backend.get_added_tokens_decoder().items() if token.special]
        ordinary = np.setdiff1d(np.arange(sources.vocabulary), [*special, separator])
        groups = [
            [self._item(length, number, ordinary, separator, sources) for number in range(self.sequences)]
            for length, needed in self._positions.items()
            if most is None or needed <= most
        ]
        return of_groups(groups, self.limit)

    def _item(self, length: int, number: int, ordinary: np.ndarray, separator: int, sources: Sources) -> Item:
        generator = np.random.default_rng([*sources.seed.encode(), length, number])
        sequence = generator.choice(ordinary, length)
        context = np.array([sources.start, *sequence, separator])
        query = TokenQuery(context, np.append(sequence, sources.start), self._positions[length])
        return Item(f"sequence:{number}", (query,), group=f"length_{length}")

    def _separator(self, encoder: TextEncoder) -> int:
        (ids,) = encoder.encode([self.separator])
        if len(ids) != 1:
            problem = f"the separator {self.separator!r} is {len(ids)} tokens of this tokenizer"
            raise ConfigError(WHERE, problem, "give one that is a single token")
        return int(ids[0])

    @property
    def _positions(self) -> dict[int, int]:
        """The positions that each length needs: the token at the beginning, the sequence twice, the separator."""
        return {length: 2 * length + 2 for length in self.lengths}

    def notes(self, most_window_tokens: int | None) -> tuple[str, ...]:
        return not_possible(self._positions, most_window_tokens)

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return exact_outcome(answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the mean accuracy over the lengths, and for each length its accuracy and its loss in nats per token;
        guessing is never right."""
        return exact_metrics(items, outcomes, vocabulary)
