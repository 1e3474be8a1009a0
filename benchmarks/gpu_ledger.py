"""Items of gpu_all.py: the speed of 124M parameters, and of one change each; the baseline first and last.

The baseline has the settings of training=gpu, half a million tokens an update of 50,257 tokens, and one document a row,
because MFU counts all pairs of a row. ``documents`` has three. ``plain`` is autograd and torch's AdamW without
DeepSpeed. ``chunk_…`` is the number of logits at a time.
"""

import contextlib
import dataclasses
import functools
import statistics
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch

from benchmarks.deepspeed_overhead import Plain, seconds
from benchmarks.gpu_all import Item, Setting
from benchmarks.train_step import Case, fresh, measure
from headrace.train import config
from headrace.train.model import execution

BASE = Case(micro_rows=32, accumulation=16, steps=6, warm_up=2, vocabulary=50_257, documents=1)
TINY = Case("tiny", micro_rows=2, accumulation=2, steps=1, warm_up=1, vocabulary=2047, documents=1)


def base(setting: Setting) -> Case:
    return TINY if setting.is_tiny else BASE


def changed(**changes: Any) -> Item:
    """Returns the measurement of the baseline with other fields of Case; those of ``settings`` of TrainingConfig."""
    return lambda setting: measure(dataclasses.replace(base(setting), **changes), setting.ranks)


def rows(factor: float) -> Item:
    """Returns the measurement of micro-batches of ``factor`` times as many rows."""

    def other(setting: Setting) -> Mapping[str, Any]:
        case = base(setting)
        sizes = {"micro_rows": int(case.micro_rows * factor), "accumulation": int(case.accumulation / factor)}
        return measure(dataclasses.replace(case, **sizes), setting.ranks)

    return other


@contextlib.contextmanager
def chunks_of(logits: int, device: torch.device) -> Iterator[None]:
    before = config.CHUNK_LOGITS[device.type]
    config.CHUNK_LOGITS[device.type] = logits
    try:
        yield
    finally:
        config.CHUNK_LOGITS[device.type] = before


def chunk(logits: int) -> Item:
    def other(setting: Setting) -> Mapping[str, Any]:
        with chunks_of(logits, setting.device):
            return measure(base(setting), setting.ranks)

    return other


def autotuned(setting: Setting) -> Mapping[str, Any]:
    """Measures layers whose kernels are chosen by trials."""
    options = {"max_autotune": True, "coordinate_descent_tuning": True}
    with mock.patch.object(execution, "compile_lazily", functools.partial(torch.compile, options=options)):
        return measure(base(setting), setting.ranks)


def plain(setting: Setting) -> Mapping[str, Any]:
    case, device = base(setting), setting.device
    model = fresh(case.config, case.tokens).to(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    training = case.training(device)
    execution.prepare_blocks(model, training.compiles_on(device.type), training.recompute)
    if training.pads_on(device.type):
        execution.pad_vocabulary(model)
    loop, targets = Plain(model), training.batch_rows * case.config.context
    batches = case.batches(device)
    times = [seconds(lambda: loop.update(batches, targets), device) for _ in range(case.warm_up + case.steps)]
    step_seconds = statistics.median(times[case.warm_up :])
    return {"step_seconds": round(step_seconds, 4), "tokens_per_second": round(targets / step_seconds)}


ITEMS: dict[str, Item] = {
    "baseline": changed(),
    "unpadded": changed(settings={"pad_vocabulary": "off"}),
    "chunk_2^27": chunk(2**27),
    "chunk_2^29": chunk(2**29),
    "rows_halved": rows(0.5),
    "rows_doubled": rows(2),
    "documents": changed(documents=3),
    "uncompiled": changed(settings={"compile": "off"}),
    "fp32_sums": changed(settings={"gradient_sums": "fp32"}),
    "stage_2": changed(stage=2),
    "plain": plain,
    "recomputed": changed(settings={"recompute": "full"}),
    "autotuned": autotuned,
    "baseline_again": changed(),
}
