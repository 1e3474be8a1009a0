"""``headrace status``: how far a run is, one row per stage.

headrace status                      the newest run below the default root
headrace status root=/data/runs      the newest run below another root
headrace status experiment=demo      the run of these settings

    stage        state     tasks   result
    clean        done      12/12   10,302 kept, 45,001 dropped
    signatures   RUNNING    3/12
    weights      RUNNING    0/1     120/5,000 steps, 3.2/s, 0:25:25 to go  loss 3.412  tokens/s 51,200

The rows of a finished run are read from run.json and the manifests alone, which takes a fraction of a second. An
unfinished run is planned, to know its tasks.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rich.table import Table

from headrace.pipeline.commands.declaration import command, load
from headrace.pipeline.composition import compose
from headrace.pipeline.conf_folder import setting_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import value_of
from headrace.pipeline.core.stage import address_of
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.run.saved import newest_file, read_saved

HEADLINES = {
    "clean": ("records_in", "kept"),
    "signatures": ("documents", "shingles"),
    "duplicates": ("removed_exact", "removed_near"),
    "unique": ("documents_in", "kept"),
    "overlaps": ("dirty_items", "dirty_documents"),
    "tokenizer": ("vocabulary",),
    "tokens": ("documents", "tokens"),
    "packed": ("train_rows", "validation_rows"),
    "weights": ("steps", "parameters"),
    "scores": ("benchmarks", "items"),
    "report": (),
}
"""Each stage, in the order of the line, with its most telling counts."""
FolderName = Annotated[str, Field(min_length=1)]


@command
def status(overrides: Sequence[str]) -> None:
    """Prints one row per stage: how far it is, its most telling counts, its folder."""
    rows, job_states = finished_rows(overrides), dict[str, str]()
    if rows is None:
        rows, job_states = load("commands.unfinished").rows(overrides)
    view = Table("stage", "state", "tasks", "result", "folder", box=None, header_style="bold")
    for row in rows:
        view.add_row(row.stage, row.state, f"{row.done}/{row.tasks}", row.result, str(row.folder))
    terminal().print(view)
    for stage, state in job_states.items():
        print(f"{stage}: {state}")


@dataclasses.dataclass(frozen=True)
class Row:
    """The state of one stage: ``done`` of its ``tasks`` are finished."""

    stage: str
    state: str
    done: int
    tasks: int
    result: str
    folder: Path

    @classmethod
    def of_artifact(cls, stage: str, folder: Path) -> "Row":
        """Reads the row of a finished stage from its manifest."""
        artifact = Artifact(folder)
        tasks = sum(artifact.manifest["phases"].values())
        return cls(stage, "done", tasks, tasks, headline(stage, artifact.counts), folder)


def finished_rows(overrides: Sequence[str]) -> list[Row] | None:
    """Returns the rows of the newest run; None when a stage is unfinished, or an override chooses another run."""
    if {setting_of(override) for override in overrides} - {"root"}:
        return None
    saved = read_saved(newest_file(value_of(FolderName, compose(overrides)["root"], "root")))
    root, described = Path(saved["config"]["root"]), saved["descriptions"]
    folders = {stage: root / stage / address_of(described[stage]) for stage in HEADLINES if stage in described}
    if not all((folder / "manifest.json").is_file() for folder in folders.values()):
        return None
    return [Row.of_artifact(stage, folder) for stage, folder in folders.items()]


def headline(stage: str, counts: Mapping[str, Any]) -> str:
    """Returns the most telling counts of a finished stage."""
    return ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in HEADLINES[stage] if name in counts)
