"""``headrace evaluate``: benchmarks for any causal language model in Hugging Face's format; no run is needed.

headrace evaluate path/to/gpt2 evaluation=standard evaluation.data=path/to/benchmarks
headrace evaluate runs/weights/0b5c…/hf                         a run's own weights, on other benchmarks
headrace evaluate path/to/gpt2 --only agreement                 some benchmarks, or one of your own alone
headrace evaluate path/to/gpt2 evaluation=few_shot --page scores.html
                                                                scores by the number of worked examples, on a page
headrace evaluate last mean                                     models side by side, with tests of the differences

The result is an artifact like any other, ``<root>/folder_scores/<address>/``. A second call prints it and computes
nothing. Several models are compared with the first one, as ``headrace compare`` does it.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import Existing, NewFile, command
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.experiments import comparison
from headrace.pipeline.experiments.comparison import Contestant, is_double
from headrace.pipeline.output.terminal import terminal
from headrace.pipeline.report import html_page
from headrace.pipeline.report.questions import in_short
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.run import summary
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.run_execution import execute
from headrace.train.evaluation.settings import Evaluation
from headrace.train.scores import FolderScores


@command
@click.argument("folder", metavar="FOLDER", type=Existing())
@click.argument("others", metavar="[FOLDER ...]", nargs=-1, type=Existing())
@click.option("--limit", metavar="N", default="", help="Score the first N items of each benchmark.")
@click.option("--only", metavar="NAMES", default="", help="Score these benchmarks only, separated by commas.")
@click.option("--page", metavar="FILE", type=NewFile(), help="Write a page with figures and answers, too.")
def evaluate(
    overrides: Sequence[str], folder: str, others: Sequence[str], limit: str, only: str, page: Path | None
) -> None:
    """Prints the scores of models in folders of Hugging Face's format, on the benchmarks of evaluation=…."""
    config = config_of(overrides)
    evaluation = config.evaluation
    if limit:
        evaluation = dataclasses.replace(evaluation, limit=value_of(Positive, limit, "--limit"))
    evaluation = evaluation.expanded()
    if only:
        evaluation = evaluation.only({name.strip() for name in only.split(",")})
    show(dataclasses.replace(config, evaluation=without_run(evaluation)), (folder, *others), page)


def without_run(asked: Evaluation) -> Evaluation:
    """Returns the benchmarks that need no run; names the others on stderr.

    Raises:
        ConfigError: when all need one.
    """
    evaluation = asked.without_run()
    if skipped := sorted(asked.benchmarks.keys() - evaluation.benchmarks.keys()):
        print(f"skipped: these need a run's held-out documents: {', '.join(skipped)}", file=sys.stderr)
    return evaluation


def show(config: RunConfig, folders: Sequence[str], page: Path | None) -> None:
    """Scores the models in ``folders`` and prints the scores of one, or the differences of several; also to ``page``.

    Raises:
        ConfigError: when a folder holds no model; before any is scored.
    """
    stages = {folder: planned(config, folder) for folder in folders}
    scores = {folder: scored(config, stage) for folder, stage in stages.items()}
    if len(scores) == 1:
        show_one(*scores.popitem(), page)
    else:
        names = [Path(folder).name or folder for folder in scores]
        names = list(scores) if is_double(names) else names
        runs = [Contestant.of(name, artifact) for name, artifact in zip(names, scores.values(), strict=True)]
        comparison.show(runs, page)


def planned(config: RunConfig, folder: str) -> PlannedStage:
    """Plans the stage that scores ``folder``.

    Raises:
        ConfigError: when it holds no model.
    """
    return PlannedStage.of(FolderScores(evaluation=config.evaluation, folder=folder), Path(config.root), {}, {})


def scored(config: RunConfig, stage: PlannedStage) -> Artifact:
    """Returns the scores of ``stage``; computes them unless they exist."""
    if stage.is_whole:
        print(f"done before: {stage.folder}", file=sys.stderr)
        return Artifact(stage.folder)
    return execute(stage, config)


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
