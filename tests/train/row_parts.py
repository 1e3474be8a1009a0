"""Trains with rows that several real ranks compute together, and with whole rows on each; compares the two.

python -m tests.train.row_parts RANKS
"""

import dataclasses
import sys
from collections.abc import Callable

import torch

from headrace.train.config import ModelConfig
from headrace.train.data.batches import Tensors
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.initialization import first_weights
from headrace.train.model.transformer import build_empty
from headrace.train.objectives.base import Objective
from headrace.train.objectives.causal import Prefix
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.objectives.two_terms import ALBERT, PAIRS, encoder_batch

GPT2, LLAMA, GEMMA2 = (updates.SHAPES[name] for name in ("gpt2-tied", "llama-untied", "gemma2"))
T5 = dataclasses.replace(GPT2, positions="t5")
ALIBI = dataclasses.replace(GPT2, positions="alibi", attention_pattern=("window", "full"), window=9)


def prefix_batch() -> Tensors:
    """The first half of the inputs of a row see each other."""
    whole = updates.batch(0)
    return whole | {"prefix": (torch.arange(updates.TOKENS) < updates.TOKENS // 2).long().expand(updates.ROWS, -1)}


CASES: tuple[tuple[ModelConfig, Objective, Callable[[], Tensors], int, str], ...] = (
    (dataclasses.replace(LLAMA, dropout=0.2), updates.CAUSAL, lambda: updates.batch(0), 3, "full"),
    (ALIBI, Prefix(), prefix_batch, 2, "none"),
    (ALBERT, PAIRS, lambda: encoder_batch(PAIRS), 1, "none"),
    (dataclasses.replace(GPT2, dropout=0.2), updates.CAUSAL, lambda: updates.batch(0), 0, "selective"),
    (T5, updates.CAUSAL, lambda: updates.batch(0), 3, "none"),
    (GEMMA2, updates.CAUSAL, lambda: updates.batch(0), 1, "none"),
    (ALBERT, PAIRS, lambda: encoder_batch(PAIRS), 3, "full"),
)
"""Model, objective, batch, ZeRO stage, recomputed activations. Two ranks train the first three, four the others."""


def learnt(case: tuple, sequence_ranks: int, ranks: Ranks) -> list[torch.Tensor]:
    """The losses and gradient norms of three updates, the losses of an evaluation, and the last weights."""
    config, objective, batch, stage, recompute = case
    training = TrainingConfig(
        steps=3, batch_rows=updates.ROWS, micro_batch_rows=4, precision="fp32", recompute=recompute,
        sequence_ranks=sequence_ranks,
    )  # fmt: skip
    model = build_empty(config, updates.VOCABULARY)
    prepare_blocks(model, compiles=False, recompute=recompute)
    zero = ZeroConfig(stage=stage, offload="optimizer" if stage == 2 else "none")
    engine = Engine(model, AdamW(learning_rate=1e-3, epsilon=1e-2), training, zero, ranks)
    engine.begin(first_weights(build_empty(config, updates.VOCABULARY), updates.SEED))
    whole = batch()
    rows = torch.arange(updates.ROWS).chunk(engine.plan.groups)[engine.plan.group(ranks.rank)]
    numbers = rows.split(engine.plan.micro_rows)
    parts = [updates.select(whole, each) for each in numbers]
    counts, losses = updates.counts(objective, whole), list[float]()

    def means(own: list[dict[str, float]]) -> list[float]:
        return [processes.total(ranks, [sum(each[name] for each in own)])[0] / counts[name] for name in counts]

    for _ in range(3):
        own, norm = updates.update(engine, objective, parts, counts, 1e-3, numbers)
        losses += [*means([own]), norm]
    losses += means([engine.evaluate(objective, part) for part in parts])
    return [torch.tensor(losses), *(values for _, values in engine.weights())]


def compare(ranks: Ranks) -> None:
    cases = CASES[:3] if ranks.world == 2 else CASES[3:]
    for number, case in enumerate(cases):
        expected = learnt(case, 1, ranks)
        for sequence_ranks in {ranks.world, ranks.world if number else 2}:
            found = learnt(case, sequence_ranks, ranks)
            apart = max(float((one - other).abs().max()) for one, other in zip(found, expected, strict=True))
            assert apart < 1e-6, f"case {number} on {sequence_ranks} ranks a row: {apart}"


if __name__ == "__main__":
    on_ranks(int(sys.argv[1]), compare)
