"""Trains on two real ranks with and without recomputed activations, and compares the bits; with and without a padded
vocabulary, and compares the numbers; see test_recomputation.py.

python -m tests.train.recomputation
"""

import dataclasses

import torch

from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.model.execution import pad_vocabulary, prepare_blocks
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.masked import Masked
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.objectives.two_terms import (
    ALBERT,
    DENOISING,
    ENCODER,
    PAIRS,
    TWO_STACKS,
    denoising_batch,
    denoising_vocabulary,
    encoder_batch,
)

MASKED = Masked()
T5_BATCH = denoising_batch(DENOISING, denoising_vocabulary())
CASES = (
    (updates.SHAPES["gpt2-tied"], updates.CAUSAL, lambda: updates.batch(0), (0, 1, 2, 3), ("selective", "full"), True),
    (ALBERT, PAIRS, lambda: encoder_batch(PAIRS), (3,), ("full",), False),
    (updates.SHAPES["llama-untied"], updates.CAUSAL, lambda: updates.batch(0), (3,), (), True),
    (ENCODER, MASKED, lambda: encoder_batch(MASKED), (0,), (), True),
    (TWO_STACKS, DENOISING, lambda: T5_BATCH, (2,), (), True),
)
"""Model, objective, batch, ZeRO stages, what is recomputed, and whether its vocabulary is padded, too."""


def learnt(case: tuple, stage: int, recompute: str, ranks: Ranks, pads: bool = False) -> list[torch.Tensor]:
    """The sums of two updates, and the weights after them, with dropout."""
    config, objective, batch, *_ = case
    training = TrainingConfig(
        steps=2, batch_rows=updates.ROWS, micro_batch_rows=4, precision="fp32", recompute=recompute
    )
    model = Transformer(dataclasses.replace(config, dropout=0.1), updates.VOCABULARY)
    initialize(model, updates.SEED)
    prepare_blocks(model, compiles=False, recompute=training.recompute)
    if pads:
        pad_vocabulary(model)
    engine = Engine(model, AdamW(learning_rate=1e-2), training, ZeroConfig(stage=stage), ranks)
    whole = batch()
    own_rows = torch.arange(updates.ROWS).chunk(ranks.world)[ranks.rank]
    parts = [updates.select(whole, rows) for rows in own_rows.split(engine.plan.micro_rows)]
    torch.manual_seed(ranks.rank)
    counts = updates.counts(objective, whole)
    sums = [value for _ in range(2) for value in updates.update(engine, objective, parts, counts, 1e-2)[0].values()]
    return [torch.tensor(sums), *(values for _, values in engine.weights())]


def compare(ranks: Ranks) -> None:
    for case in CASES:
        for stage in case[3]:
            expected = learnt(case, stage, "none", ranks)
            for recompute in case[4]:
                found = learnt(case, stage, recompute, ranks)
                same = [torch.equal(one, other) for one, other in zip(found, expected, strict=True)]
                assert all(same), f"stage {stage}, {recompute}"
            if case[5]:
                torch.testing.assert_close(learnt(case, stage, "none", ranks, True), expected, rtol=1e-6, atol=1e-6)


if __name__ == "__main__":
    on_ranks(2, compare)
