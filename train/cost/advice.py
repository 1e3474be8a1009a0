"""Advice for a training that does not fit into memory: the settings that make it fit. Free of torch."""

import dataclasses
import itertools
import operator
from collections.abc import Iterator
from typing import Any, get_args

from headrace.train.cost.memory import Footprint
from headrace.train.engine.optimizers.base import Elementwise
from headrace.train.engine.zero import can_recompute
from headrace.train.training_config import Recompute

MemoryChange = tuple[Footprint, str]
"""A training with other settings, and these."""


def advice(footprint: Footprint, micro_rows: int, memory_bytes: float) -> str:
    """Returns what to set so that micro-batches fit into ``memory_bytes``; an empty text if those of ``micro_rows`` do.

    Each of the ways in the text is enough alone.
    """
    if footprint.memory(micro_rows).peak <= memory_bytes:
        return ""
    ways = [f"training.micro_batch_rows={rows}"] if (rows := footprint.largest_micro_rows(memory_bytes)) else []
    ways += _ways(_changes(footprint), micro_rows, memory_bytes)
    ways = ways or [*itertools.islice(_ways(_offloaded(footprint), micro_rows, memory_bytes), 1)]  # the slowest way
    return "give " + ", or ".join([*ways, "more or larger GPUs"])


def _ways(changes: Iterator[list[MemoryChange]], micro_rows: int, memory_bytes: float) -> Iterator[str]:
    """Yields the settings that make it fit: of alternatives the one with the most rows, of equal ones the first."""
    for alternatives in changes:
        fitting = [
            (min(micro_rows, changed.largest_micro_rows(memory_bytes)), setting) for changed, setting in alternatives
        ]
        rows, setting = max(fitting, key=operator.itemgetter(0), default=(0, ""))
        if rows:
            yield setting + (f" training.micro_batch_rows={rows}" if rows < micro_rows else "")


def _changes(footprint: Footprint) -> Iterator[list[MemoryChange]]:
    """Yields alternatives that need less memory, the one that costs least time first."""
    kinds = get_args(Recompute)
    trainings = [
        dataclasses.replace(footprint.training, recompute=kind)
        for kind in kinds[kinds.index(footprint.training.recompute) + 1 :]
    ]
    yield [
        (dataclasses.replace(footprint, training=training), f"training.recompute={training.recompute}")
        for training in trainings
        if can_recompute(training, footprint.stage, footprint.model)
    ]
    stages = [2] * (footprint.stage == 1 and footprint.zero.offload != "none")  # then gradients leave the GPU, too
    stages += [3] * (footprint.stage < 3 and footprint.ranks > 1)
    for stage in stages:
        if can_recompute(footprint.training, stage, footprint.model):
            yield [(_with_zero(footprint, stage=stage), f"zero.stage={stage}")]


def _with_zero(footprint: Footprint, **changes: Any) -> Footprint:
    """Returns the training with other fields of ``zero``."""
    return dataclasses.replace(footprint, zero=dataclasses.replace(footprint.zero, **changes))


def _offloaded(footprint: Footprint) -> Iterator[list[MemoryChange]]:
    """Yields the training with its states in CPU memory, alone and then with each other change, and these settings."""
    if footprint.zero.offload != "none" or not isinstance(footprint.optimizer, Elementwise):
        return
    changed, setting = _with_zero(footprint, offload="optimizer", stage=footprint.stage or 1), "zero.offload=optimizer"
    first_stage = " zero.stage=1" * (footprint.stage == 0)
    yield [(changed, setting + first_stage)]
    for alternatives in _changes(changed):
        yield [
            (further, f"{setting}{'' if other.startswith('zero.stage') else first_stage} {other}")
            for further, other in alternatives
        ]
