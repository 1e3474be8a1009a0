"""One model fine-tuned on each task of GLUE or SuperGLUE, and the score of the board.

python -m headrace_courses.board glue glue_data experiment=bert_demo finetune.optimizer.learning_rate=3e-4
python -m headrace_courses.board glue glue_data finetune.folder=models/bert 'finetune.seeds=[1,2,3]' --json glue.json
python -m headrace_courses.board superglue superglue_data finetune.folder=models/t5 --text --task cb:finetune.epochs=10
python -m headrace_courses.board glue glue_data --show experiment=bert_demo     what is finished; starts nothing

    FOLDER/CoLA/train.tsv, …   ── one run for each task, until ``finetuned`` ──> metrics of validation ── mean ──> score

FOLDER has a folder for each task, as published: CoLA/train.tsv, CoLA/dev.tsv, MNLI/dev_matched.tsv, or
BoolQ/train.jsonl, BoolQ/val.jsonl. Each task is a run named NAME-TASK: the same command goes on after an interruption.
Tasks without files are left out, and then the board has no score. The score is the mean over tasks of the mean of
their metrics. AX (diagnostic-full.tsv), AX-b and AX-g are scored where their files are there. ``--task cola:KEY=VALUE``
sets something for one task.
"""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.overrides import as_overrides, key_of, replaced
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.experiments.arms import all_carried_out, all_checked, carried_out, state_of
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.run.planner import Run
from headrace.pipeline.tracking.wandb_run import grouped
from headrace.train.finetune.seed_files import SeedScores
from headrace.train.finetuned import SCORES, Finetuned
from headrace_courses.board_tasks import (
    ADVERSARIAL,
    METRICS,
    BoardTask,
    FurtherFile,
    first_file,
    mean_score,
    tasks_of,
)
from headrace_courses.program import run

LAST = Finetuned.name
OWN_SETTINGS = ("finetune", "finetune.train", "finetune.validation", "finetune.test", "until")
"""The settings that the command sets for each task."""


@dataclasses.dataclass(frozen=True)
class PlannedTask:
    """A task of the board with the settings of its run."""

    task: BoardTask
    overrides: Sequence[str]
    values: Mapping[str, Any]
    further: Mapping[FurtherFile, Path]

    def __str__(self) -> str:
        return self.task.name


@dataclasses.dataclass(frozen=True)
class TaskResult:
    """The outcome of the run of a task."""

    name: str
    state: str
    metrics: Mapping[str, SeedScores] = dataclasses.field(default_factory=dict)
    """The metrics of the score; with the name of a further file before that of the metric."""
    diagnostics: Mapping[str, SeedScores] = dataclasses.field(default_factory=dict)

    @property
    def score(self) -> float | None:
        """The mean of the metrics; of MNLI, both files count alike. None before the end of the run."""
        return statistics.fmean(metric.mean for metric in self.metrics.values()) if self.metrics else None


def show_board(
    board: str,
    folder: Path,
    overrides: Sequence[str],
    of_tasks: Sequence[str],
    as_text: bool,
    starts: bool,
    json_file: Path | None,
) -> None:
    """Fine-tunes a model on each task of ``board`` whose files are in ``folder``, and prints the scores.

    Args:
        board: glue or superglue.
        folder: the folder with a folder for each task.
        overrides: settings of all runs.
        of_tasks: settings of single tasks, each as ``TASK:KEY=VALUE``.
        as_text: whether tasks are learned as text, in T5's form.
        starts: whether missing runs are started.
        json_file: the JSON file to write.

    Raises:
        ConfigError: when a setting is wrong or no task has files; nothing was started.
        HeadraceError: the first error of a run, after the results.
    """
    tasks = tasks_of(board)
    plans, absent = planned_tasks(board, tasks, folder, overrides, of_tasks, as_text)
    if starts:
        all_checked((plan.task.name, plan.values, plan.overrides) for plan in plans)
    with grouped(board):
        results, errors = all_carried_out(
            "board", plans, starts, lambda plan: _result(plan, starts), lambda plan, state: TaskResult(str(plan), state)
        )
    results = [*results, *(TaskResult(name, reason) for name, reason in absent.items())]
    order = [task.name for task in tasks]
    results.sort(key=lambda result: order.index(result.name))
    show_lines(["task", "metrics of validation", "score", "state"], [_cells(result) for result in results])
    print("", *_lines(board, results), sep="\n")
    write_files(json_file, as_values(board, results), None, dict)
    if errors:
        raise errors[0]


