"""Prints the results of a run: the funnel, the loss, the benchmark table, a text by the model, the path of the report.

    records in                55,303
      dropped                 31,002  by c4_lines.sentences 20,100, language 5,001, …
      kept by clean           20,875
    - Better than chance, by 3 standard errors or more: held_out_sentences acc 47.3 % ± 2.4 % (chance 25.0 %).
    run:    51df9dddc8c1 (small)
    next:   headrace inspect clean --rule c4_lines.sentences --run small

The next commands are those that a user is likely to type after a run, ready to be copied. Each names the run, because
the newest run may be another one when the command is typed.
"""

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.documents.stored_documents import names
from headrace.pipeline.output.terminal import terminal
from headrace.pipeline.report.about import start_command
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.funnel import count_rows, funnel
from headrace.pipeline.report.report import Report
from headrace.pipeline.report.score_table import ScoreTable, in_short
from headrace.pipeline.report.sections import conclusions
from headrace.pipeline.report.stage_warnings import all_warnings, by_rule
from headrace.pipeline.report.training_section import FinetunedScores, held_out
from headrace.pipeline.run.planner import Run, left_out
from headrace.pipeline.run.saved_run import DEFAULT_ROOT, labels
from headrace.train.parts import WRITING

REPORT = "report.html"


def show(run: Run) -> None:
    """Prints the results of the finished stages of ``run``, and the commands that a user is likely to type next."""
    console = terminal(width=120)
    artifacts = {stage.name: Artifact(stage.folder) for stage in run.stages if stage.is_whole}
    console.print(*funnel_lines(artifacts), *(f"warning: {text}" for text in all_warnings(artifacts)), sep="\n")
    if files := left_out(run.stages):
        console.print(f"files left out: {files}")
    metrics = read_metrics(metrics_path(artifacts["weights"].folder)) if "weights" in artifacts else []
    table = ScoreTable.of(artifacts["scores"]) if "scores" in artifacts else None
    for line in losses(metrics, table):
        console.print(line)
    if table is not None:
        console.print("", scores(table), *table.notes, *in_short(table.written), sep="\n")
        console.print("", *(f"- {sentence}" for sentence in conclusions(artifacts, metrics, table)), sep="\n")
    if "finetuned" in artifacts:
        console.print("", *finetuned(FinetunedScores.of(artifacts["finetuned"])), sep="\n")
    console.print("", *identity(run), sep="\n")
    for number, command in enumerate(next_commands(run, artifacts)):
        console.print(f"{'' if number else 'next:':<8}{command}")


def identity(run: Run) -> Iterator[str]:
    """Yields the id of ``run``, with its name, and the path of its report, which a job may still have to write."""
    report, name = run.stages[-1], f" ({run.config.name})" if run.config.name else ""
    yield f"{'run:':<8}{run.id}{name}"
    yield f"{'report:':<8}{report.folder / REPORT}{'' if report.is_whole else ' (its job is the last)'}"


def funnel_lines(artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields the lines of the funnel."""
    for stage in funnel(artifacts):
        if stage.is_first:
            yield row(f"{stage.names.unit} in", stage.read)
        yield row(f"  {stage.names.dropped_title}", stage.dropped.total(), by_rule(stage.dropped))
        if not stage.is_first:
            yield row(f"  {stage.names.kept_short}", stage.kept)
    if "tokens" in artifacts:
        counts = artifacts["tokens"].counts
        yield row("tokens", counts["tokens"], f"{counts['text_bytes'] / max(counts['tokens'], 1):.2f} bytes each")


def losses(metrics: Sequence[dict[str, Any]], table: ScoreTable | None) -> Iterator[str]:
    """Yields the loss of held-out text in nats per token, and in bits per byte; nothing where it was not measured."""
    measured = held_out(metrics, table)
    if measured.loss is None:
        return
    yield f"{measured.name:<20}{decimal(measured.loss, 4):>12}  {measured.text}"
    yield f"{'bits per byte':<20}{decimal(measured.bits_per_byte, 4):>12}  {measured.text}"


def finetuned(task_scores: FinetunedScores) -> Iterator[Table | str]:
    """Yields the table of the scores of a fine-tuning, its notes, and the folder of the model."""
    view = Table(f"fine-tuned: {task_scores.task}", box=None, header_style="bold", pad_edge=False)
    for name in task_scores.table.header[1:]:
        view.add_column(name, justify="right")
    for row in task_scores.table.rows:
        view.add_row(*row)
    yield view
    yield from task_scores.notes
    yield f"fine-tuned model: {task_scores.model}"


def scores(table: ScoreTable) -> Table:
    """Returns the table of benchmarks, without their groups and without empty columns."""
    view = Table("benchmark", "metric", box=None, header_style="bold", pad_edge=False)
    shown = table.columns(table.rows)
    for column in shown:
        view.add_column(column, justify="right")
    for line in table.rows:
        view.add_row(line.benchmark.name, line.metric.name, *(line.cells[column] for column in shown))
    return view


def row(label: str, number: int, note: str = "") -> str:
    return f"{label:<20}{number:>12,}  {note}".rstrip()


def next_commands(run: Run, artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields two or three commands about ``run``, whose finished ``artifacts`` are given by stage."""
    root = [f"root={run.config.root}"] if run.config.root != DEFAULT_ROOT else []
    of_run = ["--run", _label(run), *root]
    if "finetuned" in artifacts:
        yield shlex.join(["headrace", "export", _label(run), "--to", "fine_tuned_model", *root])
    if "weights" in artifacts and run.config.model.stack in WRITING:
        yield shlex.join(["headrace", "generate", "--prompt", "The", *of_run])
    if "clean" in artifacts:
        rules = count_rows(artifacts["clean"].counts, "dropped:", 0)
        if rules:
            yield shlex.join(["headrace", "inspect", "clean", "--rule", rules[0].name, *of_run])
        for document in _first_document(artifacts["clean"]):
            yield shlex.join(["headrace", "why", document, *of_run])
    if run.config.until != Report.name:
        others = [override for override in run.overrides if not override.startswith("until=")]
        yield start_command(others, run.config_dir)


def _label(run: Run) -> str:
    """Returns the name of ``run`` if no other run below its root has it, else its id."""
    name = run.config.name
    return name if name and list(labels(Path(run.config.root))).count(name) == 1 else run.id


def _first_document(clean: Artifact) -> list[str]:
    """Returns the id of the first document that cleaning kept; nothing when it kept none in its first shard.

    The shard is not verified: only its beginning is read.
    """
    first = [clean.folder / name for name in names(clean, "documents")[:1]]
    return [document.id for path in first for document in itertools.islice(read_documents(path), 1)]
