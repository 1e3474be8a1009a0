"""``headrace du``: the space that runs take on the disk, by stage and by run, and what no run uses.

headrace du                        all stages and runs below the root
headrace du small                  the stages of one run
headrace du --json                 one JSON object per artifact
headrace du --unused               artifacts that no run uses, whose they are, and what was made from them
headrace du --unused --delete      removes them

    stage     artifacts  size            run    id            size    alone   shared
    clean             2  1.2 GB          small  0b5c2f7d9e11  1.5 GB  0.3 GB  1.2 GB

``alone`` is what only this run uses, ``shared`` what others use, too. A run uses the artifacts of its stages, all that
these were made from, and those that its settings name (mixtures, older runs, initial weights), for every run.json below
the root, of all users. To give up a run, remove its folder in ``<root>/runs``. Artifacts of other users, artifacts that
a process works on, symbolic links, and the results of ``headrace evaluate`` are never removed. A removal that was
killed is finished by the next one.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import chosen_run, root_of
from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.output.terminal import show_rows
from headrace.pipeline.report.formatting import byte_size
from headrace.pipeline.run.saved_run import SavedRun, saved_runs
from headrace.pipeline.run.storage import (
    Stored,
    Unused,
    artifacts,
    leftovers,
    remove,
    remove_ended_readers,
    remove_leftover,
    unreadable_stages,
    unused,
    users_of,
)

Users = Mapping[str, Sequence[SavedRun]]
"""Address → the runs that use the artifact."""


@command
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per artifact.")
@click.option("--unused", "only_unused", is_flag=True, help="List the artifacts that no run uses.")
@click.option("--delete", is_flag=True, help="With --unused: remove what is listed as removable.")
def du(overrides: Sequence[str], run: str, as_json: bool, only_unused: bool, delete: bool) -> None:
    """Prints the size of stages and runs on the disk, and what they share; lists and removes what no run uses."""
    if delete and not only_unused:
        raise ConfigError("--delete", "is given without --unused", "give both, or remove the folder of a run")
    if only_unused and (run or as_json):
        raise ConfigError("--unused", "is of all runs, as a table", "leave out the run and --json")
    if only_unused:
        show_unused(Path(root_of(overrides)), delete)
        return
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
            row = {name: getattr(artifact, name) for name in ("stage", "address", "bytes", "user")}
            print(json.dumps({**row, "runs": runs}))
    elif chosen is not None:
        show_rows(("stage", "size", "shared with", "folder"), list(of_run(chosen, stored, users)))
    else:
        show_rows(("stage", "artifacts", "size"), list(by_stage(stored)))
        print()
        show_rows(("run", "id", "size", "alone", "shared"), list(by_run(list(saved_runs(root)), stored, users)))


def size_of(stored: Sequence[Stored]) -> str:
    """Returns the size of all artifacts ``stored`` together."""
    return byte_size(sum(artifact.bytes for artifact in stored))


def of_run(run: SavedRun, stored: Sequence[Stored], users: Users) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each artifact of ``run``, with the other runs that use it."""
    for artifact in stored:
        others = [user.label for user in users.get(artifact.address, ()) if user.id != run.id]
        yield artifact.stage, size_of([artifact]), ", ".join(others), str(artifact.folder)
    yield "all", size_of(stored), "", str(run.file.parent)


def by_stage(stored: Sequence[Stored]) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each stage, the largest first."""
    stages: dict[str, list[Stored]] = defaultdict(list)
    for artifact in stored:
        stages[artifact.stage].append(artifact)
    ordered = sorted(stages.items(), key=lambda item: -sum(artifact.bytes for artifact in item[1]))
    for stage, of_stage in (*ordered, ("all", stored)):
        yield stage, f"{len(of_stage):,}", size_of(of_stage)


def by_run(runs: Sequence[SavedRun], stored: Sequence[Stored], users: Users) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each run, and of the artifacts that no run uses."""
    sizes = {artifact.address: artifact.bytes for artifact in stored}
    for run in runs:
        used = [(sizes.get(stage.address, 0), len(users[stage.address]) > 1) for stage in run.all_steps]
        alone, shared = (sum(size for size, is_shared in used if is_shared == which) for which in (False, True))
        yield run.name, run.id, *map(byte_size, (alone + shared, alone, shared))
    yield "no run", "", size_of([artifact for artifact in stored if artifact.address not in users]), "", ""


def show_unused(root: Path, delete: bool) -> None:
    """Prints the artifacts below ``root`` that no run uses; removes those that may be removed with ``delete``."""
    unneeded, left = unused(root), leftovers(root)
    if not unneeded and not left:
        print(f"every artifact below {root} is used by a run")
        return
    show_rows(("artifact", "size", "user", "made from it", ""), [*map(cells_of, unneeded)])
    removable = [candidate.stored for candidate in unneeded if not candidate.kept_because]
    if not delete:
        print(f"to remove: {amount(removable, left)}; nothing was removed: give --delete")
        return
    removed, others = [], [candidate.stored for candidate in unneeded]
    for artifact in removable:
        if remove(artifact, root, others):
            removed.append(artifact)
            print(f"removed {artifact.folder}", flush=True)
        else:
            print(f"kept {artifact.folder}: it is in use now", flush=True)
    for leftover in left:
        remove_leftover(leftover.folder)
    for kept in artifacts(root):
        if kept.is_own:
            remove_ended_readers(kept.folder)
    print(f"removed {amount(removed, left)}")


def amount(stored: Sequence[Stored], left: Sequence[Stored]) -> str:
    """Returns the number and the size of the artifacts ``stored`` and of the remains ``left``."""
    rest = f" and {len(left)} remains of earlier removals" if left else ""
    return f"{len(stored):,} artifacts{rest}, {size_of([*stored, *left])}"


def cells_of(artifact: Unused) -> tuple[str, ...]:
    """Returns the cells of an unused artifact."""
    stored, made = artifact.stored, ", ".join(artifact.dependents) or "nothing"
    action = f"kept: {artifact.kept_because}" if artifact.kept_because else "remove"
    return stored.label, size_of([stored]), stored.user, made, action
