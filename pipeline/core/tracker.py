"""Records metrics in metrics.jsonl, which is always complete, and in wandb, which may be off or offline.

    log(step, values) ──> metrics.jsonl   {"step": 120, "loss": 3.41, "learning_rate": 0.0006}
                      └─> wandb           the same values, over the axis ``global_step``
    log_scores(step, scores) ──> metrics.jsonl   {"step": 120, "evaluation": {"piqa": [{"name": "acc", …}, …]}}
                             └─> wandb           evaluation/piqa/acc: 0.52

wandb never asks for a key, never delays a run and never ends one. It is online only when the settings allow it and
there is a key. It is called in a thread of its own. When its server cannot be reached, or does not answer for
``INIT_SECONDS``, wandb goes offline. After any other failure it is not called again, and one line reports the reason.
The end of a training waits for wandb at most ``CLOSING_SECONDS``.

The curve in wandb may have gaps and duplicates: each start of an offline run creates a folder of its own, and a resumed
run logs the steps after its checkpoint again. ``rebuild`` makes the run again from metrics.jsonl, under the same id and
as one curve.
"""

import contextlib
import dataclasses
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.core.background import Background, one_line
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.metrics_file import MetricsFile, read_metrics
from headrace.pipeline.core.settings import settings

INIT_SECONDS = 10
"""The longest wait for wandb's server to accept a run. The environment variable WANDB_INIT_TIMEOUT overrides it."""
CLOSING_SECONDS = 60
"""The longest wait for wandb at the end of a training."""


@settings
class Tracking:
    """Settings of wandb."""

    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    """``auto`` is online when WANDB_API_KEY is set, and offline otherwise."""
    project: str = "headrace"
    """The wandb project of the runs."""
    name: str | None = None
    """The run's name in wandb; None lets wandb choose."""
    entity: str | None = None
    """The user or team that owns the project; None takes the default of the key."""
    group: str | None = None
    """The group of the run; None puts the runs of a sweep into one group, and other runs into none."""
    job_type: str | None = None
    """The type of the run within its group, such as ablation."""
    tags: tuple[str, ...] = ()
    """Tags of the run."""
    notes: str | None = None
    """A description of the run, in Markdown."""


GROUP = "WANDB_RUN_GROUP"
"""The environment variable of the group of runs without ``tracking.group``, as wandb names it. Jobs inherit it."""

Facts = Mapping[str, Any]
Mode = Literal["online", "offline"]
EVALUATION = "evaluation"
"""The key of scores in metrics.jsonl and in wandb."""
Scores = Mapping[str, Sequence[Mapping[str, Any]]]
"""Benchmark → its metrics, each with a name, a value and the group of items that it covers (empty for all items)."""


@contextlib.contextmanager
def grouped(name: str) -> Iterator[None]:
    """Puts the runs that are started in this block into the group ``name``, unless the environment has another."""
    before = os.environ.get(GROUP)
    os.environ[GROUP] = before or name
    try:
        yield
    finally:
        if before is None:
            del os.environ[GROUP]


def new_run_id() -> str:
    """Returns a new wandb run id. Checkpoints store it, so a resumed run continues its curve."""
    return uuid.uuid4().hex[:12]


@dataclasses.dataclass(frozen=True)
class Product:
    """An artifact as wandb lists it: a reference to its manifest, which has the checksums of all files. No file is
    uploaded."""

    stage: str
    manifest: Path
    address: str
    inputs: tuple[str, ...]
    """The names of its input artifacts."""
    made_by_run: bool
    """True for an output of the training, False for an input."""

    @property
    def name(self) -> str:
        return f"{self.stage}-{self.address}"


