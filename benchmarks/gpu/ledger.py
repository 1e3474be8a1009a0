"""Items of parts.py: the speed of 124M parameters, and of one change each; the baseline first and again at the end.

The baseline has the settings of training=gpu, half a million tokens an update of 50,257 tokens, and one document a row,
because MFU counts all pairs of a row. ``documents`` has three. ``plain`` is autograd and torch's AdamW without
DeepSpeed. ``transformers`` is the peer: the same model of Hugging Face, torch.compile, bf16 by autocast, attention by
PyTorch's kernels, fused AdamW. ``chunk_…`` is the number of logits at a time. ``flash`` needs the package flash-attn-4.
``tuned`` is last, because its trials of kernels may take more than the time that is left.
"""

import dataclasses
import statistics
from collections.abc import Mapping
from typing import Any

import torch

from benchmarks.gpu.item import Item, Setting
from benchmarks.train.deepspeed_overhead import Plain, seconds
from benchmarks.train.train_step import Case, fresh, measure
from headrace.train import config
from headrace.train.model import execution

BASE = Case(micro_rows=32, accumulation=16, steps=6, warm_up=2, vocabulary=50_257, documents=1)
TINY = Case("tiny", micro_rows=2, accumulation=2, steps=1, warm_up=1, vocabulary=2047, documents=1)


def base(setting: Setting) -> Case:
    return TINY if setting.is_tiny else BASE


def changed(limit_seconds: float = 60.0, is_reserved: bool = False, **changes: Any) -> Item:
    """Returns the measurement of the baseline with other fields of Case; those of ``settings`` of TrainingConfig."""

    def measured(setting: Setting) -> Mapping[str, Any]:
        return measure(dataclasses.replace(base(setting), **changes), setting.ranks)

    return Item(measured, limit_seconds, is_reserved)


def rows(factor: float) -> Item:
    """Returns the measurement of micro-batches of ``factor`` times as many rows."""

    def measured(setting: Setting) -> Mapping[str, Any]:
        case = base(setting)
        sizes = {"micro_rows": int(case.micro_rows * factor), "accumulation": int(case.accumulation / factor)}
        return measure(dataclasses.replace(case, **sizes), setting.ranks)

    return Item(measured)


def chunk(logits: int) -> Item:
    def measured(setting: Setting) -> Mapping[str, Any]:
        config.CHUNK_LOGITS[setting.device.type] = logits  # the item has a process of its own
        return measure(base(setting), setting.ranks)

    return Item(measured)


def plain(setting: Setting) -> Mapping[str, Any]:
    case, device = base(setting), setting.device
    model = fresh(case.config, case.tokens).to(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    training = case.training(device)
    execution.prepare(model, training, device.type)
    loop, targets = Plain(model), training.batch_rows * case.config.context
    batches = case.batches(device)
    times = [seconds(lambda: loop.update(batches, targets), device) for _ in range(case.warm_up + case.steps)]
    step_seconds = statistics.median(times[case.warm_up :])
    return {"step_seconds": round(step_seconds, 4), "tokens_per_second": round(targets / step_seconds)}


def transformers(setting: Setting) -> Mapping[str, Any]:
    """Rows of one document, as transformers reads them: without the numbers of documents."""
    from transformers import GPT2Config, GPT2LMHeadModel

    case, device = base(setting), setting.device
    shape = case.config
    sizes = {"n_positions": shape.context, "n_embd": shape.width, "n_layer": shape.layers, "n_head": shape.heads}
    off = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=case.tokens, use_cache=False, **sizes, **off)).to(device).train()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batches, targets = case.batches(device), case.training(device).batch_rows * shape.context

    def update() -> None:
        for batch in batches:
            with torch.autocast(device.type, torch.bfloat16):
                loss = compiled(input_ids=batch["inputs"], labels=batch["inputs"]).loss
            (loss / len(batches)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    times = [seconds(update, device) for _ in range(case.warm_up + case.steps)]
    step_seconds = statistics.median(times[case.warm_up :])
    return {"step_seconds": round(step_seconds, 4), "tokens_per_second": round(targets / step_seconds)}


ITEMS: dict[str, Item] = {
    "baseline": changed(limit_seconds=120),  # compiles for the first time
    "unpadded": changed(settings={"pad_vocabulary": "off"}),
    "chunk_2^27": chunk(2**27),
    "chunk_2^29": chunk(2**29),
    "rows_halved": rows(0.5),
    "rows_doubled": rows(2),
    "documents": changed(documents=3),
    "uncompiled": changed(settings={"compile": "off"}),
    "fp32_sums": changed(settings={"gradient_sums": "fp32"}),
    "plain": Item(plain),
    "transformers": Item(transformers, limit_seconds=90),
    "recomputed": changed(settings={"recompute": "full"}),
    "stage_2": changed(stage=2),
    "stage_2_overlap": changed(stage=2, overlap=True),
    "flash": changed(limit_seconds=90, settings={"attention_kernel": "flash"}),
    "flash_documents": changed(limit_seconds=90, settings={"attention_kernel": "flash"}, documents=3),
    "baseline_again": changed(is_reserved=True),
    "tuned": changed(limit_seconds=180, settings={"compile": "tuned"}),
}
