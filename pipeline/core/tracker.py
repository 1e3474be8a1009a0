"""Where metrics go: metrics.jsonl always, which is the truth; wandb beside it, which may be absent or offline.

    log(step, values) ──> metrics.jsonl   {"step": 120, "loss": 3.41, "learning_rate": 0.0006}
                      └─> wandb           the same values, over the axis ``global_step``

wandb never asks for a key, never waits for a network and never stops a run: it is online only when it was asked for and
a key is there, else offline (``wandb sync`` later), else off.
"""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import orjson

from pipeline.core.settings import settings


@settings
class Tracking:
    """Settings of the second sink."""

    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    """auto: online when WANDB_API_KEY is set, offline otherwise."""
    project: str = "headrace"
    """The wandb project that runs appear under."""
    name: str | None = None
    """The run's name in wandb; None lets wandb choose."""


def new_run_id() -> str:
    """A fresh wandb run id; it lives in the checkpoint so that a resumed run continues its curve."""
    return uuid.uuid4().hex[:12]


class Tracker:
    """Two methods, two sinks."""

    def __init__(
        self, folder: Path, tracking: Tracking, run_id: str, resume_step: int, facts: Mapping[str, Any]
    ) -> None:
        """Open ``folder/metrics.jsonl``, without the rows after ``resume_step``, and wandb's run ``run_id``.

        ``facts`` describe the run (settings, addresses) to wandb.
        """
        self._path = folder / "metrics.jsonl"
        rows = [row for row in read_metrics(self._path) if row["step"] <= resume_step]
        self._path.write_bytes(b"".join(_line(row) for row in rows))
        self._file = self._path.open("ab")
        self._wandb = _wandb_run(folder, tracking, run_id, facts)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record ``values`` at ``step``."""
        self._file.write(_line({"step": step, **values}))
        self._file.flush()
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **values})

    def close(self) -> None:
        self._file.close()
        if self._wandb is not None:
            self._wandb.finish()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl; a last line that was cut off by a kill is left out."""
    return new_metrics(path, 0)[0]


def new_metrics(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """The whole rows from byte ``start`` on, and the byte after them. A file that shrank is read from its beginning."""
    if not path.is_file():
        return [], 0
    with path.open("rb") as file:
        file.seek(start if start <= path.stat().st_size else 0)
        start, lines = file.tell(), file.read().split(b"\n")[:-1]
    return [orjson.loads(line) for line in lines], start + sum(len(line) + 1 for line in lines)


def _line(row: Mapping[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _wandb_run(folder: Path, tracking: Tracking, run_id: str, facts: Mapping[str, Any]) -> Any:
    has_key = bool(os.environ.get("WANDB_API_KEY"))
    mode = tracking.wandb
    if mode == "auto":
        mode = "online" if has_key and os.environ.get("WANDB_MODE") != "offline" else "offline"
    if mode == "off":
        return None
    import wandb  # half a second, only where it is wanted

    if mode == "online" and not has_key and not wandb.login(prompt=False):
        mode = "offline"
    os.environ.setdefault("WANDB_INIT_TIMEOUT", "10")
    run = wandb.init(
        project=tracking.project,
        name=tracking.name,
        id=run_id,
        resume="allow" if mode == "online" else None,
        mode=mode,
        dir=str(folder),
        config=dict(facts),
        settings=wandb.Settings(silent=True, console="off"),
    )
    run.define_metric("global_step")
    run.define_metric("*", step_metric="global_step")
    return run
