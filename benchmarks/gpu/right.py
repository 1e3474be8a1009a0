"""Items of parts.py: is it right on this GPU?

versions          of torch, CUDA, driver and libraries
ceilings          bf16 matrix products in TFLOP/s, and copies in GB/s
flex_attention    output and gradients against PyTorch's attention under the whole mask, bf16, three layouts of
                  documents, grouped heads; and that other documents compile nothing anew
chunked_loss_…    value and gradients against cross-entropy over all logits, with and without padding, in several chunks
compiled_layers   loss and gradients with and without torch.compile, fp32
zero_stages       12 compiled layers at stages 1, 2 and 3, fp32: one graph without a break, and losses and norms of
                  gradients as at stage 1
session           the session: 8 steps at once, and stopped by SIGTERM before the fifth and resumed by a process with
                  another cache of kernels: equal bits of weights and losses; exported and scored
kernels           124M parameters, half a million tokens an update: the 30 kernels that take the most time
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.nn import functional

from benchmarks.gpu.item import Item, Setting, Work
from benchmarks.train.train_step import CAUSAL, MODELS, Case, fresh, random_batches, synchronize
from headrace.pipeline.core.artifact import Artifact
from headrace.train import config
from headrace.train.config import ModelConfig
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.model import execution, head
from headrace.train.model.attention import BlockAttention, DenseAttention
from headrace.train.model.visibility import CAUSAL as CAUSAL_VISIBILITY
from headrace.train.model.visibility import block_mask, logit_mask, within_documents
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train.training import specify

ROOT = Path(__file__).parents[2]
LIBRARIES = ("torch", "deepspeed", "triton", "numpy")


def worst(computed: list[Tensor], expected: list[Tensor]) -> float:
    """Returns the largest error relative to the norm of what is expected."""
    pairs = zip(computed, expected, strict=True)
    return max(float((a.double() - b.double()).norm() / b.double().norm()) for a, b in pairs)


def within(error: float, limit: float) -> dict[str, float]:
    assert error <= limit, f"the error is {error}, above {limit}"
    return {"error": error, "limit": limit}


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Computes fp32 matrix products in fp32, not in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def versions(setting: Setting) -> dict[str, Any]:
    installed = {package.metadata["Name"]: package.version for package in importlib.metadata.distributions()}
    facts: dict[str, Any] = {name: installed.get(name) for name in LIBRARIES}
    if setting.device.type == "cuda":
        properties = torch.cuda.get_device_properties(setting.device)
        facts |= {"gpu": properties.name, "gib": round(properties.total_memory / 2**30, 1), "cuda": torch.version.cuda}
    return facts


def fastest(work: Callable[[], object], device: torch.device, times: int = 10) -> float:
    """Returns the seconds of the fastest of several calls, after two that do not count."""
    seconds = []
    for _ in range(times + 2):
        synchronize(device)
        begun = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - begun)
    return min(seconds[2:])


def ceilings(setting: Setting) -> dict[str, float]:
    size = 256 if setting.is_tiny else 8192
    matrix = torch.randn(size, size, dtype=torch.bfloat16, device=setting.device)
    long = torch.ones(2**16 if setting.is_tiny else 2**30, dtype=torch.bfloat16, device=setting.device)
    product = fastest(lambda: matrix @ matrix, setting.device)
    copy = fastest(long.clone, setting.device)
    rates = {"product_teraflops": 2e-12 * size**3 / product, "copy_gb_per_second": 4e-9 * len(long) / copy}
    return {name: round(rate, 2) for name, rate in rates.items()}


EAGER = functools.partial(torch.compile, backend="eager")
"""Makes graphs, and runs them as they are, without kernels: where everything is tiny."""


def flex_attention(setting: Setting) -> dict[str, float]:
    """Compares in bf16, which has 8 bits: each output is rounded to 2^-9 of itself, gradients sum a few of those."""
    device, tokens, errors = setting.device, 128 if setting.is_tiny else 1024, []
    visibility = CAUSAL_VISIBILITY
    for seed in range(3):
        torch.manual_seed(seed)
        documents_BT = torch.randint(0, 60, (2, tokens), device=device).div(59, rounding_mode="floor").cumsum(1)
        documents_BT[:, tokens - 7 * seed :] = -1
        inputs = [
            torch.randn(2, n, tokens, 64, device=device, dtype=torch.bfloat16, requires_grad=True) for n in (12, 4, 4)
        ]
        output_gradient = torch.randn(2, 12, tokens, 64, device=device, dtype=torch.bfloat16)
        wide = [tensor.detach().float().requires_grad_() for tensor in inputs]
        seen = within_documents(visibility, documents_BT)
        mask = logit_mask(seen, None, 2, 12, torch.arange(tokens, device=device)[None], tokens)
        expected = DenseAttention(mask).attend(*wide, drop=None)
        with torch.compiler.set_stance("fail_on_recompile" if seed else "default"):
            attention = BlockAttention(block_mask(seen, 2, 12, tokens, device), None)
            if device.type == "cpu":  # FlexAttention has no backward pass there
                plain = [tensor.detach() for tensor in inputs]
                errors.append(worst([attention.attend(*plain, drop=None)], [expected]))
                continue
            mixed_BNTD = attention.attend(*inputs, drop=None)
            gradients = torch.autograd.grad(mixed_BNTD, inputs, output_gradient)
        slow = torch.autograd.grad(expected, wide, output_gradient.float())
        errors.append(worst([mixed_BNTD, *gradients], [expected, *slow]))
    return within(max(errors), 1e-2)


def chunked_loss(dtype: torch.dtype, limit: float) -> Work:
    def compare(setting: Setting) -> dict[str, float]:
        width, vocabulary, rows = (64, 1001, 2) if setting.is_tiny else (768, 50_257, 4)
        torch.manual_seed(0)
        layer = head.Head(width, vocabulary).to(setting.device, dtype)
        x_BTM = torch.randn(rows, 1024, width, device=setting.device, dtype=dtype, requires_grad=True)
        targets_BT = torch.randint(vocabulary, (rows, 1024), device=setting.device)
        targets_BT[:, ::5] = -100
        wide = [tensor.detach().float().requires_grad_() for tensor in (x_BTM, layer.weight)]
        logits = functional.linear(*wide).flatten(0, 1)
        expected = functional.cross_entropy(logits, targets_BT.flatten(), reduction="sum")
        slow, errors = [expected, *torch.autograd.grad(expected, wide)], []
        before = dict(config.CHUNK_LOGITS)
        for layer.pads in (False, True):
            for chunk in (before[setting.device.type], 640 * vocabulary):
                config.CHUNK_LOGITS[setting.device.type] = chunk
                losses = layer(x_BTM, targets_BT)
                errors.append(worst([losses, *torch.autograd.grad(losses, (x_BTM, layer.weight))], slow))
        config.CHUNK_LOGITS.update(before)
        return within(max(errors), limit)

    return compare


def compiled_layers(setting: Setting) -> dict[str, float]:
    (shape, vocabulary), results = MODELS["tiny"], []
    batch = random_batches(shape, vocabulary, 4, 1, setting.device)[0]
    for is_compiled in (False, True):
        model = fresh(shape, vocabulary).to(setting.device)
        execution.prepare_blocks(model, compiles=is_compiled, recompute="none")
        loss = CAUSAL.losses(model, batch)["nll"]
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    return within(worst(results[1], results[0]), 1e-4)


def zero_stages(setting: Setting) -> dict[str, Any]:
    shape, vocabulary = MODELS["tiny"]
    deep = dataclasses.replace(shape, layers=12)
    training = TrainingConfig(steps=2, batch_rows=4, micro_batch_rows=2, precision="fp32")
    curves: dict[int, list[float]] = {}
    breaks, graphs = {}, {}
    for stage in (1, 2, 3):
        torch.compiler.reset()
        counters.clear()
        model = fresh(deep, vocabulary)
        execution.prepare_blocks(model, compiles=True, recompute="none")
        engine = Engine(model, AdamW(learning_rate=1e-3), training, ZeroConfig(stage=stage), setting.ranks)
        curves[stage] = []
        for step in range(2):
            batches = random_batches(deep, vocabulary, 2, 2, setting.device, step)
            with exact_products():
                loss = engine.gradient(CAUSAL, batches, {"nll": 4 * deep.context})["nll"]
            curves[stage] += [loss, engine.step(1e-3) or math.nan]
        breaks[stage], graphs[stage] = sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]
    assert not any(breaks.values()), f"graph breaks by stage: {breaks}"
    assert graphs[2] == graphs[3] == graphs[1], f"graphs by stage: {graphs}"
    apart = max(abs(a / b - 1) for stage in (2, 3) for a, b in zip(curves[stage], curves[1], strict=True))
    return within(apart, 1e-4) | {"losses_and_norms": curves[1], "graphs": graphs[1]}


def session(setting: Setting) -> dict[str, Any]:
    whole, stopped = setting.scratch / "gpu_session_whole", setting.scratch / "gpu_session_stopped"
    compiled = "off" if setting.is_tiny else "on"
    stop = ["headrace.train.engine.engine:Engine", "step", 5, "SIGTERM"]
    statuses = [
        trained(setting, folder, kill, cache, compiled)
        for folder, kill, cache in ((whole, None, "a"), (stopped, stop, "b"), (stopped, None, "c"))
    ]
    assert statuses == [0, 1, 0], f"exit statuses {statuses}"
    rows = [
        [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (whole, stopped)
    ]
    losses = [[row["loss"] for row in own if "loss" in row] for own in rows]
    weights = [(folder / "hf/model.safetensors").read_bytes() for folder in (whole, stopped)]
    assert losses[0] == losses[1], f"losses differ: {losses}"
    assert weights[0] == weights[1], "the weights differ"
    scores = [row["evaluation"] for row in rows[0] if "evaluation" in row]
    return {"losses": losses[0], "scored": sorted(scores[-1])}


def trained(setting: Setting, folder: Path, kill: list[Any] | None, cache: str, compiled: str) -> int:
    """Trains in a process of its own, with a cache of kernels of its own; returns the exit status."""
    shape = ModelConfig(layers=2, width=64, heads=1, kv_heads=1, context=64, mlp_width=256)
    device = setting.device.type
    training = {
        "steps": 8, "batch_rows": 8, "micro_batch_rows": 4, "validate_every": 8, "save_every": 4, "evaluate_every": 8,
        "device": device, "compile": compiled, "precision": "bf16" if device == "cuda" else "fp32",
    }  # fmt: skip
    values = {
        "model": dataclasses.asdict(shape), "optimizer": {"type": "adamw", "learning_rate": 1e-2},
        "schedule": {"type": "cosine", "warmup_steps": 2}, "training": training, "zero": {"stage": 1},
        "tracking": {"wandb": "off"}, "evaluation": {"benchmarks": {"validation": {"type": "validation", "limit": 2}}},
    }  # fmt: skip
    names = ("tokenizer", "tokens", "packed")
    inputs = {name: Artifact((setting.inputs / name).resolve()) for name in names}
    if not all(artifact.folder.is_dir() for artifact in inputs.values()):
        make_inputs(setting.inputs)
    spec = specify(setting.scratch, inputs, values, [[str(folder), kill]])
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    caches = {"TORCHINDUCTOR_CACHE_DIR": str((setting.scratch / f"gpu_cache_{cache}").resolve())}
    command = [sys.executable, "-m", "tests.train.training", str(spec)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | ranks | caches, stdout=subprocess.DEVNULL)
    return done.returncode


def make_inputs(folder: Path) -> None:
    """Writes tokens and rows of made-up text; needs the packages of the data stages and pytest."""
    from tests.stage_run import run_here
    from tests.train import conftest

    conftest.make_inputs(folder, run_here, documents=60)


def kernels(setting: Setting) -> dict[str, Any]:
    tiny = Case("tiny", micro_rows=2, accumulation=1, steps=1)
    case = tiny if setting.is_tiny else Case(micro_rows=32, accumulation=16, steps=10, vocabulary=50_257)
    engine, targets = case.engine(setting.ranks), case.micro_rows * case.accumulation * case.config.context
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if setting.device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    seconds = []
    for step in range(case.steps + 1):
        is_last = step == case.steps
        batches = case.batches(setting.device, step)
        with torch.profiler.profile(activities=kinds) if is_last else contextlib.nullcontext() as profile:
            begun = time.perf_counter()
            engine.gradient(CAUSAL, batches, {"nll": targets})
            engine.step(1e-3)
            synchronize(setting.device)
            seconds.append(round(time.perf_counter() - begun, 4))
    of = "device" if setting.device.type == "cuda" else "cpu"
    times = {row.key: getattr(row, f"self_{of}_time_total") for row in profile.key_averages()}
    heaviest = sorted(times, key=times.__getitem__, reverse=True)[:30]
    return {"step_seconds": seconds, "kernel_ms": {name[:120]: round(times[name] / 1e3, 2) for name in heaviest}}


def exactly(work: Work) -> Item:
    """Returns an item of ``work`` with exact products, and without kernels where everything is tiny."""

    def checked(setting: Setting) -> Mapping[str, Any]:
        tiny = mock.patch.object(execution, "compile_lazily", EAGER) if setting.is_tiny else contextlib.nullcontext()
        with exact_products(), tiny:
            return work(setting)

    return Item(checked)


ITEMS: dict[str, Item] = {
    "versions": Item(versions),
    "ceilings": Item(ceilings),
    "flex_attention": exactly(flex_attention),
    "chunked_loss_fp32": exactly(chunked_loss(torch.float32, 1e-5)),
    "chunked_loss_bf16": exactly(chunked_loss(torch.bfloat16, 1e-2)),
    "compiled_layers": exactly(compiled_layers),
    "zero_stages": dataclasses.replace(exactly(zero_stages), limit_seconds=90),
    "session": Item(session, limit_seconds=150),
    "kernels": Item(kernels, limit_seconds=120, is_reserved=True),
}
