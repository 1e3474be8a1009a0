"""The two sides of wandb that others call: the ``Tracker`` of a training, and the ``Recorder`` of finished stages.

    log(step, values) ──> metrics.jsonl   {"step": 120, "loss": 3.41, "learning_rate": 0.0006}
                      └─> wandb           the same values, over the axis ``global_step``
    log_scores(step, scores) ──> metrics.jsonl   {"step": 120, "evaluation": {"piqa": [{"name": "acc", …}, …]}}
                             └─> wandb           evaluation/piqa/acc: 0.52
    record(stage, folder) ──> stage_runs.py, a process of its own ──> wandb     while the next stages run

metrics.jsonl is always complete; wandb may be off or offline, and never asks for a key, delays a run or ends one. After
a failure it is not called again, and one line reports the reason. The end of a training or command waits at most
``CLOSING_SECONDS``. Stages that were not recorded then are recorded by the job of the report, by the next command on
the run, or by ``headrace export RUN --wandb``, which also makes the run of a training again as one curve.

Each start of an offline run creates a folder of its own, and an upload of two folders keeps the rows of one. So a start
that goes on logs all earlier rows into its folder first, and removes the earlier folders when it ends.
"""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.environment import MAIN_PID, own_packages
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.metrics_file import METRICS, MetricsFile, read_metrics
from headrace.pipeline.core.settings import decode
from headrace.pipeline.tracking.wandb_run import (
    CLOSING_SECONDS,
    Background,
    RunFacts,
    Tracking,
    finish,
    opened,
    place_of,
    remove_older_offline,
)

EVALUATION = "evaluation"
"""The key of scores in metrics.jsonl and in wandb."""
ScoresByBenchmark = Mapping[str, Sequence[Mapping[str, Any]]]
"""Benchmark → its metrics, each with a name, a value and the group of items that it covers (empty for all items)."""
PROGRAM = "headrace.pipeline.tracking.stage_runs"
RECORD = "logs/wandb.json"
"""The record of a wandb run, below the folder of its artifact. It has a ``place`` when the run is complete."""
MARGIN_SECONDS = 5
"""The process of a Recorder ends itself after CLOSING_SECONDS, with a message. If it hangs, it is killed this much
later."""
TRAINING, REPORT = "weights", "report"
"""The stage that records itself, and the one with tables and figures."""


def place_in_line(address: str, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Returns what a wandb run says of the place of an artifact: its ``address``, and ``clean-b8e44e9d7440`` of each of
    its ``inputs`` (stage → address)."""
    return {"address": address, "inputs": [f"{stage}-{of_input}" for stage, of_input in inputs.items()]}


def new_run_id() -> str:
    """Returns a new wandb run id. Checkpoints store it, so a resumed run continues its curve."""
    return uuid.uuid4().hex[:12]


class Tracker:
    """Writes metrics to metrics.jsonl and to wandb."""

    def __init__(
        self,
        folder: Path,
        tracking: Tracking,
        run_id: str,
        resume_step: int,
        facts: RunFacts,
        sha256: str | None = None,
    ) -> None:
        """Opens ``folder/metrics.jsonl``, removes the rows after ``resume_step``, and opens the wandb run ``run_id``.

        Args:
            folder: the folder of the artifact.
            tracking: the settings of wandb.
            run_id: the id of the wandb run.
            resume_step: the last step whose rows are kept.
            facts: settings and addresses that describe the run in wandb.
            sha256: the SHA-256 of the rows up to ``resume_step``, as ``flush`` returned it; None when unknown.

        Raises:
            ArtifactError: when these rows have another SHA-256.
        """
        path = folder / METRICS
        self._metrics = MetricsFile(path, resume_step, sha256)
        self._wandb: Wandb | None = None
        if tracking.is_on:
            end = path.stat().st_size
            self._wandb = Wandb(
                lambda: opened(folder, tracking, run_id, facts), lambda: wandb_rows(read_metrics(path, end))
            )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Records ``values`` at ``step``."""
        self._metrics.write({"step": step, **values})
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **values})

    def log_scores(self, step: int, scores: ScoresByBenchmark) -> None:
        """Records the scores of benchmarks at ``step``, in a row of its own."""
        self._metrics.write({"step": step, EVALUATION: scores})
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **curves(scores)})

    def flush(self) -> str:
        """Flushes all rows to the disk (fsync), and returns their SHA-256. A checkpoint is written only after this."""
        return self._metrics.flush()

    def verify(self) -> None:
        """Flushes all rows to the disk, and compares metrics.jsonl with them. The end of a training calls it.

        Raises:
            ArtifactError: when the file has other rows.
        """
        self._metrics.verify()

    def close(self) -> None:
        self._metrics.close()
        if self._wandb is not None:
            self._wandb.finish()


