"""Compares the peak memory of real updates with ``headrace plan``. Prints one JSON line a case, with the ratio.

    python benchmarks/plan_memory.py                                              the CPU, one rank
    python -m torch.distributed.run --standalone --nproc-per-node 2 benchmarks/plan_memory.py --only states-2
    python benchmarks/plan_memory.py --device cuda                                a GPU (CUDA's own peak)

Each case runs in a process of its own: a small training first, which loads what is loaded once; then the peak is reset
and two updates of the case are made. On a CPU the measure is the rise of the resident set (VmHWM of /proc/self/status,
reset through clear_refs), with glibc set to return freed memory at once; on a GPU it is max_memory_allocated.
"""

import argparse
import ctypes
import dataclasses
import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from headrace.train.config import ModelConfig
from headrace.train.cost.memory import Footprint
from headrace.train.data.batches import DRAW_BITS
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.model.execution import prepare_blocks
from headrace.train.model.pair import build_empty
from headrace.train.model.transformer import first_weights
from headrace.train.objectives.base import Objective
from headrace.train.objectives.causal import Causal
from headrace.train.objectives.denoising import Denoising
from headrace.train.objectives.encoder_decoder import of_stack
from headrace.train.objectives.masked import Masked
from headrace.train.objectives.reconstruction import Reconstruction
from headrace.train.objectives.replaced_tokens import ReplacedTokens
from headrace.train.training_config import TrainingConfig, ZeroConfig

SMALL = ModelConfig(layers=1, width=32, heads=2, kv_heads=2, context=32, mlp_width=64)
STATES = ModelConfig(layers=6, width=512, heads=8, kv_heads=8, context=64, mlp_width=2048)
MATRICES = ModelConfig(layers=8, width=256, heads=8, kv_heads=8, context=64, mlp_width=1024)
GPT2 = ModelConfig(layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768)
LLAMA = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=512,
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
GROUPED = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=2, context=256, mlp_width=512,
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False,
)  # fmt: skip
BERT = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, stack="encoder", norm_place="post",
    activation="gelu_exact", segments=2, embedding_norm=True, output_transform=True,
)  # fmt: skip
MODERNBERT = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=288, stack="encoder", positions="rope",
    attention_pattern=("full", "window", "window"), window=17, window_theta=1000.0, norm="layernorm_no_bias",
    activation="geglu_exact", bias=False, embedding_norm=True, first_attention_norm=False, output_transform=True,
)  # fmt: skip
ALBERT = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, stack="encoder", norm_place="post",
    activation="gelu", segments=2, embedding_norm=True, output_transform=True, shared_layers=True, embedding_width=64,
)  # fmt: skip
ELECTRA = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, stack="discriminator", norm_place="post",
    activation="gelu_exact", segments=2, embedding_norm=True, embedding_width=96, generator_width=64,
)  # fmt: skip
GEMMA2 = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=3, context=256, mlp_width=512, attention_width=384, positions="rope",
    norm="rmsnorm_1p", norm_place="sandwich", activation="geglu", bias=False, scaled_embedding=True,
    attention_pattern=("window", "full"), window=64, attention_cap=50.0, logit_cap=30.0,
)  # fmt: skip
OLMO2 = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=512, positions="rope", norm="rmsnorm",
    norm_place="after", qk_norm="width", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