class Tracker:
    """Writes metrics to metrics.jsonl and to wandb."""

    def __init__(
        self,
        folder: Path,
        tracking: Tracking,
        run_id: str,
        resume_step: int,
        facts: Facts,
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
        self._metrics = MetricsFile(folder / "metrics.jsonl", resume_step, sha256)
        self._wandb = None if tracking.wandb == "off" else Wandb(lambda: _opened(folder, tracking, run_id, facts))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Records ``values`` at ``step``."""
        self._metrics.write({"step": step, **values})
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **values})

    def log_scores(self, step: int, scores: Scores) -> None:
        """Records the scores of benchmarks at ``step``, in a row of its own."""
        self._metrics.write({"step": step, EVALUATION: scores})
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **curves(scores)})

    def flush(self) -> str:
        """Flushes all rows to the disk (fsync), and returns their SHA-256. A checkpoint is written only after this."""
        return self._metrics.flush()

    def close(self) -> None:
        self._metrics.close()
        if self._wandb is not None:
            self._wandb.finish()


class Wandb:
    """The wandb run, opened and written by a thread. A failure is reported as one line and raises no error."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self._calls = Background("wandb", "metrics.jsonl has every row, headrace sync sends them later")
        self._calls.call(lambda: self._open(opened))

    def log(self, values: Mapping[str, float]) -> None:
        self._calls.call(lambda: self._run.log(values))

    def finish(self) -> None:
        self._calls.call(lambda: self._run.finish())
        self._calls.close(CLOSING_SECONDS)

    def _open(self, opened: Callable[[], Any]) -> None:
        self._run = opened()


def curves(scores: Scores, mark: str = "") -> dict[str, float]:
    """Returns the values on all items, by the names of their curves: ``evaluation/<benchmark>/<metric><mark>``."""
    return {
        f"{EVALUATION}/{benchmark}/{metric['name']}{mark}": metric["value"]
        for benchmark, metrics in scores.items()
        for metric in metrics
        if not metric["group"]
    }


def remove_older_offline(folder: Path, run_id: str, newest: Path) -> None:
    """Removes the offline folders of the wandb run ``run_id`` below ``folder``, except ``newest``: it has all rows."""
    for path in folder.glob(f"wandb/offline-run-*-{run_id}"):
        if path.resolve() != newest.resolve():
            shutil.rmtree(path)


def rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: Facts,
    products: Sequence[Product],
    extra_scores: Sequence[tuple[int, str, Scores]] = (),
) -> str:
    """Replaces the wandb run ``run_id`` by one made from ``folder/metrics.jsonl``.

    Args:
        folder: the folder of the artifact.
        tracking: the settings of wandb.
        run_id: the id of the wandb run.
        facts: settings and addresses that describe the run in wandb.
        products: the artifacts of the run, listed with their inputs. Only online wandb links them to the run.
        extra_scores: scores that were not computed by the training itself: the step, their source and their values.

    Returns:
        The URL of the run; offline, the folder that ``wandb sync`` uploads.

    Raises:
        RetryableError: when wandb's server refuses the run or does not answer.
    """
    import wandb

    try:
        return _rebuild(folder, tracking, run_id, facts, products, extra_scores)
    except (wandb.Error, OSError) as error:
        remedy = "run again when the server answers, or with WANDB_MODE=offline"
        raise RetryableError("wandb", one_line(error), remedy) from None


def _rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: Facts,
    products: Sequence[Product],
    extra_scores: Sequence[tuple[int, str, Scores]],
) -> str:
    enabled = dataclasses.replace(tracking, wandb="auto") if tracking.wandb == "off" else tracking
    run = _wandb_run(folder, enabled, run_id, facts, _mode(enabled), resumes=False)
    for product in products:
        reference = _artifact(product)
        if product.made_by_run or run.offline:  # offline, wandb does not support use_artifact
            run.log_artifact(reference)
        else:
            run.use_artifact(reference)
    for row in read_metrics(folder / "metrics.jsonl"):
        values = dict(row)
        scores = curves(values.pop(EVALUATION, {}))
        run.log({"global_step": values.pop("step"), **values, **scores})
    for step, source, extra in extra_scores:
        run.log({"global_step": step, **curves(extra, f" ({source})")})
    location = str(run.settings.sync_dir) if run.offline else str(run.url)
    run.finish()
    return location


def _artifact(product: Product) -> Any:
    """Returns ``product`` as an artifact of wandb."""
    import wandb

    metadata = {"address": product.address, "inputs": list(product.inputs)}
    artifact = wandb.Artifact(product.name, type=product.stage, metadata=metadata)
    artifact.add_reference(product.manifest.resolve().as_uri())
    return artifact


def _opened(folder: Path, tracking: Tracking, run_id: str, facts: Facts) -> Any:
    """Opens the wandb run ``run_id`` to continue it; offline when the server refuses it or does not answer."""
    import wandb  # imported only when needed: it takes half a second

    mode = _mode(tracking)
    try:
        return _wandb_run(folder, tracking, run_id, facts, mode, resumes=True)
    except (wandb.Error, OSError) as error:
        if mode == "offline":
            raise
        print(
            f"wandb: {one_line(error)}; the run is recorded offline in {folder / 'wandb'}", file=sys.stderr, flush=True
        )
    wandb.teardown()  # otherwise its service keeps the id of the failed run
    return _wandb_run(folder, tracking, run_id, facts, "offline", resumes=True)


def _mode(tracking: Tracking) -> Mode:
    """Returns the mode of ``tracking``; offline when there is no key."""
    import wandb

    has_key = bool(os.environ.get("WANDB_API_KEY"))
    if tracking.wandb == "online":
        return "online" if has_key or wandb.login(prompt=False) else "offline"
    return "online" if tracking.wandb == "auto" and has_key and os.environ.get("WANDB_MODE") != "offline" else "offline"


def _wandb_run(folder: Path, tracking: Tracking, run_id: str, facts: Facts, mode: Mode, resumes: bool) -> Any:
    """Opens the wandb run ``run_id``. It is resumed if ``resumes`` is true and the mode is online, else replaced."""
    import wandb

    init_seconds = float(os.environ.get("WANDB_INIT_TIMEOUT", INIT_SECONDS))
    run = wandb.init(
        project=tracking.project,
        name=tracking.name,
        entity=tracking.entity,
        group=tracking.group or os.environ.get(GROUP),
        job_type=tracking.job_type,
        tags=tracking.tags or None,
        notes=tracking.notes,
        id=run_id,
        resume="allow" if resumes and mode == "online" else None,
        mode=mode,
        dir=str(folder),
        config=dict(facts),
        settings=wandb.Settings(silent=True, console="off", init_timeout=init_seconds),
    )
    run.define_metric("global_step")
    run.define_metric("*", step_metric="global_step")
    return run
