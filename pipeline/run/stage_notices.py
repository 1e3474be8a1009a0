"""Notices of finished stages: a process of its own records them in wandb while the next ones run.

    line, worker ── name of a finished stage ──> stage_runs.py, a process of its own ──> wandb

Whatever wandb does, it happens in that process: its imports, threads, exit hooks and waits. The command or job only
writes a line into a pipe. At its end it waits for the process at most ``CLOSING_SECONDS``, then ends it. When the
process is killed or wandb fails, the stages are recorded by the job of the report, by the next command on the run, or
by ``headrace sync``.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.environment import MAIN_PID, own_packages
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.settings import decode
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.planner import saved_before
from headrace.pipeline.run.saved_runs import AnyStage, SavedRun
from headrace.pipeline.tracking.settings import Tracking
from headrace.pipeline.tracking.wandb_run import CLOSING_SECONDS
from headrace.train.weights import Weights

PROGRAM = "headrace.pipeline.run.stage_runs"
RECORD = "logs/wandb.json"
"""The record of a wandb run, below the folder of its artifact. It has a ``place`` when the run is complete."""
MARGIN_SECONDS = 5
"""The process ends itself after CLOSING_SECONDS, with a message. If it hangs, it is killed this much later."""


class Recorder:
    """Sends the names of finished stages of a run to a process that records them. It starts with the first one."""

    def __init__(self, run_json: Path) -> None:
        self._file = run_json
        self._process: subprocess.Popen[str] | None = None
        self._given_up = False

    def __enter__(self) -> "Recorder":
        return self

    def record(self, stage: AnyStage) -> None:
        """Has ``stage`` recorded, if it is finished, the settings ask for it, and it was not recorded before.

        An artifact of another user is left to that user. A failure is reported as one line, and later stages are then
        left out: the stage itself is finished.
        """
        if self._given_up:
            return
        try:
            self._send(stage)
        except (OSError, HeadraceError) as error:
            self._given_up = True
            print(f"wandb: {error}; headrace sync records the stages later", file=sys.stderr, flush=True)

    def _send(self, stage: AnyStage) -> None:
        """Sends the name of ``stage`` to the process, which starts first when it does not run."""
        is_writable = stage.is_whole and os.access(stage.folder, os.W_OK)
        if not (is_writable and self._is_on and wants(self._tracking, stage.name)):
            return
        if is_recorded(record_of(stage.folder)):
            return
        self._process = self._process or self._started()
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and reported the reason
                print(stage.name, file=self._process.stdin, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for the process; after a request to stop, ends it at once."""
        if self._process is None:
            return
        try:
            if kind is None or issubclass(kind, Exception):
                self._process.communicate(timeout=CLOSING_SECONDS + MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            print("wandb: its process hung and was ended; headrace sync records the stages later", file=sys.stderr)
        finally:
            self._process.kill()
            self._process.wait()

    @cached_property
    def _run(self) -> SavedRun:
        return SavedRun.read(self._file)

    @cached_property
    def _tracking(self) -> Tracking:
        return decode(Tracking, self._run.values["config"]["tracking"])

    @cached_property
    def _is_on(self) -> bool:
        return self._tracking.records_stages(trains=any(stage.name == Weights.name for stage in self._run.steps))

    def _started(self) -> "subprocess.Popen[str]":
        """Starts the process, in a session of its own: Ctrl-C goes to the command alone.

        It imports nothing from the current folder, which may hold a user's wandb.py.
        """
        return subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(self._file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | own_packages() | {MAIN_PID: str(os.getpid())},
            text=True,
            start_new_session=True,
        )


def record_of(folder: Path) -> dict[str, Any]:
    """Returns the record of the wandb run of the artifact in ``folder``; nothing when none was begun."""
    path = folder / RECORD
    return read_sealed(path) if path.is_file() else {}


def is_recorded(record: Mapping[str, Any]) -> bool:
    """Whether the wandb run of ``record`` is complete."""
    return "place" in record


def wants(tracking: Tracking, stage: str) -> bool:
    """Whether ``tracking`` asks for a wandb run of the finished ``stage``. A training records itself."""
    return stage != Weights.name and (tracking.report if stage == Report.name else tracking.lineage)


def group_of(config: RunConfig, run_json: Path) -> str:
    """Returns the group of the wandb runs of the run with ``config`` that is saved in ``run_json``.

    It is the one in its settings, else that of its first start (a sweep's), else the run's name or id.
    """
    before = saved_before(run_json)
    first = before.values.get("group") if before else None
    return str(config.tracking.group or first or config.name or run_json.parent.name)
