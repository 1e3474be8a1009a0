"""Where metrics go: metrics.jsonl always, which is the truth; wandb beside it, which may be absent or offline.

    log(step, values) ──> metrics.jsonl   {"step": 120, "loss": 3.41, "learning_rate": 0.0006}
                      └─> wandb           the same values, over the axis ``global_step``
    log_scores(step, scores) ──> metrics.jsonl   {"step": 120, "evaluation": {"piqa": [{"name": "acc", …}, …]}}
                             └─> wandb           evaluation/piqa/acc: 0.52

wandb never asks for a key, never holds up a run and never ends one: it is online only when it was asked for and a key
is there, else offline, else off. It is called in a thread of its own. A server that is not there, or that answers
nothing for ``INIT_SECONDS``, makes it offline; any other failure ends wandb's part with one line. The end of a training
waits for it ``CLOSING_SECONDS`` at most. Each start of an offline run leaves a folder of its own, and what was logged
behind a checkpoint is logged again when a run is resumed; so ``rebuild`` makes the run anew from metrics.jsonl, one
curve whatever happened, under the same id.
"""

import dataclasses
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from headrace.pipeline.core.background import Background, one_line
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.metrics_file import MetricsFile, read_metrics
from headrace.pipeline.core.settings import settings

INIT_SECONDS = 10
"""How long wandb's server may take to accept a run; the variable WANDB_INIT_TIMEOUT changes it."""
CLOSING_SECONDS = 60
"""How long the end of a training may wait for wandb to send the rest."""


@settings
class Tracking:
    """Settings of the second sink."""

    wandb: Literal["auto", "online", "offline", "off"] = "auto"
    """auto: online when WANDB_API_KEY is set, offline otherwise."""
    project: str = "headrace"
    """The wandb project that runs appear under."""
    name: str | None = None
    """The run's name in wandb; None lets wandb choose."""


Facts = Mapping[str, Any]
Mode = Literal["online", "offline"]
EVALUATION = "evaluation"
"""Under this name stand scores, in metrics.jsonl and in wandb."""
Scores = Mapping[str, Sequence[Mapping[str, Any]]]
"""Benchmark → its metrics, each with a name, a value and the group of items that it covers (empty: all of them)."""


def new_run_id() -> str:
    """A fresh wandb run id; it lives in the checkpoint so that a resumed run continues its curve."""
    return uuid.uuid4().hex[:12]


@dataclasses.dataclass(frozen=True)
class Product:
    """An artifact as wandb lists it: a reference to its manifest, which has the checksums of all files. No upload."""

    stage: str
    manifest: Path
    address: str
    inputs: tuple[str, ...]
    """The names of the artifacts that it was made from."""
    made_by_run: bool
    """Whether it comes out of the training, or goes into it."""

    @property
    def name(self) -> str:
        return f"{self.stage}-{self.address}"


class Tracker:
    """Two sinks behind ``log``."""

    def __init__(
        self,
        folder: Path,
        tracking: Tracking,
        run_id: str,
        resume_step: int,
        facts: Facts,
        settled: str | None = None,
    ) -> None:
        """Open ``folder/metrics.jsonl``, without the rows after ``resume_step``, and wandb's run ``run_id``.

        Args:
            folder: the artifact's.
            tracking: where else metrics go.
            run_id: wandb's.
            resume_step: the last step whose rows stay.
            facts: settings and addresses, which describe the run to wandb.
            settled: the SHA-256 of the rows up to ``resume_step``, as ``settle`` returned it; None when unknown.

        Raises:
            ArtifactError: when these rows are not the ones that were settled.
        """
        self._metrics = MetricsFile(folder / "metrics.jsonl", resume_step, settled)
        self._wandb = None if tracking.wandb == "off" else Wandb(lambda: _opened(folder, tracking, run_id, facts))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record ``values`` at ``step``."""
        self._metrics.write({"step": step, **values})
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **values})

    def log_scores(self, step: int, scores: Scores) -> None:
        """Record what benchmarks gave at ``step``, in a row of its own."""
        self._metrics.write({"step": step, EVALUATION: scores})
        if self._wandb is not None:
            self._wandb.log({"global_step": step, **curves(scores)})

    def settle(self) -> str:
        """Wait until all rows are on the disk, so that no checkpoint is ahead of its curve; the SHA-256 of the rows."""
        return self._metrics.settle()

    def close(self) -> None:
        self._metrics.close()
        if self._wandb is not None:
            self._wandb.finish()


class Wandb:
    """wandb's run, opened and written in the background: what goes wrong there is a line, never an error."""

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
    """``evaluation/<benchmark>/<metric><mark>`` → its value on all items."""
    return {
        f"{EVALUATION}/{benchmark}/{metric['name']}{mark}": metric["value"]
        for benchmark, metrics in scores.items()
        for metric in metrics
        if not metric["group"]
    }


def rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: Facts,
    products: Sequence[Product],
    beside: Sequence[tuple[int, str, Scores]] = (),
) -> str:
    """Make wandb's run ``run_id`` anew from ``folder/metrics.jsonl``, in the place of what was logged under that id;
    with what was scored ``beside`` the training, after which step and by what.

    Artifacts are listed with their inputs; online wandb links those that went in and those that came out to the run.
    Returns where the run is: its address, or the folder that ``wandb sync`` uploads.

    Raises:
        RetryableError: when wandb's server refuses the run or does not answer.
    """
    import wandb

    try:
        return _rebuild(folder, tracking, run_id, facts, products, beside)
    except (wandb.Error, OSError) as error:
        remedy = "run again when its server answers, or with WANDB_MODE=offline"
        raise RetryableError("wandb", one_line(error), remedy) from None


def _rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: Facts,
    products: Sequence[Product],
    beside: Sequence[tuple[int, str, Scores]],
) -> str:
    asked = dataclasses.replace(tracking, wandb="auto") if tracking.wandb == "off" else tracking
    run = _wandb_run(folder, asked, run_id, facts, _mode(asked), continues=False)
    for product in products:
        reference = _artifact(product)
        if product.made_by_run or run.offline:  # offline, wandb has no use_artifact
            run.log_artifact(reference)
        else:
            run.use_artifact(reference)
    for row in read_metrics(folder / "metrics.jsonl"):
        values = dict(row)
        own = curves(values.pop(EVALUATION, {}))
        run.log({"global_step": values.pop("step"), **values, **own})
    for step, source, scores in beside:
        run.log({"global_step": step, **curves(scores, f" ({source})")})
    where = str(run.settings.sync_dir) if run.offline else str(run.url)
    run.finish()
    return where


def _artifact(product: Product) -> Any:
    """``product`` as an artifact of wandb."""
    import wandb

    metadata = {"address": product.address, "inputs": list(product.inputs)}
    artifact = wandb.Artifact(product.name, type=product.stage, metadata=metadata)
    artifact.add_reference(product.manifest.resolve().as_uri())
    return artifact


def _opened(folder: Path, tracking: Tracking, run_id: str, facts: Facts) -> Any:
    """wandb's run ``run_id``, gone on with; offline when its server refuses it or does not answer."""
    import wandb  # half a second, only where it is wanted

    mode = _mode(tracking)
    try:
        return _wandb_run(folder, tracking, run_id, facts, mode, continues=True)
    except (wandb.Error, OSError) as error:
        if mode == "offline":
            raise
        print(f"wandb: {one_line(error)}; it goes on offline in {folder / 'wandb'}", file=sys.stderr, flush=True)
    wandb.teardown()  # its service would hold the id of the run that failed
    return _wandb_run(folder, tracking, run_id, facts, "offline", continues=True)


def _mode(tracking: Tracking) -> Mode:
    """The mode that ``tracking`` asks for; offline without a key."""
    import wandb

    has_key = bool(os.environ.get("WANDB_API_KEY"))
    if tracking.wandb == "online":
        return "online" if has_key or wandb.login(prompt=False) else "offline"
    return "online" if tracking.wandb == "auto" and has_key and os.environ.get("WANDB_MODE") != "offline" else "offline"


def _wandb_run(folder: Path, tracking: Tracking, run_id: str, facts: Facts, mode: Mode, continues: bool) -> Any:
    """wandb's run ``run_id``: gone on with when it ``continues`` (only online can it), else begun anew in its place."""
    import wandb

    init_seconds = float(os.environ.get("WANDB_INIT_TIMEOUT", INIT_SECONDS))
    run = wandb.init(
        project=tracking.project,
        name=tracking.name,
        id=run_id,
        resume="allow" if continues and mode == "online" else None,
        mode=mode,
        dir=str(folder),
        config=dict(facts),
        settings=wandb.Settings(silent=True, console="off", init_timeout=init_seconds),
    )
    run.define_metric("global_step")
    run.define_metric("*", step_metric="global_step")
    return run
