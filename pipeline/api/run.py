"""Runs for notebooks and scripts: opened by name, read as tables.

    headrace.open_run("small") ──> Run ──> documents, document, funnel, metrics, scores, stages, settings, model

Only run.json and the artifacts are read: the raw data may be gone, and any current folder will do.
"""

import dataclasses
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import escape

from headrace.data_prep.clean import Cleaning
from headrace.pipeline.api.documents import COLUMNS, DocumentHistory, Documents, DropExplanations
from headrace.pipeline.api.tables import Table, TableRow
from headrace.pipeline.command_line.request import opened
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.settings import decode
from headrace.pipeline.documents.lookup import document_stage, need, whole
from headrace.pipeline.documents.stored_documents import check_rule
from headrace.pipeline.experiments.comparison import contestants, differing_settings, differing_stages
from headrace.pipeline.report.funnel import RuleDrops, funnel
from headrace.pipeline.report.score_history import points
from headrace.pipeline.run.run_results import facts_of
from headrace.pipeline.run.run_state import states_of
from headrace.pipeline.run.saved_run import DEFAULT_ROOT, SavedRun, named_file, newest_file, run_files, saved_runs
from headrace.pipeline.tracking.tracker import EVALUATION
from headrace.train.evaluation.score_rows import Metric, read_scores, without_shots
from headrace.train.inference.language_model import LanguageModel
from headrace.train.inference.settings import Inference

STAGE_COLUMNS = ("stage", "state", "done", "tasks", "result", "folder")
METRIC_COLUMNS = ("step", "loss", "validation_loss", "bits_per_byte", "learning_rate", "tokens_seen")
FUNNEL_COLUMNS = (*(field.name for field in dataclasses.fields(RuleDrops)), "meaning")
SCORE_COLUMNS = (
    *("benchmark", "metric", "group", "value", "standard_error", "low", "high", "random"),
    *("items", "shots", "checkpoint", "source"),
)
RUN_COLUMNS = (
    *("name", "id", "started", "user", "own", "done", "stages", "running"),
    *("where", "bytes", "core_hours", "gpu_hours", "loss", "best_score", "notes", "folder"),
)
AFTER_TRAINING = "scores"
"""The source of the scores of the stage ``scores``."""


