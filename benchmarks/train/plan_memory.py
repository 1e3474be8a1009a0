"""Compares the peak memory of real updates with ``headrace plan``. Prints one JSON line a case, with the ratio.

    python -m benchmarks.train.plan_memory                                        the CPU, one rank
    python -m torch.distributed.run --standalone --nproc-per-node 2 -m benchmarks.train.plan_memory --only states-2
    python -m benchmarks.train.plan_memory --device cuda                          a GPU (CUDA's own peak)

Each case runs in a process of its own: a small training first, which loads what is loaded once; then the peak is reset
and two updates of the case are made. On a CPU the measure is the rise of the resident set (VmHWM of /proc/self/status,
reset through clear_refs), with glibc set to return freed memory at once; on a GPU it is max_memory_allocated.
"""

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
import torch._dynamo

from benchmarks.train.memory_cases import CASES, OBJECTIVES, OPTIMIZERS, SMALL
from headrace.train.cost.memory import Footprint
from headrace.train.data.batches import DRAW_BITS
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.model import dropout
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.initialization import first_weights
from headrace.train.model.transformer import build_empty
from headrace.train.training_config import TrainingConfig, ZeroConfig

MMAP_THRESHOLD = -3
"""mallopt's name for the size from which on glibc maps memory of its own for what is allocated."""


def batch(rows: int, case: Footprint, device: torch.device) -> dict[str, torch.Tensor]:
    """Random tokens. An encoder and a generator predict the number that the objective hides, at the beginning. An
    encoder–decoder predicts one token at each position of its decoder."""
    tokens, predicted = case.row_tokens, case.row_targets or case.row_tokens
    drawn = torch.randint(case.vocabulary, (rows, tokens + 1), device=device)
    places = torch.arange(tokens, device=device).repeat(rows, 1)
    inputs, targets = drawn[:, :-1].contiguous(), drawn[:, 1 : predicted + 1].contiguous()
    masked = places[:, :predicted].contiguous()
    documents = torch.zeros_like(places)
    arrays = {"inputs": inputs, "positions": places, "documents": documents}
    if case.model.stack != "encoder_decoder":
        draws = torch.randint(2**DRAW_BITS, targets.shape, device=device)
        return {**arrays, "targets": targets, "masked": masked, "draws": draws}
    of_decoder = {name: array[:, :predicted].contiguous() for name, array in arrays.items()}
    return {**of_decoder, "targets": targets, **{f"encoder_{name}": array for name, array in arrays.items()}}


def footprint(name: str, ranks: int, device: str) -> Footprint:
    case = CASES[name]
    training = TrainingConfig(
        steps=2,
        batch_rows=case.rows * case.accumulation * ranks // case.sequence_ranks,
        micro_batch_rows=case.rows,
        precision=case.precision,
        **case.settings,
    )
    zero = ZeroConfig(stage=case.stage, bucket_elements=1_000_000, offload=case.offload)
    objective = OBJECTIVES.get(name.split("-")[0], OBJECTIVES[case.model.stack])
    context = case.model.context
    targets = objective.lengths(objective.text_tokens(context))["targets"]
    optimizer = OPTIMIZERS.get(name.split("-")[0], OPTIMIZERS["adamw"])
    return Footprint(case.model, case.vocabulary, context, training, optimizer, zero, ranks, device, targets)


def updates(case: Footprint, ranks: Ranks) -> None:
    model = build_empty(case.model, case.vocabulary)
    prepare_blocks(model, compiles=False, recompute=case.training.recompute)
    engine = Engine(model, case.optimizer, case.training, case.zero, ranks)
    engine.begin(first_weights(build_empty(case.model, case.vocabulary), 0))
    objective = OBJECTIVES[case.model.stack]
    counts = dict.fromkeys(objective.weights, case.training.batch_rows * (case.row_targets or case.row_tokens))
    for _ in range(2):
        batches = [batch(engine.plan.micro_rows, case, ranks.device) for _ in range(engine.plan.accumulation)]
        row_keys = [dropout.row_keys(0, range(engine.plan.micro_rows), ranks.device) for _ in batches]
        engine.gradient(objective, batches, counts, row_keys)
        engine.step(1e-3)


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def measure(case: Footprint, ranks: Ranks) -> int:
    """Bytes that two updates of ``case`` take at their peak."""
    if ranks.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        updates(case, ranks)
        return torch.cuda.max_memory_allocated() - before
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    updates(case, ranks)
    return resident("VmHWM") - before


def compare(name: str, ranks: Ranks) -> None:
    """One case on this rank, in a process that has had none before; the first rank prints its line."""
    device = ranks.device.type
    case = footprint(name, ranks.world, device)
    small = footprint(name, ranks.world, device)
    small_zero = ZeroConfig(stage=min(case.zero.stage, 2), bucket_elements=1_000_000)  # one engine of stage 3 a process
    updates(Footprint(SMALL, 300, 32, small.training, small.optimizer, small_zero, ranks.world), ranks)
    measured, planned = measure(case, ranks), case.memory(CASES[name].rows).peak
    if ranks.first:
        row = {"case": name, "ranks": ranks.world, "device": device, "measured_mb": round(measured / 1e6, 1)}
        row |= {"planned_mb": round(planned / 1e6, 1), "ratio": round(planned / measured, 3)}
        print(json.dumps(row), flush=True)


def run(name: str, device: str) -> None:
    """One case in this process, which ends with it."""
    compare(name, processes.start(device))
    os._exit(0)


def prepare() -> None:
    """Makes glibc return freed memory at once, and torch compute on one core."""
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 16)
    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", choices=tuple(CASES))
    asked = parser.parse_args()
    prepare()
    if "RANK" in os.environ:
        run(asked.only, asked.device)
    os.environ["LOCAL_RANK"] = "0"
    if asked.only:
        run(asked.only, asked.device)
    command = [sys.executable, "-m", "benchmarks.train.plan_memory"]
    alone = [name for name, case in CASES.items() if case.sequence_ranks == 1]
    for name in alone:  # not in forks: DeepSpeed's import initializes CUDA, which a fork cannot use
        if subprocess.run([*command, "--device", asked.device, "--only", name]).returncode:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main()
