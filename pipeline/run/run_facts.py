"""The facts of a run for a table of runs: date, user, stages, size, loss and best score."""

import time
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.run.results import accuracies, best, validation_loss
from headrace.pipeline.run.saved import SavedRun
from headrace.pipeline.run.storage import result_bytes

DAMAGED = "damaged"


def facts_of(run: SavedRun, sizes: dict[Path, int]) -> dict[str, Any]:
    """Returns what is known of ``run`` as JSON values. ``sizes`` keeps the bytes of folders that runs share."""
    for stage in run.steps:
        if stage.folder not in sizes:
            sizes[stage.folder] = result_bytes(stage.folder)
    try:
        loss, best_score = validation_loss(run.steps), best(accuracies(run.steps))
    except ArtifactError:
        loss, best_score = None, DAMAGED
    return {
        "name": run.name,
        "id": run.id,
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        "user": run.user,
        "own": run.is_own,
        "done": sum(stage.is_whole for stage in run.steps),
        "stages": len(run.steps),
        "running": bool(run.processes()),
        "where": str(run.values["config"].get("cluster", {}).get("type", "")),
        "bytes": sum(sizes[stage.folder] for stage in run.steps),
        "loss": loss,
        "best_score": best_score,
        "notes": str(run.values["config"].get("tracking", {}).get("notes") or ""),
        "folder": str(run.file.parent),
    }