class Run:
    """A run that was started before. Its tables are read again at each call, so a run at work can be followed."""

    def __init__(self, saved: SavedRun) -> None:
        """Opens ``saved``; ``headrace.open_run`` finds it by its name."""
        self._saved = saved

    @property
    def id(self) -> str:
        """Its id: twelve hexadecimal digits."""
        return self._saved.id

    @property
    def name(self) -> str:
        """Its name; empty when it has none."""
        return self._saved.name

    @property
    def folder(self) -> Path:
        """The folder of its run.json and of its jobs' logs; ``stages`` has the folders of its results."""
        return self._saved.file.parent

    @property
    def started(self) -> datetime:
        """The time of its last start, in the local time zone."""
        return datetime.fromtimestamp(self._saved.started).astimezone()

    @property
    def settings(self) -> dict[str, Any]:
        """All its settings, nested as in conf/: ``run.settings["training"]["steps"]``."""
        return dict(self._saved.values["config"])

    @property
    def overrides(self) -> list[str]:
        """The settings that were given when it was started (``KEY=VALUE``)."""
        return list(self._saved.values["overrides"])

    @property
    def stages(self) -> Table:
        """One row per stage: ``stage``, ``state`` (done, begun, stopped, failed, to do, or its job's), ``done`` of
        ``tasks``, ``result`` (its main counts, or its progress) and ``folder``."""
        rows, _ = states_of(self._saved.stages, bool(self._saved.processes()))
        return Table(STAGE_COLUMNS, ({**vars(row), "folder": str(row.folder)} for row in rows))

    @property
    def is_done(self) -> bool:
        """Whether all stages of its last start are finished."""
        return all(stage.is_whole for stage in self._saved.steps)

    @property
    def report(self) -> Path | None:
        """The path of its report, an HTML page; None before it is written."""
        page = next((stage.folder / "report.html" for stage in self._saved.stages if stage.name == "report"), None)
        return page if page is not None and page.is_file() else None

    def documents(
        self, stage: str = "clean", kept: bool | None = True, rule: str = "", columns: Sequence[str] = COLUMNS
    ) -> Documents:
        """Returns documents of ``stage``: texts, clean or unique. None is read before they are iterated over.

        Args:
            stage: the stage that kept or dropped them.
            kept: True for kept documents, False for dropped ones, None for both.
            rule: only those that this rule or filter dropped (``c4_lines.sentences`` or ``c4_lines``).
            columns: ``id``, ``url``, ``kept``, ``split``, ``rule``, ``value``, ``threshold``, ``reason``, ``text``,
                and any field by the name that ``headrace export`` gives it (``language``,
                ``removed_lines.c4_lines.end_mark``). A field that a document lacks is None.

        Raises:
            ConfigError: when the stage keeps no documents, the run ends before it, or ``rule`` dropped none.
            ArtifactError: when the stage is not finished.
        """
        artifact = document_stage(stage, self._saved.stages)
        if rule:
            check_rule(artifact, rule)
        fraction = self._saved.values["config"]["packing"]["validation_fraction"]
        chosen = (columns,) if isinstance(columns, str) else tuple(columns)
        return Documents(artifact, self._drops, kept, rule, chosen, fraction)

    def document(self, name: str) -> DocumentHistory:
        """Returns the document that ``name``, an id or a URL, names, with its path through the stages.

        Raises:
            ConfigError: when it names none or several, or another user started the run.
            ArtifactError: when ``texts`` is not finished.
        """
        return DocumentHistory.of(opened(self._saved).stages, name, self._drops)

    def funnel(self) -> Table:
        """Returns one row per rule that dropped documents: ``stage``, ``rule``, ``dropped``, ``documents`` (that the
        stage read), ``share`` (0 to 1, of these) and ``meaning`` (a sentence). Only finished stages are counted."""
        drops = (row for stage in funnel(whole(self._saved.stages)) for row in stage.rules)
        return Table(FUNNEL_COLUMNS, ({**vars(row), "meaning": self._drops.meaning(row.rule)} for row in drops))

    def metrics(self) -> Table:
        """Returns the curves of the training, one row per logged step.

        The columns are ``step``, ``loss`` and ``validation_loss`` (nats per target token), ``bits_per_byte``,
        ``learning_rate``, ``tokens_seen``, then ``gradient_norm``, ``tokens_per_second`` and others. A value that was
        not measured at a step is None. The table is empty before the first logged step.

        Raises:
            ConfigError: when the run ends before the training.
        """
        rows = [row for row in self._metric_rows if EVALUATION not in row]
        others = dict.fromkeys(name for row in rows for name in row if name not in METRIC_COLUMNS)
        return Table([*METRIC_COLUMNS, *others], rows)

    def scores(self) -> Table:
        """Returns the scores of the benchmarks: after the training, while training, and of its checkpoints.

        The columns are ``benchmark`` (without its shots), ``metric``, ``group`` (a part of the benchmark; empty for all
        of it), ``value`` (a share from 0 to 1, or in the unit of the metric), ``standard_error``, ``low`` and ``high``
        (95 % interval), ``random`` (the value of guessing), ``items``, ``shots``, ``checkpoint`` (the step) and
        ``source``: ``scores``, ``while training``, or ``watch`` with a hash of its settings. Only scores of one source
        can be compared over checkpoints.

        Raises:
            ConfigError: when the run ends before the training.
        """
        return Table(SCORE_COLUMNS, self._scores())

    def model(self, device: str = "auto", precision: str = "fp32") -> LanguageModel:
        """Returns the trained model and its tokenizer, ready to generate. The first call imports torch.

        Args:
            device: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
            precision: of weights and activations: ``fp32`` or ``bf16``.

        Raises:
            ConfigError: when the run ends before the training, or there is no such device.
            ArtifactError: when the training is not finished.
        """
        inference = {"device": device, "precision": precision}
        return LanguageModel.open(
            need("weights", self._saved.stages).verified_folder("hf"), decode(Inference, inference)
        )

    @cached_property
    def _drops(self) -> DropExplanations:
        settings = self._saved.values["config"]
        cleaning = decode(Cleaning, settings["cleaning"], "cleaning", self._saved.values.get("folder"))
        return DropExplanations(cleaning, settings["dedup"]["threshold"])

    @property
    def _training(self) -> Path:
        """The folder of the training.

        Raises:
            ConfigError: when the run ends before it.
        """
        folder = next((stage.folder for stage in self._saved.stages if stage.name == "weights"), None)
        if folder is None:
            raise ConfigError("until", "the run ends before the training", "launch it with until=report")
        return folder

    @property
    def _metric_rows(self) -> list[TableRow]:
        return read_metrics(metrics_path(self._training))

    def _scores(self) -> Iterator[TableRow]:
        folder = next((stage.folder for stage in self._saved.stages if stage.name == "scores" and stage.is_whole), None)
        if folder is not None:
            step = max(row["step"] for row in self._metric_rows)
            scored = sorted(read_scores(Artifact(folder).path("scores.json")), key=lambda benchmark: benchmark.order)
            for benchmark in scored:
                for metric in benchmark.metrics:
                    yield _score(benchmark.base_name, benchmark.shots, metric, step, AFTER_TRAINING)
        for point in points(self._training):
            match = re.search(r"_(\d+)shot$", point.benchmark)
            shots = int(match[1]) if match else 0
            yield _score(without_shots(point.benchmark, shots), shots, point.metric, point.step, point.source)

    def __repr__(self) -> str:
        done = sum(stage.is_whole for stage in self._saved.stages)
        name = f" {self.name!r}" * bool(self.name)
        return f"<headrace.Run{name} {self.id}: {done} of {len(self._saved.stages)} stages done, {self.folder}>"

    def _repr_html_(self) -> str:
        """Returns name, stages and scores for Jupyter. All texts are escaped."""
        has_training = any(stage.name == "weights" for stage in self._saved.stages)
        scores = [row for row in self.scores() if row["source"] == AFTER_TRAINING] if has_training else []
        shown = Table(("benchmark", "metric", "value", "standard_error", "random", "shots"), scores)
        head = f"<h4>{escape(self._saved.label)}</h4><p>{escape(self.id)}, started {self.started:%Y-%m-%d %H:%M}</p>"
        return head + self.stages._repr_html_() + shown._repr_html_() * bool(scores)


