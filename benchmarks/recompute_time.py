"""Compares updates with training.recompute=none, selective and full. Prints one JSON line a shape.

    python -m benchmarks.recompute_time [--only gpt2|llama|bert] [--rounds 7]

Shapes and batches are those of plan_memory.py: fp32, one rank, ZeRO stage 0. A round makes one update of each kind, so
all see the same machine; the first round is left out. ``seconds`` is the median CPU time of an update on one core.
``ratio`` is that of selective and full to none in the same round: median, and both quartiles. ``kept_mb`` is what the
forward pass leaves for the backward pass (kept_memory.py).
"""

import argparse
import dataclasses
import json
import statistics
import time
from typing import Any, get_args

from benchmarks import plan_memory
from benchmarks.kept_memory import Made
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.pair import build_empty
from headrace.train.model.transformer import first_weights
from headrace.train.training_config import Recompute, ZeroConfig

SHAPES = ("gpt2", "llama", "bert")


class Training:
    """A model that makes updates with one kind of recomputation."""

    def __init__(self, shape: str, recompute: Recompute, ranks: Ranks) -> None:
        self._case = plan_memory.footprint(shape, 1, "cpu")
        self._objective = plan_memory.OBJECTIVES[self._case.model.stack]
        self._model = build_empty(self._case.model, self._case.vocabulary)
        prepare_blocks(self._model, compiles=False, recompute=recompute)
        training = dataclasses.replace(self._case.training, recompute=recompute)
        self._engine = Engine(self._model, AdamW(learning_rate=1e-3), training, ZeroConfig(stage=0), ranks)
        self._engine.begin(first_weights(build_empty(self._case.model, self._case.vocabulary), 0))
        self._batch = plan_memory.batch(self._engine.plan.micro_rows, self._case, ranks.device)

    def update_seconds(self) -> float:
        before = time.process_time()
        counts = dict.fromkeys(self._objective.weights, self._batch["targets"].numel())
        self._engine.gradient(self._objective, [self._batch], counts)
        self._engine.step(1e-3)
        return time.process_time() - before

    def kept_bytes(self) -> int:
        with Made() as made:
            losses = self._objective.losses(self._model, self._batch)
        kept = made.kept_bytes()
        del losses
        return kept


def compare(shape: str, rounds: int, ranks: Ranks) -> dict[str, Any]:
    trainings = {recompute: Training(shape, recompute, ranks) for recompute in get_args(Recompute)}
    kept = {recompute: round(training.kept_bytes() / 1e6, 1) for recompute, training in trainings.items()}
    times = [{name: each.update_seconds() for name, each in trainings.items()} for _ in range(rounds + 1)][1:]
    seconds = {name: round(statistics.median(row[name] for row in times), 3) for name in trainings}
    ratios = {}
    for name in list(trainings)[1:]:
        low, middle, high = statistics.quantiles((row[name] / row["none"] for row in times), n=4, method="inclusive")
        ratios[name] = [round(value, 3) for value in (middle, low, high)]
    return {"shape": shape, "rounds": rounds, "kept_mb": kept, "seconds": seconds, "ratio": ratios}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    plan_memory.prepare()
    ranks = processes.start("cpu")
    for shape in (asked.only,) if asked.only else SHAPES:
        print(json.dumps(compare(shape, asked.rounds, ranks)), flush=True)


if __name__ == "__main__":
    main()
