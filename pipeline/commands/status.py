"""How far a run is: one row per stage.

stage        state     tasks   result
clean        done      12/12   10,302 kept, 45,001 dropped
signatures   RUNNING    3/12
"""

from collections.abc import Mapping, Sequence

from rich.table import Table

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.planner import Step

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
}
"""The counts of a stage that say most about it."""


def table(steps: Sequence[Step], job_states: Mapping[str, str]) -> Table:
    """One row per stage; ``job_states`` are shown up to their first comma."""
    view = Table("stage", "state", "tasks", "result", "folder", box=None, header_style="bold")
    for step in steps:
        total = sum(phase.tasks for phase in step.phases)
        done = total if step.is_whole else total - sum(len(step.missing(phase)) for phase in step.phases)
        begun = "begun" if done or step.folder.is_dir() else "to do"
        state = "done" if step.is_whole else job_states.get(step.name, begun).split(",")[0]
        view.add_row(step.name, state, f"{done}/{total}", headline(step), str(step.folder))
    return view


def headline(step: Step) -> str:
    """The most telling counts of a finished step, else nothing."""
    if not step.is_whole:
        return ""
    counts = Artifact(step.folder).counts
    return ", ".join(
        f"{counts[name]:,} {name.replace('_', ' ')}" for name in HEADLINES.get(step.name, ()) if name in counts
    )
