"""``headrace runs``: the runs below the root, the last started one first.

headrace runs                      those of all users below the default root
headrace runs root=/data/runs      those below another root
headrace runs --json               one JSON object per line, with numbers as numbers

    name    id            started           user   stages  where  size    spent        validation loss  best score
    small   0b5c2f7d9e11  2026-11-22 14:10  ann *  11/11   local  1.2 GB  0.31 core-h  3.214            agreement …

``*`` marks your own runs. ``running`` after the stages: a command on a machine works on it now; ``headrace status``
asks the cluster, too. The size is that of results and checkpoints, without logs. Artifacts that runs share are counted
in the size of each (``headrace du`` lists them once, and counts every file); ``spent`` has the work of this run alone,
killed attempts too (docs/report.md#what-a-run-has-spent). A column ``notes`` follows where a run has
``tracking.notes``. A line on stderr counts the artifacts that no run uses and that you may remove.

The validation loss is that of the rows that training validates on. That of all held-out documents is called held-out
loss; the report and the end of a run give it.

The best score is the accuracy that is furthest above chance, by (value - chance) / (1 - chance): 50 % of four
choices is better than 55 % of two. ``damaged`` in its place: the metrics or the scores differ from their checksum, and
``headrace compare`` names the file.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.output.terminal import show_rows
from headrace.pipeline.report.accounts import amount_text
from headrace.pipeline.report.formatting import byte_size, decimal, visible
from headrace.pipeline.run.run_results import facts_of
from headrace.pipeline.run.saved_run import run_files, saved_runs
from headrace.pipeline.run.storage import unused

COLUMNS = (
    *("name", "id", "started", "user", "stages", "where", "size", "spent"),
    *("validation loss", "best score", "notes"),
)
NOTES_CHARACTERS = 60
"""The most characters of the notes that the table has; ``--json`` has all."""


@command
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def runs(overrides: Sequence[str], as_json: bool) -> None:
    """Prints the runs below the root: name, id, date, user, stages, size, cost, validation loss and best score."""
    sizes: dict[Path, int] = {}
    root = Path(root_of(overrides))
    rows = [facts_of(run, sizes) for run in saved_runs(root)]
    if unreadable := len(run_files(root)) - len(rows):
        print(f"left out: {unreadable} run.json (damaged, of another version, or not readable)", file=sys.stderr)
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return
    columns = len(COLUMNS) if any(row["notes"] for row in rows) else len(COLUMNS) - 1
    show_rows(COLUMNS[:columns], [cells(row)[:columns] for row in rows])
    if line := removable(root):
        print(line, file=sys.stderr)


def removable(root: Path) -> str:
    """Returns the line about artifacts below ``root`` that no run uses; empty without any, or when that is unknown."""
    try:
        stored = [candidate.stored for candidate in unused(root) if not candidate.kept_because]
    except ArtifactError:  # something of another user cannot be read
        return ""
    size = byte_size(sum(artifact.bytes for artifact in stored))
    return f"{len(stored):,} artifacts ({size}) are used by no run: headrace du --unused lists them" if stored else ""


def spent_text(row: dict[str, Any]) -> str:
    """Returns the hours of a run: ``12.3 core-h, 4.5 GPU-h``."""
    hours = {"core-h": amount_text(row["core_hours"]), "GPU-h": amount_text(row["gpu_hours"])}
    return ", ".join(f"{text} {unit}" for unit, text in hours.items() if text)


def cells(row: dict[str, Any]) -> list[str]:
    """Returns the texts of the columns."""
    loss = "" if row["loss"] is None else decimal(row["loss"], 3)
    return [
        ", ".join(row["names"]),
        row["id"],
        row["started"],
        f"{row['user']} *" if row["own"] else row["user"],
        f"{row['done']}/{row['stages']}{' running' * row['running']}",
        row["where"],
        byte_size(row["bytes"]),
        spent_text(row),
        loss,
        row["best_score"],
        visible(" ".join(row["notes"].split()), NOTES_CHARACTERS),
    ]
