"""``headrace status``: how far a run is, one row per stage.

headrace status                      your newest run below the default root
headrace status small                the run of this name, id, beginning of an id, or path
headrace status root=/data/runs      the newest run below another root
headrace status experiment=demo      the run of these settings

    stage        state     tasks   result
    texts        done      12/12   55,303 records in, 51,877 kept
    clean        RUNNING    3/35    phase 1/5 0-filter, 3/4 tasks
    weights      RUNNING    0/1     120/5,000 steps, 3.2/s, 0:25:25 to go  loss 3.412  tokens/s 51,200

    weights      stopped    0/1     120/5,000 steps, step 120 saved

A stage that was begun is ``stopped`` when no job and no process works on it. Below the rows are the states of jobs,
from which step a training went on, the last error of each stage that failed, with its remedy, and a warning about a
stage that lost nearly everything.

The rows are read from run.json, the manifests and the part records alone, which takes a fraction of a second. Only
settings that no run was started with are planned.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from headrace.pipeline.command_line.choice import chosen_file
from headrace.pipeline.command_line.declaration import command, load, run_argument
from headrace.pipeline.output.terminal import show_table
from headrace.pipeline.run.saved_runs import SavedRun
from headrace.pipeline.run.stage_states import StageState, states_of

if TYPE_CHECKING:
    from headrace.pipeline.run.planner import Run


@command
@run_argument
def status(overrides: Sequence[str], run: str) -> None:
    """Prints one row per stage: how far it is, its main counts, its folder."""
    rows, notes = states(overrides, run)
    view = Table("stage", "state", "tasks", "result", "folder", box=None, header_style="bold")
    for row in rows:
        view.add_row(row.stage, row.state, row.progress, row.result, str(row.folder))
    show_table(view)
    print(*notes, sep="\n", end="\n" * bool(notes))


def states(overrides: Sequence[str], run: str) -> tuple[list[StageState], list[str]]:
    """Returns one row per stage, and lines about jobs and failures."""
    file = chosen_file(overrides, run)
    if file is not None:
        saved = SavedRun.read(file)
        return states_of(saved.stages, bool(saved.processes()))
    planned: Run = load("command_line.request").with_settings(overrides)
    return states_of(planned.stages)