BLOOM = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, positions="alibi", embedding_norm=True,
)  # fmt: skip
GPT_NEOX = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, positions="rope", rotary_fraction=0.25,
    norm_place="parallel", activation="gelu_exact", tied=False,
)  # fmt: skip
T5 = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, positions="t5", attention_scale_width=1,
    norm="rmsnorm", activation="relu", bias=False, stack="encoder_decoder", scaled_output=True,
)  # fmt: skip
UMT5 = dataclasses.replace(T5, positions="t5_by_layer")
BART = ModelConfig(
    layers=6, width=192, heads=6, kv_heads=6, context=256, mlp_width=768, position_offset=2, norm_place="post",
    embedding_norm=True, activation="gelu_exact", stack="encoder_decoder",
)  # fmt: skip
OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": AdamW(learning_rate=1e-3),
    "stable_adamw": StableAdamW(learning_rate=1e-3),
    "muon": Muon(learning_rate=1e-3),
    "adafactor": Adafactor(learning_rate=1e-3),
    "ema": AdamW(learning_rate=1e-3, ema_decay=0.999),
}
"""The optimizer of a case is the one that its name begins with, else AdamW."""
MMAP_THRESHOLD = -3
"""mallopt's name for the size from which on glibc maps memory of its own for what is allocated."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape with a vocabulary, and how it is trained."""

    model: ModelConfig
    vocabulary: int = 2000
    precision: str = "fp32"
    stage: int = 1
    rows: int = 16
    """Rows of a micro-batch."""
    accumulation: int = 1
    """Micro-batches of an update."""
    offload: str = "none"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other fields of TrainingConfig."""

    @property
    def sequence_ranks(self) -> int:
        ranks: int = self.settings.get("sequence_ranks", 1)
        return ranks


RECOMPUTED, SELECTIVE, SUMS = {"recompute": "full"}, {"recompute": "selective"}, {"gradient_sums": "fp32"}
PARTS = {"sequence_ranks": 2}
"""For an even number of ranks."""
CASES = {
    **{f"states-{stage}": Case(STATES, stage=stage, rows=1) for stage in (0, 1, 2, 3)},
    **{f"states-bf16-{stage}": Case(STATES, precision="bf16", stage=stage, rows=1) for stage in (1, 2, 3)},
    **{f"{name}-{stage}": Case(MATRICES, stage=stage, rows=1) for name in list(OPTIMIZERS)[1:] for stage in (0, 1, 3)},
    "muon-bf16-2": Case(MATRICES, precision="bf16", stage=2, rows=1),
    "gpt2": Case(GPT2),
    "gpt2-accumulated": Case(GPT2, accumulation=2),
    "gpt2-bf16": Case(GPT2, precision="bf16"),
    "gpt2-vocabulary": Case(GPT2, 50257, stage=0, rows=4),
    "llama": Case(LLAMA),
    "llama-bf16": Case(LLAMA, precision="bf16"),
    "llama-grouped": Case(GROUPED, stage=2),
    "bert": Case(BERT),
    "bert-vocabulary": Case(BERT, 30522, stage=0),
    "bert-bf16": Case(BERT, precision="bf16"),
    "modernbert": Case(MODERNBERT),
    "albert": Case(ALBERT),
    "albert-bf16": Case(ALBERT, precision="bf16"),
    "electra": Case(ELECTRA),
    "electra-bf16": Case(ELECTRA, precision="bf16"),
    "electra-vocabulary": Case(ELECTRA, 30522, stage=0),
    "gemma2": Case(GEMMA2),
    "olmo2": Case(OLMO2),
    "bloom": Case(BLOOM),
    "gpt_neox": Case(GPT_NEOX),
    "t5": Case(T5),
    "umt5": Case(UMT5),
    "t5-bf16": Case(T5, precision="bf16"),
    "bart": Case(BART),
    "bart-bf16": Case(BART, precision="bf16"),
    "bart-vocabulary": Case(BART, 50265, stage=0, rows=4),
    **{f"sums-bf16-{stage}": Case(STATES, precision="bf16", stage=stage, rows=1, settings=SUMS) for stage in (1, 2, 3)},
    **{
        f"offload-{precision}-{stage}": Case(STATES, precision=precision, stage=stage, rows=1, offload="optimizer")
        for precision, stage in (("fp32", 1), ("bf16", 1), ("bf16", 2), ("bf16", 3))
    },
    "offload-accumulated": Case(STATES, precision="bf16", stage=2, rows=1, accumulation=2, offload="optimizer"),
    "offload-sums": Case(STATES, precision="bf16", stage=1, rows=1, settings=SUMS, offload="optimizer"),
    "sums-fp16-1": Case(STATES, precision="fp16", rows=1, settings=SUMS),
    "states-fp16-1": Case(STATES, precision="fp16", rows=1),
    "gpt2-recomputed": Case(GPT2, rows=32, settings=RECOMPUTED),
    "llama-recomputed": Case(LLAMA, rows=32, settings=RECOMPUTED),
    "llama-recomputed-bf16": Case(LLAMA, precision="bf16", rows=32, settings=RECOMPUTED),
    "bert-recomputed": Case(BERT, rows=32, settings=RECOMPUTED),
    "albert-recomputed": Case(ALBERT, rows=32, settings=RECOMPUTED),
    "electra-recomputed": Case(ELECTRA, rows=32, settings=RECOMPUTED),
    "bart-recomputed": Case(BART, settings=RECOMPUTED),
    "bloom-recomputed": Case(BLOOM, settings=RECOMPUTED),
    "t5-recomputed": Case(T5, settings=RECOMPUTED),
    "umt5-recomputed": Case(UMT5, settings=RECOMPUTED),
    "gemma2-recomputed": Case(GEMMA2, settings=RECOMPUTED),
    "gpt2-selective": Case(GPT2, settings=SELECTIVE),
    "gpt2-selective-dropout": Case(dataclasses.replace(GPT2, dropout=0.1), settings=SELECTIVE),
    "llama-selective": Case(LLAMA, settings=SELECTIVE),
    "llama-grouped-selective": Case(GROUPED, settings=SELECTIVE),
    "bert-selective": Case(BERT, settings=SELECTIVE),
    "albert-selective": Case(ALBERT, settings=SELECTIVE),
    "electra-selective": Case(ELECTRA, settings=SELECTIVE),
    "bart-selective": Case(BART, settings=SELECTIVE),
    "bloom-selective": Case(BLOOM, settings=SELECTIVE),
    "t5-selective": Case(T5, settings=SELECTIVE),
    "umt5-selective": Case(UMT5, settings=SELECTIVE),
    "gemma2-selective": Case(GEMMA2, settings=SELECTIVE),
    "gpt2-parts": Case(GPT2, settings=PARTS),
    "gpt2-parts-3": Case(GPT2, stage=3, settings=PARTS),
    "llama-grouped-parts": Case(GROUPED, settings=PARTS),
    "llama-parts-recomputed": Case(LLAMA, rows=32, settings=PARTS | RECOMPUTED),
}


OBJECTIVES: Mapping[str, Objective] = {
    "decoder": Causal(),
    "encoder": Masked(),
    "discriminator": ReplacedTokens(),
    "encoder_decoder": of_stack(Denoising(), "encoder_decoder"),
    "bart": Reconstruction(),
}
"""The objective of each stack, and of cases whose names begin with their own."""


def batch(rows: int, case: Footprint, device: torch.device) -> dict[str, torch.Tensor]:
    """Random tokens; an encoder and a generator predict as many of them as the objective hides, those at the beginning.
    An encoder–decoder predicts as many as its decoder has positions."""
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
        engine.gradient(objective, batches, counts)
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
    alone = [name for name, case in CASES.items() if case.sequence_ranks == 1]
    for name in alone:  # not in forks: DeepSpeed's import initializes CUDA, which a fork cannot use
        if subprocess.run([sys.executable, __file__, "--device", asked.device, "--only", name]).returncode:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main()
