"""The metrics that a training writes after its last step, whatever the step. This module imports no torch.

    validate_every=4    steps     4  6  8
    training.steps=6              v  v        v: validation; the last step always has one
    training.steps=8              v     v

A training that begins with the rows of another one gets what it would have written itself at each step.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.metrics_file import MetricsFile, read_metrics
from headrace.pipeline.tracking.tracker import EVALUATION
from headrace.train.checkpoint.state import State
from headrace.train.training_config import TrainingConfig

VALIDATION = frozenset({"validation_loss", "bits_per_byte", "seen_loss", "loss_gap", "source_loss"})
"""The metrics of a validation; parts of them have names such as ``validation_loss:term``."""


def has_end(path: Path, training: TrainingConfig) -> bool:
    """Whether the metrics of a longer training at ``path`` have all that ``training`` writes after its last step."""
    names = {name for row in read_metrics(path) if row["step"] == training.steps for name in row}
    is_scored = training.evaluate_every is None or EVALUATION in names
    return "learning_rate" in names and training.steps % training.validate_every == 0 and is_scored


def without_end(path: Path, state: State, training: TrainingConfig) -> State:
    """Removes from the metrics at ``path`` what the longer ``training`` does not write after the step of ``state``.

    They end with that step. Returns ``state`` with their new SHA-256. If they are not those that ``state`` knows, they
    stay as they are, and the training that opens them refuses them.
    """
    rows = [row for row in read_metrics(path) if row["step"] == state.step]
    regular = [kept for row in rows if (kept := _regular(row, training))]
    if regular == rows or hashlib.sha256(path.read_bytes()).hexdigest() != state.curve:
        return state
    file = MetricsFile(path, state.step - 1)
    for row in regular:
        file.write(row)
    curve = file.flush()
    file.close()
    return dataclasses.replace(state, curve=curve)


def _regular(row: Mapping[str, Any], training: TrainingConfig) -> dict[str, Any]:
    """Returns what ``training`` writes of ``row``; nothing if it writes no such row."""
    step = row["step"]
    if EVALUATION in row:
        return dict(row) if training.evaluates_at(step) else {}
    validates, logs = step % training.validate_every == 0, step % training.log_every == 0
    values = {
        name: value
        for name, value in row.items()
        if name != "step" and (validates if name.partition(":")[0] in VALIDATION else logs)
    }
    return {"step": step, **values} if values else {}
