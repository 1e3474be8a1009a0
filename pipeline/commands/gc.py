"""``headrace gc``: the artifacts that no run uses. It lists them; ``--delete`` removes them.

headrace gc                        what would be removed, whose it is, and what was made from it
headrace gc --delete               removes it

A run uses the artifacts of its stages, all that these were made from, and those that its settings name (mixtures, older
runs, initial weights), for every run.json below the root, of all users. To give up a run, remove its folder in
``<root>/runs``. Artifacts of other users, artifacts that a process works on, symbolic links, and the results of
``headrace evaluate`` are never removed. A removal that was killed is finished by the next one.
"""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.output.terminal import show_table
from headrace.pipeline.report.formatting import byte_size
from headrace.pipeline.run.storage import (
    Stored,
    Unused,
    artifacts,
    leftovers,
    remove,
    remove_ended_readers,
    remove_leftover,
    unused,
)


@command
@click.option("--delete", is_flag=True, help="Remove what is listed as removable.")
def gc(overrides: Sequence[str], delete: bool) -> None:
    """Prints the artifacts that no run uses, with their owners and what was made from them; --delete removes them."""
    root = Path(root_of(overrides))
    unneeded, left = unused(root), leftovers(root)
    if not unneeded and not left:
        print(f"every artifact below {root} is used by a run")
        return
    show_table(table_of(unneeded))
    removable = [candidate for candidate in unneeded if not candidate.kept_because]
    if not delete:
        print(f"to remove: {amount(removable, left)}; nothing was removed: give --delete")
        return
    removed, others = [], [candidate.stored for candidate in unneeded]
    for candidate in removable:
        if remove(candidate.stored, root, others):
            removed.append(candidate)
            print(f"removed {candidate.stored.folder}", flush=True)
        else:
            print(f"kept {candidate.stored.folder}: it is in use now", flush=True)
    for folder in left:
        remove_leftover(folder.folder)
    for kept in artifacts(root):
        if kept.is_own:
            remove_ended_readers(kept.folder)
    print(f"removed {amount(removed, left)}")


def amount(unneeded: Sequence[Unused], left: Sequence[Stored]) -> str:
    """Returns the number and the size of the artifacts ``unneeded`` and of the remains ``left``."""
    size = sum(artifact.stored.bytes for artifact in unneeded) + sum(artifact.bytes for artifact in left)
    rest = f" and {len(left)} remains of earlier removals" if left else ""
    return f"{len(unneeded):,} artifacts{rest}, {byte_size(size)}"


def table_of(unneeded: Sequence[Unused]) -> Table:
    """Returns one row per unused artifact."""
    table = Table("artifact", "size", "user", "made from it", "", box=None, header_style="bold", pad_edge=False)
    for artifact in unneeded:
        action = f"kept: {artifact.kept_because}" if artifact.kept_because else "remove"
        size = byte_size(artifact.stored.bytes)
        table.add_row(
            artifact.stored.label, size, artifact.stored.user, ", ".join(artifact.dependents) or "nothing", action
        )
    return table
