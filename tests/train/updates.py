"""One rank of an engine that makes some updates; started by torchrun from test_engine.py.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.train.updates CASES_JSON

Writes for each case, from rank 0, ``<folder>/<name>.pt``: losses, gradient norms and the last weights.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from train import distributed
from train.config import AdamW, ModelConfig, TrainingConfig, ZeroConfig
from train.distributed import Ranks
from train.engine import Engine
from train.model.transformer import Transformer, initialize
from train.objectives.causal import DeviceBatch, nll
from train.order import share

VOCABULARY, ROWS, TOKENS, STEPS, RATE = 61, 8, 24, 20, 3e-3
SHAPES = {
    "gpt2": ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=TOKENS, mlp_width=64),
    "llama": ModelConfig(
        layers=2, width=32, heads=4, kv_heads=2, context=TOKENS, mlp_width=48,
        positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
    ),
}  # fmt: skip


def batch(step: int) -> DeviceBatch:
    """A global batch: row r holds two documents and r · 3 tokens of padding, so that ranks have unequal shares."""
    generator = np.random.default_rng(step)
    inputs = generator.integers(0, VOCABULARY, (ROWS, TOKENS + 1))
    targets, inputs = inputs[:, 1:].copy(), inputs[:, :-1].copy()
    place = np.arange(TOKENS)[None].repeat(ROWS, 0)
    middle, end = generator.integers(1, 3, (ROWS, 1)), TOKENS - 3 * np.arange(ROWS)[:, None]
    documents = np.where(place < middle, 0, 1)
    positions = np.where(place < middle, place, place - middle)
    targets[place >= end], documents[place >= end], positions[place >= end] = -100, -1, 0
    return DeviceBatch(*(torch.from_numpy(array) for array in (inputs, targets, positions, documents)))


def learning_rate(step: int) -> float:
    return RATE * min(1.0, (step + 1) / 5)


def run(case: dict, folder: Path, ranks: Ranks) -> None:
    model = Transformer(SHAPES[case["shape"]], VOCABULARY)
    initialize(model, seed=1)
    training = TrainingConfig(
        steps=STEPS, batch_rows=ROWS, micro_batch_rows=2, precision=case["precision"], gradient_clip=0.5
    )
    zero = ZeroConfig(stage=case["stage"])
    engine = Engine(model, AdamW(learning_rate=RATE), training, zero, ranks)
    losses, norms = [], []
    for step in range(STEPS):
        whole = batch(step)
        mine = torch.from_numpy(share(np.arange(ROWS), ranks.rank, ranks.world))
        parts = [
            DeviceBatch(*(tensor[rows] for tensor in vars(whole).values()))
            for rows in mine.split(engine.plan.micro_rows)
        ]
        targets = int((whole.targets != -100).sum())
        own, norm = engine.update(nll, parts, targets, learning_rate(step))
        losses.append(distributed.total(ranks, [own])[0] / targets)
        norms.append(norm)
    weights = dict(engine.weights())
    if ranks.first:
        torch.save({"losses": losses, "norms": norms, "weights": weights}, folder / f"{case['name']}.pt")


if __name__ == "__main__":
    cases_file, ranks = Path(sys.argv[1]), distributed.start("cpu")
    for case in json.loads(cases_file.read_text()):
        run(case, cases_file.parent, ranks)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)
