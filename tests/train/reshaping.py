"""Trainings that save or resume a state, on one or more real ranks; started by tests/train/topologies.py.

    python -m tests.train.reshaping CASES_JSON        [[2, [case, case]], [1, [case]]]

For each number of ranks, in the given order, one process is forked for each rank; these run all its cases one after the
other. A case loads the state in the folder ``load`` if it names one, and trains from ``first`` to ``last``. It saves
the state at ``first`` in ``<name>/first``, the one at ``save``, if given, in ``<name>/save``, and losses, last weights
and the moving average at ``save``, computed from the whole weights of each step, in ``<name>.pt``.
"""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from headrace.train.data.batches import Tensors
from headrace.train.data.order import share
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Objective, combined
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import forks, updates
from tests.train.momentum import Momentum
from tests.train.objectives import two_terms

LEARNING_RATE, WARMUP_STEPS = 3e-3, 5
MODELS: dict[str, tuple[Callable[[], Transformer], Objective, Callable[[int], Tensors]]] = {
    "gpt2-tied": (functools.partial(updates.first_model, "gpt2-tied"), updates.CAUSAL, updates.batch),
    **{case.name: (case.model, case.objective, lambda step, case=case: case.batch()) for case in two_terms.CASES},
}
"""The first model, the objective and the global batch of each step."""
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": AdamW(learning_rate=LEARNING_RATE),
    "stable_adamw": StableAdamW(learning_rate=LEARNING_RATE),
    "muon": Muon(learning_rate=LEARNING_RATE),
    "adafactor": Adafactor(learning_rate=LEARNING_RATE),
    "momentum": Momentum(learning_rate=LEARNING_RATE),
    "adamw_ema": AdamW(learning_rate=LEARNING_RATE, ema_decay=0.5),
    "muon_ema": Muon(learning_rate=LEARNING_RATE, ema_decay=0.5),
}


def run_all(cases: list[dict], folder: Path, ranks: Ranks) -> None:
    for case in cases:
        run(case, folder, ranks)


def run(case: dict, folder: Path, ranks: Ranks) -> None:
    first_model, objective, batch = MODELS[case["model"]]
    training = TrainingConfig(
        steps=99, batch_rows=updates.ROWS, micro_batch_rows=4, precision=case["precision"], gradient_clip=0.5
    )
    engine = Engine(first_model(), OPTIMIZERS[case["optimizer"]], training, ZeroConfig(**case["zero"]), ranks)
    if case["load"]:
        engine.load(sorted((folder / case["load"]).iterdir()))
    leave(engine, folder / case["name"] / "first")
    losses, average, average_at_save = [], dict(engine.weights()), {}
    for step in range(case["first"], case["last"]):
        if step == case["save"]:
            leave(engine, folder / case["name"] / "save")
            average_at_save = average
        losses.append(update(engine, objective, batch(step), step))
        if decay := OPTIMIZERS[case["optimizer"]].ema_decay:
            average = {name: decay * average[name] + (1 - decay) * now for name, now in engine.weights()}
    weights = dict(engine.weights())
    if ranks.first:
        torch.save({"losses": losses, "weights": weights, "average": average_at_save}, folder / f"{case['name']}.pt")
    torch.distributed.barrier()


def leave(engine: Engine, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    engine.snapshot().write(folder / f"{engine.ranks.rank:05d}.safetensors")


def update(engine: Engine, objective: Objective, whole: Tensors, step: int) -> float:
    """The loss of the update."""
    mine = torch.from_numpy(share(np.arange(updates.ROWS), engine.ranks.rank, engine.ranks.world))
    parts = [updates.select(whole, rows) for rows in mine.split(engine.plan.micro_rows)]
    counts = updates.counts(objective, whole)
    learning_rate = LEARNING_RATE * min(1.0, (step + 1) / WARMUP_STEPS)
    own, _ = updates.update(engine, objective, parts, counts, learning_rate)
    return combined(objective.weights, {name: processes.total(engine.ranks, [own[name]])[0] for name in own}, counts)


if __name__ == "__main__":
    cases_file = Path(sys.argv[1])
    for world, cases in json.loads(cases_file.read_text()):
        forks.on_ranks(world, functools.partial(run_all, cases, cases_file.parent))
