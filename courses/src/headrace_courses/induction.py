"""Finds induction heads: on repeated random tokens they attend to the token that came next the first time.

    position   0   1 2 3 4   5 6 7 8        an induction head attends from 7 (c) to 4, after the c at 3:
    token      EOT a b c d   a b c d        the token there, d, comes next

Olsson et al. 2022 ("In-context Learning and Induction Heads"): induction heads match prefixes (they attend to the token
after an earlier occurrence of the present one) and copy; random tokens can be predicted by nothing else. Here a head's
prefix-matching score is its mean attention from each token of the repetition to the token after its first occurrence;
tokens are distinct within a sequence, so there is one such occurrence. (The paper draws 25 tokens, leaves
out the commonest and the rarest, repeats them four times and sums over the earlier occurrences.) Losses are of all
tokens but the first, which nothing foretells in the repetition either.
"""

import dataclasses
import math
import random
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import LARGEST, Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources, column
from headrace.train.evaluation.metrics import mean
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import NetworkQuery, TokenQuery
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from headrace.train.inference.inference_model import InferenceModel

INDUCTION = 0.5
"""A head that gives more than this share of its attention to the token to copy counts as an induction head."""
HEAD = "layer_{}_head_{}"
"""The group of a head's metric; layers and heads from 0."""


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionWeights(NetworkQuery):
    """The weight with which each head attends from one token to another, from 0 to 1, in the mean over pairs."""

    tokens: np.ndarray
    """The sequence, at most as long as the model's window."""
    pairs: np.ndarray
    """(P, 2): the position that attends, and the position that it attends to."""

    def answered(self, model: "InferenceModel") -> tuple[tuple[float, ...], ...]:
        """Returns the weight of each head of each layer."""
        import torch

        with torch.inference_mode():
            tokens_BT = torch.from_numpy(self.tokens.astype(np.int64))[None].to(model.device)
            rows_P, columns_P = torch.from_numpy(self.pairs).to(model.device).unbind(1)
            layers = model.network.attention_weights(tokens_BT)
            return tuple(tuple(w[0, :, rows_P, columns_P].double().mean(1).tolist()) for w in layers)


@settings
class Induction(Benchmark):
    """Prefix matching of each head, and the fall of the loss by repetition, on repeated random tokens."""

    sentence: ClassVar[str] = "Attention heads that look for the earlier occurrence of the present token."
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    reads_attention: ClassVar[bool] = True
    type: Literal["induction"] = "induction"
    sequence_tokens: Annotated[int, Field(ge=2, le=LARGEST)] = 50
    """Random tokens of a sequence, which holds them twice; the window must hold both and one token before."""
    sequences: Positive = 16
    """The number of sequences that scores are means of."""

    @property
    def least_window_tokens(self) -> int:
        return 2 * self.sequence_tokens + 1

    def items(self, sources: Sources) -> list[Item]:
        generator = random.Random(sources.seed)
        return [self._item(number, generator, sources) for number in range(self.sequences)][: self.limit]

    def _item(self, number: int, generator: random.Random, sources: Sources) -> Item:
        if sources.vocabulary <= self.sequence_tokens:
            problem = f"{self.sequence_tokens} distinct tokens of a vocabulary of {sources.vocabulary}"
            raise ConfigError("evaluation.benchmarks", problem, "make sequence_tokens smaller")
        drawn = np.array(generator.sample(range(sources.vocabulary - 1), self.sequence_tokens))
        once = drawn + (drawn >= sources.start)
        positions = np.array(self._positions)
        pairs = np.stack([positions, positions - self.sequence_tokens + 1], axis=1)
        whole = np.concatenate([[sources.start], once, once])
        first, repeat = (TokenQuery(whole[: begin + 1], once[1:]) for begin in (1, len(once) + 1))
        return Item(f"sequence:{number}", (first, repeat, AttentionWeights(whole, pairs)))

    def outcome(self, item: Item, answers: Sequence[Any]) -> Outcome:
        first, repeat, attention = answers
        losses = [-answer.log_likelihood / answer.tokens for answer in (first, repeat)]
        heads = {
            HEAD.format(layer, head): weight
            for layer, weights in enumerate(attention)
            for head, weight in enumerate(weights)
        }
        return {"copying_loss": losses[1] - losses[0], "loss_at_first": losses[0], "loss_on_repeat": losses[1], **heads}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the best head's prefix matching (random: attention spread evenly), the number of induction heads,
        nats per token on the repetition minus those at first, both of these, and the prefix matching of each head."""
        values = {name: column(outcomes, name) for name in outcomes[0]}
        uniform = {"copying_loss": 0.0, "loss_at_first": math.log(vocabulary), "loss_on_repeat": math.log(vocabulary)}
        evenly = statistics.fmean(1 / (position + 1) for position in self._positions)
        heads = [mean("prefix_matching", values[name], evenly, name) for name in values if name not in uniform]
        greatest = max(heads, key=lambda head: head.value)
        inducing = sum(head.value > INDUCTION for head in heads)
        return [
            dataclasses.replace(greatest, group=""),
            Metric("induction_heads", float(inducing), None, None, 0.0, len(items)),
            *(mean(name, values[name], random) for name, random in uniform.items()),
            *heads,
        ]

    @property
    def _positions(self) -> range:
        """The positions of the repetition."""
        return range(self.sequence_tokens + 1, 2 * self.sequence_tokens + 1)
