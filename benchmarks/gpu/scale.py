"""Items of parts.py: what fits on one card, and how fast it is; the largest model first.

1.3b, 350m, …      rate and MFU, and the planned and the measured peak of memory
snapshots          seconds that training waits for the first and for a later snapshot of a checkpoint
stage_1, …         the same updates at each stage
"""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.gpu.item import Item, Setting
from benchmarks.train.train_step import Case, measure, synchronize
from headrace.train.cost.memory import Footprint
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.training_config import ZeroConfig

TINY = Case("tiny", micro_rows=2, accumulation=2, steps=1, warm_up=1)
SHORT = {"steps": 4, "warm_up": 2, "documents": 1}


def planned(case: Case, setting: Setting) -> float:
    """Returns the peak in GiB that ``headrace plan`` computes."""
    shape, training = case.config, case.training(setting.device)
    footprint = Footprint(
        shape, case.tokens, shape.context, training, AdamW(learning_rate=1e-3), ZeroConfig(stage=case.stage), 1,
        "cuda" if setting.device.type == "cuda" else "cpu",
    )  # fmt: skip
    return round(footprint.memory(case.micro_rows).peak / 2**30, 2)


def updates(case: Case, limit_seconds: float = 60.0) -> Item:
    """Returns the measurement of ``case``, or of a tiny model with its stage and settings."""

    def measured(setting: Setting) -> Mapping[str, Any]:
        own = dataclasses.replace(TINY, stage=case.stage, settings=case.settings) if setting.is_tiny else case
        return measure(own, setting.ranks) | {"planned_gib": planned(own, setting)}

    return Item(measured, limit_seconds)


def snapshots(setting: Setting) -> Mapping[str, Any]:
    engine = (TINY if setting.is_tiny else Case("gpt2_350m")).engine(setting.ranks)
    seconds = []
    for _ in range(3):
        synchronize(setting.device)
        begun = time.perf_counter()
        engine.snapshot()
        seconds.append(round(time.perf_counter() - begun, 4))
    return {"snapshot_seconds": seconds}


RECOMPUTED = {"recompute": "full"}
ITEMS: dict[str, Item] = {
    "1.3b": updates(Case("gpt2_1.3b", micro_rows=8, accumulation=8, **SHORT), 120),
    "1.3b_recomputed": updates(Case("gpt2_1.3b", micro_rows=16, accumulation=4, settings=RECOMPUTED, **SHORT), 120),
    "350m": updates(Case("gpt2_350m", micro_rows=16, accumulation=8, **SHORT)),
    "snapshots": Item(snapshots),
    "stage_1": updates(Case(micro_rows=32, accumulation=4, **SHORT)),
    "stage_2": updates(Case(micro_rows=32, accumulation=4, stage=2, **SHORT)),
    "stage_3": updates(Case(micro_rows=32, accumulation=4, stage=3, **SHORT)),
}
