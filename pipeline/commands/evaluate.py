"""``headrace evaluate``: benchmarks for any causal language model in Hugging Face's format; no run is needed.

headrace evaluate path/to/gpt2 evaluation=standard evaluation.data=path/to/benchmarks
headrace evaluate runs/weights/0b5c…/hf                         a run's own weights, on other benchmarks
headrace evaluate path/to/gpt2 --only agreement                 some benchmarks, or one of your own alone
headrace evaluate path/to/gpt2 evaluation=few_shot --page scores.html
                                                                scores by the number of worked examples, on a page
headrace evaluate last mean                                     models side by side, with tests of the differences

headrace evaluate small --checkpoints                           the checkpoints of a run that are there now
headrace evaluate --checkpoints --watch evaluation=standard     those of the newest run, as they appear
headrace evaluate --checkpoints --watch ranks=2                 … by two ranks

The result is an artifact like any other, ``<root>/folder_scores/<address>/``, of a checkpoint
``<root>/checkpoint_scores/<address>/``: nothing is scored twice, and a scoring that was killed resumes. Several models
are compared with the first one, as ``headrace compare`` does it. A training whose checkpoints are scored is not
touched; the next report has their curves.
"""

import dataclasses
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import Existing, NewFile, command
from headrace.pipeline.command_line.request import config_of, run_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.experiments import comparison
from headrace.pipeline.experiments.comparison import Contestant, is_double
from headrace.pipeline.output.terminal import terminal
from headrace.pipeline.report import html_page
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.score_history import Point, checkpoint_points
from headrace.pipeline.report.score_table import ScoreTable, in_short
from headrace.pipeline.run import summary
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_execution import execute
from headrace.pipeline.run.run_progress import Following
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints, step_of
from headrace.train.evaluation.score_rows import Metric
from headrace.train.scores import CheckpointScores, FolderScores

POLL_SECONDS = 2.0


@command
@click.argument("names", metavar="FOLDER...|[RUN]", nargs=-1, type=Existing())
@click.option("--checkpoints", "of_run", is_flag=True, help="Score the checkpoints of a run.")
@click.option("--watch", is_flag=True, help="With --checkpoints: also those to come, until the training is done.")
@click.option("--limit", metavar="N", default="", help="Score the first N items of each benchmark.")
@click.option("--only", metavar="NAMES", default="", help="Score these benchmarks only, separated by commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures and answers, too.")
def evaluate(
    overrides: Sequence[str],
    names: Sequence[str],
    of_run: bool,
    watch: bool,
    limit: str,
    only: str,
    page: Path | None,
) -> None:
    """Prints the scores of models in folders of Hugging Face's format, or of a run's checkpoints."""
    if watch and not of_run:
        raise ConfigError("--watch", "is given without --checkpoints", "give both; status --watch follows a run")
    if of_run and (len(names) > 1 or page):
        raise ConfigError("--checkpoints", "is for one run, and prints lines", "name one run, without --page")
    if not of_run and not names:
        raise ConfigError("command line", "evaluate needs FOLDER", "give folders of models, or --checkpoints")
    run = run_of(overrides, "".join(names), may_change=("evaluation", "ranks")) if of_run else None
    config = run.config if run else config_of(overrides)
    evaluation = config.evaluation
    if limit:
        evaluation = dataclasses.replace(evaluation, limit=value_of(Positive, limit, "--limit"))
    evaluation = evaluation.expanded()
    if only:
        evaluation = evaluation.only({name.strip() for name in only.split(",")})
    if run:
        show_checkpoints(dataclasses.replace(run, config=dataclasses.replace(config, evaluation=evaluation)), watch)
    else:
        show(dataclasses.replace(config, evaluation=evaluation), names, page)


def show(config: RunConfig, folders: Sequence[str], page: Path | None) -> None:
    """Scores the models in ``folders`` and prints the scores of one, or the differences of several; also to ``page``.

    Raises:
        ConfigError: when a folder holds no model, or all benchmarks need a run; before any is scored.
    """
    evaluation = config.evaluation.without_run()
    if skipped := sorted(config.evaluation.benchmarks.keys() - evaluation.benchmarks.keys()):
        print(f"skipped: these need a run's held-out documents: {', '.join(skipped)}", file=sys.stderr)
    root, scores = Path(config.root), dict[str, Artifact]()
    stages = {name: PlannedStage.of(FolderScores(evaluation=evaluation, folder=name), root, {}, {}) for name in folders}
    for name, stage in stages.items():
        if stage.is_whole:
            print(f"done before: {stage.folder}", file=sys.stderr)
        else:
            execute(stage, config)
        scores[name] = Artifact(stage.folder)
    if len(scores) == 1:
        show_one(*scores.popitem(), page)
    else:
        names = [Path(folder).name or folder for folder in scores]
        names = list(scores) if is_double(names) else names
        runs = [Contestant.of(name, artifact) for name, artifact in zip(names, scores.values(), strict=True)]
        comparison.show(runs, page)