class Wandb:
    """The wandb run, opened and written by a thread. A failure is reported as one line and raises no error."""

    def __init__(self, opened: Callable[[], Any], earlier: Callable[[], Iterable[RunFacts]]) -> None:
        """Opens the run. An offline one gets the rows of ``earlier`` starts, because its folder replaces theirs."""
        self._calls = Background("wandb", "metrics.jsonl has every row, headrace export RUN --wandb sends them later")
        self._calls.call(lambda: self._open(opened, earlier))

    def log(self, values: Mapping[str, float]) -> None:
        self._calls.call(lambda: self._run.log(values))

    def finish(self) -> None:
        self._calls.call(self._finish)
        self._calls.close(CLOSING_SECONDS)

    def _open(self, opened: Callable[[], Any], earlier: Callable[[], Iterable[RunFacts]]) -> None:
        self._run = opened()
        for row in earlier() if self._run.offline else ():
            self._run.log(row)

    def _finish(self) -> None:
        finish(self._run)
        if self._run.offline:
            newest = Path(place_of(self._run))
            remove_older_offline(newest.parents[1], self._run.id, newest)


def wandb_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the ``rows`` of metrics.jsonl as wandb gets them."""
    for row in rows:
        values = dict(row)
        scores = curves(values.pop(EVALUATION, {}))
        yield {"global_step": values.pop("step"), **values, **scores}


def curves(scores: ScoresByBenchmark, mark: str = "") -> dict[str, float]:
    """Returns the values on all items, by the names of their curves: ``evaluation/<benchmark>/<metric><mark>``."""
    return {
        f"{EVALUATION}/{benchmark}/{metric['name']}{mark}": metric["value"]
        for benchmark, metrics in scores.items()
        for metric in metrics
        if not metric["group"]
    }


class Recorder:
    """Has the finished stages of a run recorded by a process of its own, which starts with the first one.

    Whatever wandb does, it happens in that process: its imports, threads, exit hooks and waits. The command or job only
    writes the names of stages into a pipe, and waits for the process at its end.
    """

    def __init__(self, run_json: Path) -> None:
        self._file = run_json
        self._process: subprocess.Popen[str] | None = None
        self._given_up = False

    def __enter__(self) -> "Recorder":
        return self

    def record(self, stage: str, folder: Path) -> None:
        """Has ``stage`` with the artifact in ``folder`` recorded, if it is finished, wanted, and not recorded before.

        An artifact of another user is left to that user. A failure is reported as one line, and later stages are then
        left out: the stage itself is finished.
        """
        if self._given_up:
            return
        try:
            if self._is_wanted(stage, folder):
                self._process = self._process or self._started()
                if self._process.stdin:
                    with contextlib.suppress(BrokenPipeError):  # it has ended, and reported the reason
                        print(stage, file=self._process.stdin, flush=True)
        except (OSError, HeadraceError) as error:
            self._given_up = True
            print(f"wandb: {error}; headrace export RUN --wandb records the stages later", file=sys.stderr, flush=True)

    def _is_wanted(self, stage: str, folder: Path) -> bool:
        if not (is_whole(folder) and os.access(folder, os.W_OK)):
            return False
        tracking, trains = self._settings
        is_wanted = tracking.records_stages(trains) and wants(tracking, stage)
        return is_wanted and "place" not in record_of(folder)

    @cached_property
    def _settings(self) -> tuple[Tracking, bool]:
        """The settings of wandb in run.json, and whether its run trains."""
        values = read_sealed(self._file)
        return decode(Tracking, values["config"]["tracking"]), TRAINING in values["descriptions"]

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
            print(
                "wandb: its process hung and was ended; headrace export RUN --wandb records the stages later",
                file=sys.stderr,
            )
        finally:
            self._process.kill()
            self._process.wait()

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


def wants(tracking: Tracking, stage: str) -> bool:
    """Whether ``tracking`` asks for a wandb run of the finished ``stage``. A training records itself."""
    return stage != TRAINING and (tracking.report if stage == REPORT else tracking.lineage)
