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
from headrace.pipeline.core.terminal import show_table
from headrace.pipeline.report.formatting import byte_size
from headrace.pipeline.run.garbage import Unused, leftovers, remove, remove_leftover, unused
from headrace.pipeline.run.storage import Stored, artifacts, remove_ended_readers


@command
@click.option("--delete", is_flag=True, help="Remove what is listed as removable.")
def gc(overrides: Sequence[str], delete: bool) -> None:
    """Prints the artifacts that no run uses, with their owners and what was made from them; --delete removes them."""
    root = Path(root_of(overrides))
    found, left = unused(root), leftovers(root)
    if not found and not left:
        print(f"every artifact below {root} is used by a run")
        return
    show_table(table_of(found))
    removable = [one for one in found if not one.kept_because]
    if not delete:
        print(f"to remove: {amount(removable, left)}; nothing was removed: give --delete")
        return
    removed, others = [], [one.stored for one in found]
    for one in removable:
        if remove(one.stored, root, others):
            removed.append(one)
            print(f"removed {one.stored.folder}", flush=True)
        else:
            print(f"kept {one.stored.folder}: it is in use now", flush=True)
    for folder in left:
        remove_leftover(folder.folder)
    for kept in artifacts(root):
        if kept.is_own:
            remove_ended_readers(kept.folder)
    print(f"removed {amount(removed, left)}")


def amount(found: Sequence[Unused], left: Sequence[Stored]) -> str:
    """Returns the number and the size of the artifacts ``found`` and of the remains ``left``."""
    size = sum(one.stored.bytes for one in found) + sum(one.bytes for one in left)
    rest = f" and {len(left)} remains of earlier removals" if left else ""
    return f"{len(found):,} artifacts{rest}, {byte_size(size)}"


def table_of(found: Sequence[Unused]) -> Table:
    """Returns one row per unused artifact."""
    table = Table("artifact", "size", "user", "made from it", "", box=None, header_style="bold", pad_edge=False)
    for one in found:
        action = f"kept: {one.kept_because}" if one.kept_because else "remove"
        size = byte_size(one.stored.bytes)
        table.add_row(one.stored.label, size, one.stored.user, ", ".join(one.dependents) or "nothing", action)
    return table