def show_one(folder: str, artifact: Artifact, page: Path | None) -> None:
    """Prints the score table of ``folder``, and its path; writes both and the figures to ``page``."""
    console = terminal(width=120)
    table = ScoreTable.of(artifact)
    console.print(summary.scores(table), *table.notes, *in_short(table.written), sep="\n")
    console.print(f"\nscores: {artifact.path('scores.md')}")
    if page is not None:
        write_file(page, scores_page(folder, artifact.folder.name, table))
        print(f"page: {page}")


def scores_page(folder: str, address: str, scores: ScoreTable) -> str:
    """Returns the page of the model in ``folder``, whose ``scores`` are the artifact with this ``address``."""
    values = {"model": Path(folder).resolve().name, "folder": folder, "address": address, "scores": scores}
    return html_page.render("model_scores.html", values)


def show_checkpoints(run: Run, watch: bool) -> None:
    """Scores checkpoints of the training of ``run`` and prints a line for each: those that are there now, with
    ``watch`` all until the training is done.

    Raises:
        ConfigError: when the run ends before the training.
        TaskError: when the scoring of a checkpoint failed; running again resumes it.
    """
    training = next((stage for stage in run.stages if stage.name == "weights"), None)
    if training is None:
        raise ConfigError("until", "the run ends before the training", "name a run that trains")
    print(f"checkpoints of {training.folder / CHECKPOINTS}", file=sys.stderr)
    scored = 0
    for path in appearing(training, run.run_json.parent, watch):
        artifact = scored_checkpoint(run, training, path)
        if artifact is not None:
            print(line(list(checkpoint_points(artifact))), flush=True)
            scored += 1
    print(f"{scored} checkpoints scored; a report that is made from now on shows their curves", file=sys.stderr)


def appearing(training: PlannedStage, folder: Path, watch: bool) -> Iterator[Path]:
    """Yields the checkpoints of ``training``, the oldest first: it is the next to be removed.

    Raises:
        HeadraceError: when no job and no command of the run works on the training any more.
    """
    seen, work = set[Path](), Following(training, folder)
    while True:
        is_over = not watch or training.is_whole  # before the look: the last checkpoint is older than the manifest
        unseen = [path for path in checkpoints(training.folder / CHECKPOINTS).values() if path not in seen]
        for path in unseen if is_over else unseen[:1]:
            seen.add(path)
            yield path
        if is_over:
            return
        if not unseen and not work.is_over():
            time.sleep(POLL_SECONDS)


def scored_checkpoint(run: Run, training: PlannedStage, path: Path) -> Artifact | None:
    """Returns the scores of the checkpoint at ``path``; prints why and returns None when it cannot be read."""
    stage = of_checkpoint(run, training, path)
    if stage.is_whole:
        return Artifact(stage.folder)
    try:
        return execute(stage, run.config)
    except ArtifactError as error:
        if Path(error.where) != path and path not in Path(error.where).parents:
            raise
        print(f"{error.where}: {error.problem} (passed over)", file=sys.stderr)
        shutil.rmtree(stage.folder)
        return None


def of_checkpoint(run: Run, training: PlannedStage, path: Path) -> PlannedStage:
    """Returns the stage that scores the checkpoint at ``path`` of ``training``."""
    stage = CheckpointScores(
        evaluation=run.config.evaluation,
        training=training.address,
        step=step_of(path),
        model=run.config.trained_model,
        objective=run.config.objective,
        checkpoint=str(path),
    )
    inputs = {name: training.inputs[name] for name in stage.inputs}
    return PlannedStage.of(stage, Path(run.config.root), inputs, {})


def line(points: list[Point]) -> str:
    """Returns ``step 500  agreement acc 51.9 % ± 4.9 %  piqa acc …``: the first metric of each benchmark."""
    firsts: dict[str, Point] = {}
    for point in points:
        if not point.metric.group:
            firsts.setdefault(point.benchmark, point)
    shown = [f"{point.benchmark} {point.metric.name} {_number(point.metric)}" for point in firsts.values()]
    return "  ".join([f"step {points[0].step:,}" if points else "no items", *shown])


def _number(metric: Metric) -> str:
    """Returns the value with its standard error, which a perplexity has not on both sides alike."""
    kind, digits = metric.kind, 1 if metric.kind.unit else 4
    error = ""
    if metric.standard_error is not None and not kind.is_exponential:
        error = f" ± {decimal(kind.scale * metric.standard_error, digits)}{kind.unit}"
    return f"{decimal(kind.scale * metric.value, digits)}{kind.unit}{error}"
