"""Records metrics in metrics.jsonl, which is always complete, and in wandb, which may be off or offline.

    log(step, values) ──> metrics.jsonl   {"step": 120, "loss": 3.41, "learning_rate": 0.0006}
                      └─> wandb           the same values, over the axis ``global_step``
    log_scores(step, scores) ──> metrics.jsonl   {"step": 120, "evaluation": {"piqa": [{"name": "acc", …}, …]}}
                             └─> wandb           evaluation/piqa/acc: 0.52
    inputs, log_checkpoint ──> wandb      the artifacts that the training reads, and its newest checkpoint

wandb never asks for a key, never delays a run and never ends one. It is online only when the settings allow it and
there is a key. It is called in a thread of its own. When its server cannot be reached, or does not answer for
``INIT_SECONDS``, wandb goes offline. After any other failure it is not called again, and one line reports the reason.
The end of a training waits for wandb at most ``CLOSING_SECONDS``.

Each start of an offline run creates a folder of its own, and an upload of two folders keeps the rows of one. So a start
that goes on logs all earlier rows into its folder first, and removes the earlier folders when it ends. The curve of a
run that was online may have gaps and duplicates: a resumed run logs the steps after its checkpoint again. ``rebuild``
makes the run again from metrics.jsonl, under the same id and as one curve.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.metrics_file import METRICS, MetricsFile, metrics_path, read_metrics
from headrace.pipeline.tracking.lineage import Media, Product
from headrace.pipeline.tracking.settings import Tracking
from headrace.pipeline.tracking.wandb_run import (
    CLOSING_SECONDS,
    Background,
    RunFacts,
    errors_explained,
    finish,
    lineage_errors_printed,
    opened,
    place_of,
    record_inputs,
    record_media,
    record_output,
    remove_older_offline,
    replaced,
)

NO_MEDIA = Media()
EVALUATION = "evaluation"
"""The key of scores in metrics.jsonl and in wandb."""
ScoresByBenchmark = Mapping[str, Sequence[Mapping[str, Any]]]
"""Benchmark → its metrics, each with a name, a value and the group of items that it covers (empty for all items)."""


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
        inputs: Callable[[], Sequence[Product]] = tuple,
    ) -> None:
        """Opens ``folder/metrics.jsonl``, removes the rows after ``resume_step``, and opens the wandb run ``run_id``.

        Args:
            folder: the folder of the artifact.
            tracking: the settings of wandb.
            run_id: the id of the wandb run.
            resume_step: the last step whose rows are kept.
            facts: settings and addresses that describe the run in wandb.
            sha256: the SHA-256 of the rows up to ``resume_step``, as ``flush`` returned it; None when unknown.
            inputs: returns the artifacts that the run reads. The thread calls it, when wandb records lineage.

        Raises:
            ArtifactError: when these rows have another SHA-256.
        """
        path = folder / METRICS
        self._metrics = MetricsFile(path, resume_step, sha256)
        self._records_lineage = tracking.lineage
        self._wandb: Wandb | None = None
        if tracking.is_on:
            end = path.stat().st_size

            def earlier() -> Iterator[RunFacts]:
                return wandb_rows(read_metrics(path, end))

            self._wandb = Wandb(lambda: opened(folder, tracking, run_id, facts), earlier)
        if self._wandb is not None and tracking.lineage:
            self._wandb.use(inputs)

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

    def log_checkpoint(self, checkpoint: Product) -> None:
        """Records ``checkpoint`` as an artifact that this run made."""
        if self._wandb is not None and self._records_lineage:
            self._wandb.made(checkpoint)

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

    def __init__(self, opened: Callable[[], Any], earlier: Callable[[], Iterable[RunFacts]] = tuple) -> None:
        """Opens the run. An offline one gets the rows of ``earlier`` starts, because its folder replaces theirs."""
        self._calls = Background("wandb", "metrics.jsonl has every row, headrace sync sends them later")
        self._calls.call(lambda: self._open(opened, earlier))

    def log(self, values: Mapping[str, float]) -> None:
        self._calls.call(lambda: self._run.log(values))

    def use(self, inputs: Callable[[], Sequence[Product]]) -> None:
        """Records that the run reads the artifacts that ``inputs`` returns."""
        self._calls.call(lambda: self._lineage(lambda: record_inputs(self._run, inputs())))

    def made(self, output: Product) -> None:
        """Records that the run made ``output``."""
        self._calls.call(lambda: self._lineage(lambda: record_output(self._run, output)))

    def finish(self) -> None:
        self._calls.call(self._finish)
        self._calls.close(CLOSING_SECONDS)

    def _open(self, opened: Callable[[], Any], earlier: Callable[[], Iterable[RunFacts]]) -> None:
        self._run = opened()
        if self._run.offline:
            for row in earlier():
                self._run.log(row)

    def _finish(self) -> None:
        finish(self._run)
        if self._run.offline:
            newest = Path(place_of(self._run))
            remove_older_offline(newest.parents[1], self._run.id, newest)

    def _lineage(self, call: Callable[[], None]) -> None:
        with lineage_errors_printed():
            call()


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


def rebuild(
    folder: Path,
    tracking: Tracking,
    run_id: str,
    facts: RunFacts,
    inputs: Sequence[Product],
    checkpoint: Product,
    extra_scores: Sequence[tuple[int, str, ScoresByBenchmark]] = (),
    media: Media = NO_MEDIA,
) -> str:
    """Replaces the wandb run ``run_id`` by one made from ``folder/metrics.jsonl``.

    Args:
        folder: the folder of the artifact.
        tracking: the settings of wandb.
        run_id: the id of the wandb run.
        facts: settings and addresses that describe the run in wandb.
        inputs: the artifacts that the training reads.
        checkpoint: its newest checkpoint.
        extra_scores: scores that were not computed by the training itself: the step, their source and their values.
        media: tables that the run shows.

    Returns:
        The URL of the run; offline, the folder that ``wandb sync`` uploads.

    Raises:
        RetryableError: when wandb's server refuses the run or does not answer.
    """
    with errors_explained():
        run = replaced(folder, tracking, run_id, facts)
        if tracking.lineage:
            record_inputs(run, inputs)
        for row in wandb_rows(read_metrics(metrics_path(folder))):
            run.log(row)
        for step, source, extra in extra_scores:
            others = curves(extra, f" ({source})")
            run.log({"global_step": step, **others})
            run.summary.update(others)
        record_media(run, media)
        if tracking.lineage:
            record_output(run, checkpoint)
        place = place_of(run)
        finish(run)
        return place
