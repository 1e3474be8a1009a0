"""Compares passes with training.recompute=none, selective and full. Prints one JSON line a shape.

    python -m benchmarks.train.recompute_time [--rows 4] [--rounds 5]

Shapes and batches are those of plan_memory.py, in fp32 on one core, without optimizer. A round makes a forward and a
backward pass of each kind, so all see the same machine. ``seconds`` is the median CPU time of both. ``ratio`` is that
to none in the same round: quartiles and median. ``kept_mb`` is what the forward pass leaves for the backward pass
(kept_memory.py).
"""

import argparse
import json
import statistics
import time
from typing import Any, get_args

import torch

from benchmarks.train import memory_cases, plan_memory
from benchmarks.train.kept_memory import Made
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.training_config import Recompute

SHAPES = ("gpt2", "llama", "bert")


class Passes:
    """Forward and backward passes of a model with one kind of recomputation."""

    def __init__(self, shape: str, recompute: Recompute, rows: int) -> None:
        case = plan_memory.footprint(shape, 1, "cpu")
        self._objective = memory_cases.OBJECTIVES[case.model.stack]
        self._batch = plan_memory.batch(rows, case, torch.device("cpu"))
        self._model = Transformer(case.model, case.vocabulary).train()
        initialize(self._model, 0)
        prepare_blocks(self._model, compiles=False, recompute=recompute)

    def losses(self) -> list[torch.Tensor]:
        return list(self._objective.losses(self._model, self._batch).values())

    def kept_bytes(self) -> int:
        with Made() as made:
            losses = self.losses()
        kept = made.kept_bytes()
        torch.stack(losses).sum().backward()
        return kept

    def seconds(self) -> float:
        before = time.process_time()
        torch.stack(self.losses()).sum().backward()
        return time.process_time() - before


def quartiles(values: list[float]) -> list[float]:
    return [round(value, 3) for value in statistics.quantiles(values, n=4, method="inclusive")]


def compare(shape: str, rows: int, rounds: int) -> dict[str, Any]:
    passes = {recompute: Passes(shape, recompute, rows) for recompute in get_args(Recompute)}
    kept = {name: round(measured_pass.kept_bytes() / 1e6, 1) for name, measured_pass in passes.items()}
    times = [{name: measured_pass.seconds() for name, measured_pass in passes.items()} for _ in range(rounds)]
    seconds = {name: round(statistics.median(row[name] for row in times), 3) for name in passes}
    ratio = {name: quartiles([row[name] / row["none"] for row in times]) for name in passes}
    return {"shape": shape, "rows": rows, "kept_mb": kept, "seconds": seconds, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    plan_memory.prepare()
    for shape in SHAPES:
        print(json.dumps(compare(shape, asked.rows, asked.rounds)), flush=True)


if __name__ == "__main__":
    main()