def planned_tasks(
    board: str,
    tasks: Sequence[BoardTask],
    folder: Path,
    overrides: Sequence[str],
    of_tasks: Sequence[str] = (),
    as_text: bool = False,
) -> tuple[list[PlannedTask], dict[str, str]]:
    """Returns the tasks that can run, and the reasons of the others by task."""
    keys = {key_of(override): override for override in overrides}
    if own := [key for key in OWN_SETTINGS if key in keys]:
        problem = f"is set for each task of the board, and {keys[own[0]]} would replace it"
        raise ConfigError(own[0], problem, "leave it out")
    by_task = _by_task(of_tasks, [task.name for task in tasks])
    name = next((override.partition("=")[2] for override in overrides if key_of(override) == "name"), board)
    plans, absent = list[PlannedTask](), dict[str, str]()
    for task in tasks:
        files = first_file(folder, task.train), first_file(folder, task.validation)
        if None in files:
            names = (task.validation if files[0] else task.train)[0]
            absent[task.name] = f"there is no {names}"
            continue
        candidates = {further: first_file(folder, further.files) for further in task.further}
        further = {file: path for file, path in candidates.items() if path is not None}
        own = as_overrides(
            {
                "finetune": task.option(as_text),
                "finetune.train": [str(files[0])],
                "finetune.validation": [str(files[1])],
                "finetune.test": [str(path) for path in further.values()],
                "name": f"{name}-{task.name}",
                "until": LAST,
            }
        )
        merged = replaced(replaced(overrides, own), by_task.get(task.name, ()))
        plans.append(PlannedTask(task, merged, compose(merged), further))
    if not plans:
        problem = f"has the files of no task of {board}: {'; '.join(absent.values())}"
        raise ConfigError(str(folder), problem, "give the folder with a folder for each task")
    return plans, absent


