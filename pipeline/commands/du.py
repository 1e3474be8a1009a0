"""``headrace du``: the space that runs take on the disk, by stage and by run.

headrace du                        all stages and runs below the root
headrace du small                  the stages of one run
headrace du --json                 one JSON object per artifact

    stage     artifacts  size            run    id            size    alone   shared
    clean             2  1.2 GB          small  0b5c2f7d9e11  1.5 GB  0.3 GB  1.2 GB

``alone`` is what only this run uses, ``shared`` what others use, too. ``headrace gc`` lists what no run uses.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.table import Table

from headrace.pipeline.command_line.choice import chosen_run, root_of
from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.output.terminal import show_table
from headrace.pipeline.report.formatting import byte_size
from headrace.pipeline.run.saved_run import SavedRun, saved_runs
from headrace.pipeline.run.storage import Stored, artifacts, unreadable_stages, users_of

Users = Mapping[str, Sequence[SavedRun]]
"""Address → the runs that use the artifact."""


@command
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per artifact.")
def du(overrides: Sequence[str], run: str, as_json: bool) -> None:
    """Prints the size of stages and runs on the disk, and which artifacts runs share."""
    chosen = chosen_run(overrides, run) if run else None
    root = chosen.root if chosen else Path(root_of(overrides))
    users = users_of(root)
    stored = artifacts(root) if chosen is None else [Stored(stage.folder) for stage in chosen.all_steps]
    stored = [artifact for artifact in stored if artifact.exists]
    for folder in unreadable_stages(root):
        print(f"left out: {folder} (not readable)", file=sys.stderr)
    if as_json:
        for artifact in stored:
            runs = [user.id for user in users.get(artifact.address, ())]
            row = {
                "stage": artifact.stage,
                "address": artifact.address,
                "bytes": artifact.bytes,
                "user": artifact.user,
                "runs": runs,
            }
            print(json.dumps(row))
    elif chosen is not None:
        show_table(of_run(chosen, stored, users))
    else:
        show_table(by_stage(stored))
        print()
        show_table(by_run(list(saved_runs(root)), stored, users))


def of_run(run: SavedRun, stored: Sequence[Stored], users: Users) -> Table:
    """Returns one row per artifact of ``run``, with the other runs that use it."""
    table = _table("stage", "size", "shared with", "folder")
    for artifact in stored:
        others = [user.label for user in users.get(artifact.address, ()) if user.id != run.id]
        table.add_row(artifact.stage, byte_size(artifact.bytes), ", ".join(others), str(artifact.folder))
    table.add_row("all", byte_size(sum(artifact.bytes for artifact in stored)), "", str(run.file.parent), style="bold")
    return table


def by_stage(stored: Sequence[Stored]) -> Table:
    """Returns one row per stage."""
    stages: dict[str, list[Stored]] = defaultdict(list)
    for artifact in stored:
        stages[artifact.stage].append(artifact)
    table = _table("stage", "artifacts", "size")
    for stage, of_stage in sorted(stages.items(), key=lambda item: -sum(artifact.bytes for artifact in item[1])):
        table.add_row(stage, f"{len(of_stage):,}", byte_size(sum(artifact.bytes for artifact in of_stage)))
    table.add_row("all", f"{len(stored):,}", byte_size(sum(artifact.bytes for artifact in stored)), style="bold")
    return table


def by_run(runs: Sequence[SavedRun], stored: Sequence[Stored], users: Users) -> Table:
    """Returns one row per run, and one for the artifacts that no run uses."""
    table = _table("run", "id", "size", "alone", "shared")
    sizes = {artifact.address: artifact.bytes for artifact in stored}
    for run in runs:
        own = [(sizes.get(stage.address, 0), len(users[stage.address]) > 1) for stage in run.all_steps]
        alone, shared = (sum(size for size, is_shared in own if is_shared == which) for which in (False, True))
        table.add_row(run.name, run.id, *map(byte_size, (alone + shared, alone, shared)))
    rest = sum(artifact.bytes for artifact in stored if artifact.address not in users)
    table.add_row("no run", "", byte_size(rest), "", "")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in ("size", "alone", "shared", "artifacts") else "left")
    return table
