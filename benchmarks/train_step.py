"""How fast an update is through DeepSpeed, and through plain PyTorch: prints one JSON line.

    python benchmarks/train_step.py [--model demo] [--vocabulary 4096] [--rows 16] [--micro-rows 16] [--stage 1]

Random tokens, one document a row, one process. The first updates are left out of the times (``--warm-up``); the median
of the others (``--steps``) counts. ``overhead`` is the engine's time over the plain loop's.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.core.settings import decode  # noqa: E402
from train import distributed, optimizer  # noqa: E402
from train.config import AdamW, ModelConfig, TrainingConfig, ZeroConfig  # noqa: E402
from train.engine import Engine  # noqa: E402
from train.model.transformer import Transformer, initialize  # noqa: E402
from train.objectives.causal import DeviceBatch, nll  # noqa: E402
from train.throughput import flops_per_token  # noqa: E402


def median_seconds(update: Callable[[], object], steps: int, warm_up: int) -> float:
    seconds = []
    for _ in range(warm_up + steps):
        started = time.perf_counter()
        update()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[warm_up:])


def plain_update(model: Transformer, adamw: torch.optim.AdamW, batches: list[DeviceBatch], targets: int) -> float:
    adamw.zero_grad()
    for batch in batches:
        (nll(model, batch) / targets).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adamw.step()
    return float(norm)


def fresh(config: ModelConfig, vocabulary: int, device: torch.device) -> Transformer:
    model = Transformer(config, vocabulary)
    initialize(model, 0)
    return model.to(device)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="demo")
    sizes = {"vocabulary": 4096, "rows": 16, "micro-rows": 16, "stage": 1, "steps": 20, "warm-up": 3}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    ranks = distributed.start("auto")
    config = decode(ModelConfig, yaml.safe_load((ROOT / f"conf/model/{asked.model}.yaml").read_text()))
    generator, targets = np.random.default_rng(0), asked.rows * config.context
    tokens = torch.from_numpy(generator.integers(0, asked.vocabulary, (asked.rows, config.context + 1))).to(
        ranks.device
    )
    places = torch.arange(config.context, device=ranks.device).expand(asked.rows, -1)
    whole = (tokens[:, :-1], tokens[:, 1:], places, torch.zeros_like(places))
    training = TrainingConfig(steps=1, batch_rows=asked.rows, micro_batch_rows=asked.micro_rows, precision="fp32")
    adamw = AdamW(learning_rate=1e-3)
    model = fresh(config, asked.vocabulary, ranks.device)
    engine = Engine(
        fresh(config, asked.vocabulary, ranks.device), adamw, training, ZeroConfig(stage=asked.stage), ranks
    )
    batches = [DeviceBatch(*parts) for parts in zip(*(t.split(engine.plan.micro_rows) for t in whole), strict=True)]
    plain_adamw = optimizer.build(model, adamw)
    plain = median_seconds(lambda: plain_update(model, plain_adamw, batches, targets), asked.steps, asked.warm_up)
    ours = median_seconds(lambda: engine.update(nll, batches, targets, 1e-3), asked.steps, asked.warm_up)
    flops = flops_per_token(config, asked.vocabulary, config.context) * targets
    result = {
        "model": asked.model,
        "parameters": config.parameters(asked.vocabulary),
        "batch_tokens": targets,
        "zero_stage": asked.stage,
        "step_seconds": round(ours, 4),
        "plain_step_seconds": round(plain, 4),
        "overhead": round(ours / plain, 3),
        "tokens_per_second": round(targets / ours),
        "gflops": round(flops / ours / 1e9, 1),
        "device": str(ranks.device),
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
