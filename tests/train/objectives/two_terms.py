"""An objective with two terms, whose counts differ, and one update of it on real ranks; started by test_objective.py.

    python -m tests.train.objectives.two_terms FOLDER

For 1 and 2 ranks and ZeRO stages 0 and 1, rank 0 writes the sums of all ranks and the weights after the update to
``<ranks>-<stage>.pt``.
"""

import functools
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from headrace.pipeline.core.settings import settings
from headrace.train.config import TrainingConfig, ZeroConfig
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.data.order import row_generator
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.objectives.causal import Causal
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.momentum import Momentum

WORLDS, STAGES, LEARNING_RATE = (1, 2), (0, 1), 0.5


@settings
class TwoTerms(Causal):
    """The next token, and at a random third of the positions the token itself."""

    type: Literal["two_terms"] = "two_terms"

    @property
    def weights(self) -> Mapping[str, float]:
        return {"nll": 1.0, "copy": 0.25}

    def row(self, pieces, row_tokens, vocabulary, generator):
        arrays = super().row(pieces, row_tokens, vocabulary, generator)
        return arrays | {"copies": copies(arrays, generator)}

    def counts(self, batch: Arrays) -> dict[str, int]:
        return super().counts(batch) | {"copy": int((batch["copies"] != IGNORED).sum())}

    def losses(self, model, batch: Tensors) -> dict[str, torch.Tensor]:
        copied = model(batch["inputs"], batch["positions"], batch["documents"], batch["copies"])
        return super().losses(model, batch) | {"copy": copied}


def copies(arrays: Arrays, generator: np.random.Generator) -> np.ndarray:
    is_chosen = (generator.random(arrays["inputs"].shape) < 0.3) & (arrays["targets"] != IGNORED)
    return np.where(is_chosen, arrays["inputs"], IGNORED)


def batch() -> dict[str, torch.Tensor]:
    """A global batch of tests/train/updates.py with the targets of the second term."""
    whole = updates.batch(0)
    arrays = {name: tensor.numpy() for name, tensor in whole.items()}
    return whole | {"copies": torch.from_numpy(copies(arrays, row_generator(0, "test", 0)))}


def run(stage: int, folder: Path, ranks: Ranks) -> None:
    training = TrainingConfig(
        steps=1, batch_rows=updates.ROWS, micro_batch_rows=2, precision="fp32", gradient_clip=None
    )
    optimizer = Momentum(learning_rate=LEARNING_RATE)
    engine = Engine(updates.first_model("gpt2-tied"), optimizer, training, ZeroConfig(stage=stage), ranks)
    whole, objective = batch(), TwoTerms()
    own_rows = torch.arange(updates.ROWS).chunk(ranks.world)[ranks.rank]
    parts = [updates.select(whole, rows) for rows in own_rows.split(engine.plan.micro_rows)]
    assert len(parts) == engine.plan.accumulation > 1
    own, norm = updates.update(engine, objective, parts, updates.counts(objective, whole), LEARNING_RATE)
    sums = {name: processes.total(ranks, [value])[0] for name, value in own.items()}
    weights = dict(engine.weights())
    if ranks.first:
        torch.save({"sums": sums, "norm": norm, "weights": weights}, folder / f"{ranks.world}-{stage}.pt")


def run_all(folder: Path, ranks: Ranks) -> None:
    for stage in STAGES:
        run(stage, folder, ranks)


if __name__ == "__main__":
    importlib.import_module("torch._dynamo")  # every optimizer needs it: load it before the forks, not in each
    for world in WORLDS:
        on_ranks(world, functools.partial(run_all, Path(sys.argv[1])))
