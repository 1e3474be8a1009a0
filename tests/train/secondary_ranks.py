"""Trains at stage 3 with and without a second copy of the parameters on each pair of ranks, and compares the bits; then
the same with the state in CPU memory.

python -m tests.train.secondary_ranks RANKS
"""

import functools
import sys

import torch

from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.model.initialization import first_weights
from headrace.train.model.transformer import build_empty
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.objectives.two_terms import DENOISING, TWO_STACKS, denoising_batch, denoising_vocabulary


def learnt(secondary_ranks: int, offload: str, ranks: Ranks) -> list[torch.Tensor]:
    """The sums of two updates and of an evaluation after each, and the last weights."""
    training = TrainingConfig(steps=2, batch_rows=updates.ROWS, micro_batch_rows=2, precision="fp32")
    zeroing = ZeroConfig(stage=3, secondary_ranks=secondary_ranks, offload=offload)
    engine = Engine(build_empty(TWO_STACKS, updates.VOCABULARY), AdamW(learning_rate=1e-2), training, zeroing, ranks)
    engine.begin(first_weights(build_empty(TWO_STACKS, updates.VOCABULARY), updates.SEED))
    whole = denoising_batch(DENOISING, denoising_vocabulary())
    own_rows = torch.arange(updates.ROWS).chunk(ranks.world)[ranks.rank]
    parts = [updates.select(whole, rows) for rows in own_rows.split(engine.plan.micro_rows)]
    counts = updates.counts(DENOISING, whole)
    sums = []
    for _ in range(2):
        sums += engine.gradient(DENOISING, parts, counts).values()
        copied = [value.ds_secondary_tensor is not None for value in engine._engine.module.parameters()]
        assert any(copied) == (secondary_ranks > 1)
        engine.step(1e-2)
        sums += engine.evaluate(DENOISING, parts[0]).values()
    return [torch.tensor(sums), *(values for _, values in engine.weights())]


def compare(offload: str, ranks: Ranks) -> None:
    expected, found = (learnt(secondary_ranks, offload, ranks) for secondary_ranks in (1, 2))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


if __name__ == "__main__":
    for offload in ("none", "optimizer"):  # DeepSpeed can have one second copy in a process
        on_ranks(int(sys.argv[1]), functools.partial(compare, offload))
