"""Measures an update by our engine and the same update in plain PyTorch. Prints one JSON line per ZeRO stage.

    python -m benchmarks.train.deepspeed_overhead [--stages 0 1 2 3] [--pairs 15] [--rows 4] [--accumulation 1]

One rank, the same model (10.4M parameters), data, clipping and AdamW. Updates alternate, plain and engine, engine and
plain, so that other load disturbs both; a pair's ratio is one measurement, and the median and the
quartiles of ``--pairs`` of them are printed, after one pair that does not count. Time is wall time, after
waiting for the device; on a CPU it is the processor time of all threads, which other programs disturb less. In bf16
(GPU) the plain loop keeps fp32 master weights, as the engine does.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.train.train_step import CAUSAL, fresh, random_batches
from headrace.train.config import ModelConfig
from headrace.train.data.batches import Tensors
from headrace.train.distributed import processes
from headrace.train.engine.by_parameter import build
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.training_config import TrainingConfig, ZeroConfig

MODEL = ModelConfig(layers=4, width=384, heads=6, kv_heads=6, context=256, mlp_width=1536)
VOCABULARY = 8192
ADAMW = AdamW(learning_rate=1e-3)


class Plain:
    """Autograd, clipping and torch's AdamW on fp32 weights, of which a bf16 model is a rounded copy."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.weights = model, list(model.parameters())
        self.masters = nn.ParameterList(weight.detach().float() for weight in self.weights)
        if self.weights[0].dtype == torch.float32:
            self.masters = nn.ParameterList(self.weights)
        self.adamw = build(self.masters, ADAMW)

    def update(self, batches: list[Tensors], targets: int) -> float:
        nll_sum = torch.zeros((), device=self.weights[0].device)
        for batch in batches:
            loss = CAUSAL.losses(self.model, batch)["nll"]
            nll_sum += loss.detach()
            (loss / targets).backward()
        for master, weight in zip(self.masters, self.weights, strict=True):
            if master is not weight:
                master.grad, weight.grad = weight.grad.float(), None
        norm = nn.utils.clip_grad_norm_(self.masters.parameters(), 1.0)
        self.adamw.step()
        self.adamw.zero_grad()
        with torch.no_grad():
            for master, weight in zip(self.masters, self.weights, strict=True):
                if master is not weight:
                    weight.copy_(master)
        return float(nll_sum) + float(norm)


def update(engine: Engine, batches: list[Tensors], targets: int) -> float:
    engine.gradient(CAUSAL, batches, {"nll": targets})
    return engine.step(ADAMW.learning_rate)


def seconds(update: Callable[[], object], device: torch.device) -> float:
    if device.type == "cpu":
        started = time.process_time()
        update()
        return time.process_time() - started
    torch.cuda.synchronize(device)
    started = time.perf_counter()
    update()
    torch.cuda.synchronize(device)
    return time.perf_counter() - started


def ratios(
    plain: Callable[[], object], ours: Callable[[], object], pairs: int, device: torch.device
) -> tuple[list[float], float]:
    """Ours over plain of each pair but the first, and the median seconds of a plain update."""
    ratios_of_pairs, plain_seconds = [], []
    for pair in range(pairs + 1):
        order = (plain, ours) if pair % 2 else (ours, plain)
        times = {update: seconds(update, device) for update in order}
        ratios_of_pairs.append(times[ours] / times[plain])
        plain_seconds.append(times[plain])
    return ratios_of_pairs[1:], statistics.median(plain_seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 2, 3])
    for name, value in {"pairs": 15, "rows": 4, "accumulation": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    ranks = processes.start("auto")
    precision = "bf16" if ranks.device.type == "cuda" else "fp32"
    training = TrainingConfig(
        steps=1,
        batch_rows=asked.rows * asked.accumulation,
        micro_batch_rows=asked.rows,
        precision=precision,
    )
    batches = random_batches(MODEL, VOCABULARY, asked.rows, asked.accumulation, ranks.device)
    targets = training.batch_rows * MODEL.context
    model = fresh(MODEL, VOCABULARY).to(ranks.device, torch.bfloat16 if precision == "bf16" else torch.float32)
    plain = Plain(model)
    for stage in asked.stages:
        if stage == 0 and precision == "bf16":
            continue
        engine = Engine(fresh(MODEL, VOCABULARY), ADAMW, training, ZeroConfig(stage=stage), ranks)
        ratios_of_pairs, plain_seconds = ratios(
            lambda: plain.update(batches, targets),
            lambda engine=engine: update(engine, batches, targets),
            asked.pairs,
            ranks.device,
        )
        low, median, high = statistics.quantiles(ratios_of_pairs, n=4)
        result = {
            "zero_stage": stage,
            "overhead_percent": round(100 * (median - 1), 2),
            "quartiles_percent": [round(100 * (low - 1), 2), round(100 * (high - 1), 2)],
            "plain_seconds": round(plain_seconds, 4),
            "pairs": asked.pairs,
            "parameters": MODEL.parameters(VOCABULARY),
            "update_tokens": targets,
            "accumulation": asked.accumulation,
            "precision": precision,
            "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        print(json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
