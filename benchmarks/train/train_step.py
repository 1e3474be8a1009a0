"""Measures updates by the engine: tokens per second, MFU, peak memory, wait for data. Prints one JSON line.

    python -m benchmarks.train.train_step --model gpt2_124m|gpt2_350m|gpt2_1.3b|demo|tiny [--micro-rows 16]
                                       [--accumulation 1] [--stage 1] [--steps 20] [--warm-up 5]
                                       [--documents 3] [--compile auto|on|off|tuned]

One rank; random tokens in packed rows of ``--documents`` documents each, read ahead as in training. The first updates
(``--warm-up``, compilation among them) are left out; rate and MFU are those of the median update. MFU is
(6N + 12LdT) · tokens/s over the dense bf16 peak (train/loop/speed.py); bf16 with fp32 master weights and optimizer
states on a GPU, fp32 on a CPU, where no peak is known and the peak of memory is the process's. ``data_wait_seconds`` is
the loop's median wait for a batch.
"""

import argparse
import dataclasses
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from headrace.train.config import ModelConfig
from headrace.train.cost.flops import flops_per_token
from headrace.train.data.batches import Arrays, Prefetch, Tensors, to_device
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.loop.speed import peak_flops
from headrace.train.loop.training_start import open_engine
from headrace.train.model.initialization import first_weights, initialize
from headrace.train.model.transformer import Transformer, build_empty
from headrace.train.objectives.causal import Causal
from headrace.train.training_config import TrainingConfig, ZeroConfig

CAUSAL = Causal()


def gpt(layers: int, width: int, heads: int, context: int) -> ModelConfig:
    return ModelConfig(layers=layers, width=width, heads=heads, kv_heads=heads, context=context, mlp_width=4 * width)


MODELS = {
    "tiny": (gpt(2, 128, 4, 128), 2048),
    "demo": (gpt(4, 160, 5, 256), 8192),  # the demo's shape when the records were made
    "gpt2_124m": (gpt(12, 768, 12, 1024), 50304),
    "gpt2_350m": (gpt(24, 1024, 16, 1024), 50304),
    "gpt2_1.3b": (gpt(24, 2048, 16, 2048), 50304),
}
"""Shape and vocabulary; 50,304 is GPT-2's 50,257 rounded up to a multiple of 64."""


def fresh(config: ModelConfig, vocabulary: int) -> Transformer:
    model = Transformer(config, vocabulary)
    initialize(model, 0)
    return model


@dataclasses.dataclass(frozen=True)
class Case:
    """Updates to be measured."""

    model: str = "gpt2_124m"
    """A key of MODELS."""
    micro_rows: int = 16
    accumulation: int = 1
    stage: int = 1
    overlap: bool = False
    """ZeroConfig.overlap."""
    steps: int = 20
    warm_up: int = 5
    documents: int = 3
    """Documents of each row."""
    vocabulary: int | None = None
    """None: that of the model in MODELS."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other fields of TrainingConfig."""

    @property
    def config(self) -> ModelConfig:
        return MODELS[self.model][0]

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return self.vocabulary or MODELS[self.model][1]

    def training(self, device: torch.device) -> TrainingConfig:
        rows = {"batch_rows": self.micro_rows * self.accumulation, "micro_batch_rows": self.micro_rows}
        precision = "bf16" if device.type == "cuda" else "fp32"
        return TrainingConfig(steps=1, precision=precision, **rows, **self.settings)

    def engine(self, ranks: Ranks) -> Engine:
        """Builds the model as a training does."""
        training, zero = self.training(ranks.device), ZeroConfig(stage=self.stage, overlap=self.overlap)
        engine = open_engine(build_empty(self.config, self.tokens), AdamW(learning_rate=1e-3), training, zero, ranks)
        engine.begin(first_weights(build_empty(self.config, self.tokens), 0))
        return engine

    def batches(self, device: torch.device, seed: int = 0) -> list[Tensors]:
        sizes = (self.micro_rows, self.accumulation)
        return random_batches(self.config, self.tokens, *sizes, device, seed, self.documents)


def random_batch(config: ModelConfig, vocabulary: int, rows: int, seed: int, documents: int = 3) -> Arrays:
    """Returns rows of so many documents with random boundaries."""
    generator, place = np.random.default_rng(seed), np.arange(config.context)[None]
    tokens = generator.integers(0, vocabulary, (rows, config.context + 1))
    cuts = np.sort(generator.integers(1, config.context, (rows, documents - 1)), axis=1)
    numbers = (place[..., None] >= cuts[:, None]).sum(-1)
    starts = np.take_along_axis(np.concatenate([np.zeros((rows, 1), np.int64), cuts], 1), numbers, axis=1)
    positions = place - starts
    return {"inputs": tokens[:, :-1], "targets": tokens[:, 1:], "positions": positions, "documents": numbers}


def random_batches(
    config: ModelConfig,
    vocabulary: int,
    rows: int,
    accumulation: int,
    device: torch.device,
    seed: int = 0,
    documents: int = 3,
) -> list[Tensors]:
    """The micro-batches of one update."""
    seeds = range(seed * accumulation, (seed + 1) * accumulation)
    return [to_device(random_batch(config, vocabulary, rows, seed, documents), device) for seed in seeds]


def peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(case: Case, ranks: Ranks) -> dict[str, Any]:
    """Makes the updates of ``case``; returns rates and times of the median update, and the peak of memory."""
    engine, training = case.engine(ranks), case.training(ranks.device)
    targets = training.batch_rows * case.config.context
    ahead = Prefetch(lambda seed: case.batches(ranks.device, seed))
    seconds, waits = [], []
    for step in range(case.warm_up + case.steps):
        started = time.perf_counter()
        engine.gradient(CAUSAL, ahead.take(step, step + 1), {"nll": targets})
        engine.step(1e-3)
        synchronize(ranks.device)
        seconds.append(time.perf_counter() - started)
        waits.append(ahead.waited_seconds)
    step_seconds, peak = statistics.median(seconds[case.warm_up :]), peak_flops(ranks.device)
    rate, flops = targets / step_seconds, flops_per_token(case.config, case.tokens, case.config.context)
    return {
        "model": case.model,
        "parameters": case.config.parameters(case.tokens),
        "update_tokens": targets,
        "micro_rows": case.micro_rows,
        "zero_stage": case.stage,
        "documents": case.documents,
        "precision": training.precision,
        "compile": training.compile,
        "tokens_per_second": round(rate),
        "mfu_percent": round(100 * rate * flops / peak, 1) if peak else None,
        "teraflops": round(rate * flops / 1e12, 3),
        "step_seconds": round(step_seconds, 4),
        "data_wait_seconds": round(statistics.median(waits[case.warm_up :]), 6),
        "peak_gib": round(peak_bytes(ranks.device) / 2**30, 2),
        "first_step_seconds": round(seconds[0], 1),
        "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2_124m")
    parser.add_argument("--compile", choices=("auto", "on", "off", "tuned"), default="auto")
    numbers = {"micro-rows": 16, "accumulation": 1, "stage": 1, "steps": 20, "warm-up": 5, "documents": 3}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = vars(parser.parse_args())
    case = Case(settings={"compile": asked.pop("compile")}, **asked)
    print(json.dumps(measure(case, processes.start("auto"))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
