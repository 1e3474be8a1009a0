"""Advice for a training that does not fit into memory: the settings that make it fit. Free of torch."""

import dataclasses
from collections.abc import Iterator

from headrace.train.cost.memory import Footprint


def advice(footprint: Footprint, micro_rows: int, memory_bytes: float) -> str:
    """Returns what to set so that micro-batches fit into ``memory_bytes``; an empty text if those of ``micro_rows`` do.

    Each of the ways in the text is enough alone.
    """
    if footprint.memory(micro_rows).peak <= memory_bytes:
        return ""
    return "give " + ", or ".join([*_ways(footprint, micro_rows, memory_bytes), "more or larger GPUs"])


def _ways(footprint: Footprint, micro_rows: int, memory_bytes: float) -> Iterator[str]:
    if rows := footprint.largest_micro_rows(memory_bytes):
        yield f"training.micro_batch_rows={rows}"
    for changed, setting in _changes(footprint):
        if rows := min(micro_rows, changed.largest_micro_rows(memory_bytes)):
            yield setting + (f" training.micro_batch_rows={rows}" if rows < micro_rows else "")


def _changes(footprint: Footprint) -> Iterator[tuple[Footprint, str]]:
    """Yields the training with other settings that need less memory, and these settings."""
    if footprint.training.recompute == "none":
        training = dataclasses.replace(footprint.training, recompute="full")
        yield dataclasses.replace(footprint, training=training), "training.recompute=full"
    if footprint.stage < 3 and footprint.ranks > 1:
        yield dataclasses.replace(footprint, zero=dataclasses.replace(footprint.zero, stage=3)), "zero.stage=3"
