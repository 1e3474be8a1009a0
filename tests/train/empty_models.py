"""Engines on two real ranks that begin from a model without memory: their bits, and the memory at their start.

python -m tests.train.empty_models
"""

import ctypes
import gc
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from headrace.train.config import ModelConfig
from headrace.train.data.batches import Tensors
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.model.initialization import first_weights, initialize
from headrace.train.model.transformer import Transformer, build_empty
from headrace.train.objectives.base import Objective
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.objectives.two_terms import ALBERT, DENOISING, PAIRS, TWO_STACKS, denoising_batch, denoising_vocabulary
from tests.train.objectives.two_terms import encoder_batch as batch_of_encoder

CASES: tuple[tuple[ModelConfig, Objective, Callable[[], Tensors], Mapping[str, object]], ...] = (
    (updates.SHAPES["gpt2-tied"], updates.CAUSAL, lambda: updates.batch(0), {"stage": 1, "precision": "bf16"}),
    (updates.SHAPES["gemma2"], updates.CAUSAL, lambda: updates.batch(0), {"stage": 3, "precision": "bf16"}),
    (ALBERT, PAIRS, lambda: batch_of_encoder(PAIRS), {"stage": 3, "precision": "fp32"}),
    (
        TWO_STACKS,
        DENOISING,
        lambda: denoising_batch(DENOISING, denoising_vocabulary()),
        {"stage": 3, "precision": "fp32"},
    ),
)
OPTIMIZERS = {"fp32": Muon(learning_rate=1e-2), "bf16": AdamW(learning_rate=1e-2, ema_decay=0.5)}
LARGE = ModelConfig(layers=16, width=192, heads=4, kv_heads=4, context=64, mlp_width=768)
MMAP_THRESHOLD = -3


def begun(config: ModelConfig, training: TrainingConfig, stage: int, ranks: Ranks, is_empty: bool = True) -> Engine:
    """An engine with the first weights of ``config``; its model has no memory before it, or has all weights."""
    model = build_empty(config, updates.VOCABULARY) if is_empty else Transformer(config, updates.VOCABULARY)
    if not is_empty:
        initialize(model, updates.SEED)
    zeroing = ZeroConfig(stage=stage, bucket_elements=1_000_000)
    engine = Engine(model, OPTIMIZERS[training.precision], training, zeroing, ranks)
    if is_empty:
        engine.begin(first_weights(build_empty(config, updates.VOCABULARY), updates.SEED))
    return engine


def learnt(case: tuple, is_empty: bool, ranks: Ranks) -> list[torch.Tensor]:
    """The sums of two updates, and this rank's state after them."""
    config, objective, batch, settings = case
    training = TrainingConfig(
        steps=2, batch_rows=updates.ROWS, micro_batch_rows=8, precision=settings["precision"], gradient_sums="precision"
    )
    engine, whole = begun(config, training, settings["stage"], ranks, is_empty), batch()
    own = [updates.select(whole, torch.arange(updates.ROWS).chunk(ranks.world)[ranks.rank])]
    counts = updates.counts(objective, whole)
    sums = [value for _ in range(2) for value in updates.update(engine, objective, own, counts, 1e-2)[0].values()]
    state = [values.clone() for fragment in engine.fragments() for values in fragment.values.values()]
    return [torch.tensor(sums), *state]


def compare(ranks: Ranks) -> None:
    for case in CASES:
        expected, found = (learnt(case, is_empty, ranks) for is_empty in (False, True))
        assert len(found) == len(expected) > 1
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True)), case


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def measure(ranks: Ranks) -> None:
    """At stage 3 the start takes less than two of the largest parameters more than what stays of it."""
    training = TrainingConfig(steps=2, batch_rows=8, micro_batch_rows=2, precision="fp32")
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    engine = begun(LARGE, training, 3, ranks)
    whole, largest = 4 * LARGE.parameters(updates.VOCABULARY), 4 * LARGE.mlp_width * LARGE.width
    stays = resident("VmRSS") - before
    assert resident("VmHWM") - before - stays < 2 * largest + whole / 20, (before, stays, resident("VmHWM"))
    assert whole < stays < 2 * whole  # a half each of weights, master weights and gradients
    assert engine.plan.world == 2


def check(ranks: Ranks) -> None:
    compare(ranks)
    measure(ranks)


if __name__ == "__main__":
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 16)
    on_ranks(2, check)