def _by_task(typed: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    overrides_of: dict[str, list[str]] = {}
    for item in typed:
        task, colon, override = item.partition(":")
        if not colon or "=" not in override:
            raise ConfigError("--task", f"{item!r} is not TASK:KEY=VALUE", "name the task and its setting")
        if task not in names:
            raise ConfigError("--task", f"unknown task {task!r}", suggestion(task, names))
        overrides_of.setdefault(task, []).append(override)
    return overrides_of


def _result(plan: PlannedTask, starts: bool) -> TaskResult:
    run = carried_out(plan.values, plan.overrides, starts, LAST)
    stage = next(stage for stage in run.stages if stage.name == LAST)
    if not stage.is_whole:
        return TaskResult(plan.task.name, state_of(run, LAST))
    artifact = Artifact(stage.folder)
    scores = read_json(artifact.path(SCORES))
    metrics = {name: SeedScores(name, tuple(row["values"])) for name, row in scores["scores"].items()}
    diagnostics = dict[str, SeedScores]()
    for further, path in plan.further.items():
        of_file = further_scores(run, artifact, further, path, [entry["seed"] for entry in scores["seeds"]])
        (metrics if further.counts else diagnostics).update(of_file)
    return TaskResult(plan.task.name, "done", metrics, diagnostics)


def further_scores(
    run: Run, artifact: Artifact, further: FurtherFile, path: Path, seeds: Sequence[int]
) -> dict[str, SeedScores]:
    """Returns the metrics of a labelled file, from the predictions of the finished run of each seed."""
    finetune = run.config.finetune
    assert finetune is not None
    examples, _ = finetune.task.read([str(path)])
    values = dict[str, list[float]]()
    for seed in seeds:
        lines = artifact.path(f"seed_{seed}/test_predictions.jsonl").read_bytes().splitlines()
        predicted = {row["id"]: str(row["prediction"]) for row in map(orjson.loads, lines)}
        given = [predicted[example.id] for example in examples]
        for name in further.metrics:
            values.setdefault(f"{further.name} {name}", []).append(METRICS[name](examples, given))
    return {label: SeedScores(label, tuple(of_seeds)) for label, of_seeds in values.items()}


def board_score(results: Sequence[TaskResult], without: str = "") -> float | None:
    """Returns the mean over all tasks but ``without``; None where one has no score."""
    scores = [result.score for result in results if result.name != without]
    known = [[score] for score in scores if score is not None]
    return mean_score(known) if len(known) == len(scores) else None


def has_adversarial(results: Sequence[TaskResult]) -> bool:
    """Whether the board has the task that some publications leave out."""
    return any(result.name == ADVERSARIAL for result in results)


def _percent(score: SeedScores) -> str:
    width = "" if score.half_width is None else f" ± {decimal(100 * score.half_width, 1)}"
    return f"{score.metric} {decimal(100 * score.mean, 1)}{width}"


def _cells(result: TaskResult) -> list[str]:
    score = "–" if result.score is None else decimal(100 * result.score, 1)
    return [result.name, ", ".join(map(_percent, result.metrics.values())) or "–", score, result.state]


def _lines(board: str, results: Sequence[TaskResult]) -> Iterator[str]:
    for result in results:
        if result.diagnostics:
            yield f"diagnostics, by the model of {result.name}: {', '.join(map(_percent, result.diagnostics.values()))}"
    done = sum(result.score is not None for result in results)
    score = board_score(results)
    if score is None:
        yield f"{board}: no score, because {done} of its {len(results)} tasks have one"
    else:
        yield f"{board}: {decimal(100 * score, 1)}, the mean over {done} tasks of the mean of their metrics"
    if has_adversarial(results) and (rest := board_score(results, ADVERSARIAL)) is not None:
        yield f"{board} without {ADVERSARIAL}: {decimal(100 * rest, 1)}"
    yield "These are scores of validation, by which checkpoints were chosen; the board's own are those of hidden tests."


def as_values(board: str, results: Sequence[TaskResult]) -> dict[str, Any]:
    """Returns the results as plain values."""
    return {
        "board": board,
        "score": board_score(results),
        **({f"score_without_{ADVERSARIAL}": board_score(results, ADVERSARIAL)} if has_adversarial(results) else {}),
        "tasks": {
            result.name: {
                "state": result.state,
                "score": result.score,
                "metrics": {name: metric.row() for name, metric in result.metrics.items()},
                "diagnostics": {name: metric.row() for name, metric in result.diagnostics.items()},
            }
            for result in results
        },
    }


@command
@click.argument("name", metavar="BOARD")
@click.argument("folder", metavar="FOLDER")
@click.option("--text", is_flag=True, help="Learn the tasks as text, in T5's form.")
@click.option("--task", metavar="TASK:KEY=VALUE", multiple=True, help="An override of one task; may be given often.")
@click.option("--show", is_flag=True, help="Start nothing; show what is finished.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the results as JSON.")
def board(
    overrides: Sequence[str],
    name: str,
    folder: str,
    text: bool,
    task: Sequence[str],
    show: bool,
    json_file: Path | None,
) -> None:
    """Fine-tunes a model on each task of glue or superglue, and prints the table of the board."""
    show_board(name, Path(folder), overrides, task, text, starts=not show, json_file=json_file)


if __name__ == "__main__":
    run(board)