def _score(benchmark: str, shots: int, metric: Metric, step: int, source: str) -> TableRow:
    low, high = metric.interval or (None, None)
    where = {"shots": shots, "checkpoint": step, "source": source}
    return {"benchmark": benchmark, "metric": metric.name, **metric.row(), "low": low, "high": high, **where}


def open_run(name: str | os.PathLike[str] = "", root: str | os.PathLike[str] = DEFAULT_ROOT) -> Run:
    """Opens a run that was started before, here or by the command line.

    Args:
        name: its name, its id, the beginning of one of them, or the path of its folder or run.json. Without it, the
            run below ``root`` that you started last.
        root: the folder below which runs are saved.

    Raises:
        ConfigError: when there is none, or the beginning fits several.
        ArtifactError: when its run.json is damaged, or of another version.
    """
    absolute = os.path.abspath(root)
    return Run(SavedRun.read(named_file(absolute, os.fspath(name)) if name else newest_file(absolute)))


def runs(root: str | os.PathLike[str] = DEFAULT_ROOT) -> Table:
    """Returns the runs of all users below ``root``, the last started one first, as ``headrace runs`` prints them.

    The columns are ``name``, ``id``, ``started`` (local time), ``user``, ``own``, ``done`` of ``stages``, ``running``
    (a command on a machine works on it), ``where`` (local or a cluster), ``bytes``, ``core_hours`` and
    ``gpu_hours`` (of the work of this run alone), ``loss`` (the last validation loss, nats per target token),
    ``best_score``, ``notes`` (``tracking.notes``) and ``folder``. A run that cannot be read is left out with a warning.
    """
    folder, sizes = Path(os.path.abspath(root)), dict[Path, int]()
    rows = [facts_of(run, sizes) for run in saved_runs(folder)]
    unreadable = len(run_files(folder)) - len(rows)
    if unreadable > 0:  # a run that starts between the two listings makes it negative
        warnings.warn(f"left out: {unreadable} run.json (damaged, of another version, or not readable)", stacklevel=2)
    return Table(RUN_COLUMNS, rows)


def differences(*runs: Run | str, root: str = DEFAULT_ROOT) -> Table:
    """Returns one row for each setting that differs, and for each stage at which the runs part.

    The columns are ``kind`` (setting or stage), ``name``, and one for each run: the value of the setting as JSON, what
    is known of other data, or the address of the stage; ``–`` where the run has none. No row: the results are equal.

    Args:
        runs: runs, or their names, ids, beginnings of ids or paths; folders of scores, too.
        root: the folder in which names and ids are searched.

    Raises:
        ConfigError: when a name is unknown.
    """
    wanted = [str(run.folder / "run.json") if isinstance(run, Run) else run for run in runs]
    compared = contestants(wanted, root)
    names = [run.name for run in compared]
    of_kinds = {"setting": differing_settings(compared), "stage": differing_stages(compared)}
    rows = (
        {"kind": kind, "name": name, **dict(zip(names, cells, strict=True))}
        for kind, lines in of_kinds.items()
        for name, *cells in lines
    )
    return Table(("kind", "name", *names), rows)
