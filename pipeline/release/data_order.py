"""The order in which a training read its rows, as JSON: what it follows from, and a hash for each stretch of steps.

(seed, rows, position) ── order of rows ──> row numbers of steps 1 to 100 ── int64, little-endian ──> SHA-256
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from headrace.pipeline.core.settings import plain
from headrace.pipeline.documents.training_rows import INPUTS
from headrace.pipeline.release.release_folder import Release
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.checkpoint.store import read_state
from headrace.train.data.mixture import training_data
from headrace.train.data.order import Later, RowOrder
from headrace.train.training_config import TrainingConfig
from headrace.train.weights import Weights


def data_order(release: Release) -> str:
    """Returns the order of the training in ``release``: ``seed``, ``schedule``, ``data`` and ``steps``.

    Raises:
        ArtifactError: when the rows are neither in the release nor below its root.
    """
    planned, counts = release.stage(Weights.name), release.artifacts[Weights.name].counts
    stage = planned.stage
    assert isinstance(stage, Weights)
    inputs = {name: release.artifact(name) for name in INPUTS}
    training = stage.training
    rows, order = training_data(training.seed, inputs, stage.mixture, training.unique_rows)
    state = read_state(checkpoints(planned.folder / CHECKPOINTS)[training.steps])
    own_order = Later(order, state.first_row)
    began = counts["trunk_steps"], counts["trunk_rows"]
    values = {
        "seed": training.seed,
        "rows": len(rows),
        "schedule": plain(stage.schedule),
        "data": state.data,
        "steps": list(_stretches(training, own_order, *began)),
    }
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def _stretches(training: TrainingConfig, order: RowOrder, step: int, rows_seen: int) -> Iterator[dict[str, Any]]:
    """Yields the stretches of ``training.save_every`` steps after ``step``, the last one shorter."""
    while step < training.steps:
        end = min(training.steps, step - step % training.save_every + training.save_every)
        rows = training.rows_between(step, end)
        numbers = order.batch(rows_seen, rows).astype("<i8")
        hashed = hashlib.sha256(numbers.tobytes()).hexdigest()
        yield {"after_step": step, "to_step": end, "after_rows": rows_seen, "rows": rows, "sha256": hashed}
        step, rows_seen = end, rows_seen + rows
