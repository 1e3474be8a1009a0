"""``headrace status``: how far a run is, one row per stage.

headrace status                      your newest run below the default root
headrace status small                the run of this name, id, beginning of an id, or path
headrace status root=/data/runs      the newest run below another root
headrace status experiment=demo      the run of these settings
headrace status small --watch        follows it in another terminal or on a cluster, until it is done
headrace status small --logs         the logs of the stage that it is at, or ended at, and its tasks that failed
headrace status small --logs --stage tokens --lines 100    those of one stage, more of each log

    stage        state     tasks   result                             spent
    texts        done      12/12   55,303 records in, 51,877 kept     1.2 core-h, 1.2 GB
    clean        RUNNING    3/35    phase 1/5 0-filter, 3/4 tasks
    weights      RUNNING    0/1     120/5,000 steps, 3.2/s, 0:25:25 to go  loss 3.412  tokens/s 51,200

    weights      stopped    0/1     120/5,000 steps, step 120 saved
    spent: 12.3 core-h, 4.5 GPU-h, 1.2 GB in 14 attempts, 1 of them without an end

A stage that was begun is ``stopped`` when no job and no process works on it. Below the rows are the states of jobs,
from which step a training went on, the last error of each stage that failed, with its remedy, and a warning about a
stage that lost nearly everything.

``reused``: another run made the result. An attempt without an end was killed, or still runs. docs/report.md says what
is counted.

The rows are read from run.json, the manifests, the part records and the logs, which takes a fraction of a second. Only
settings that no run was started with are planned. With --watch, Ctrl-C ends the command and not the run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headrace.pipeline.command_line.choice import chosen_file, chosen_run
from headrace.pipeline.command_line.declaration import command, load, run_argument
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.output.terminal import show_rows
from headrace.pipeline.report.accounts import Account
from headrace.pipeline.run.run_state import StageState, states_of
from headrace.pipeline.run.saved_run import SavedRun

if TYPE_CHECKING:
    from headrace.pipeline.run.planner import Run


@command
@run_argument
@click.option("--watch", is_flag=True, help="Show the progress of each stage until the last one is done.")
@click.option("--logs", is_flag=True, help="Print the paths and the ends of the logs of a stage.")
@click.option("--stage", metavar="STAGE", default="", help="With --logs: this stage; the current one without it.")
@click.option("--lines", metavar="N", default="", help="With --logs: lines of the end of each log; 20 without it.")
def status(overrides: Sequence[str], run: str, watch: bool, logs: bool, stage: str, lines: str) -> None:
    """Prints one row per stage: how far it is, its main counts, its folder; follows the run, or prints its logs."""
    if (stage or lines) and not logs:
        raise ConfigError("--stage" if stage else "--lines", "is given without --logs", "give both")
    if watch and logs:
        raise ConfigError("--watch", "is given with --logs", "give one of them")
    if logs:
        run_logs, number = load("run.run_logs"), value_of(Positive, lines or "20", "--lines")
        run_logs.show_logs(run_logs.stage_of(chosen_run(overrides, run).stages, stage), number)
        return
    if watch:
        load("run.run_progress").follow(load("command_line.request").run_of(overrides, run))
        return
    rows, notes, account = states(overrides, run)
    cells = [
        (row.stage, row.state, row.progress, row.result, str(account.spent(row.stage)), str(row.folder)) for row in rows
    ]
    show_rows(("stage", "state", "tasks", "result", "spent", "folder"), cells)
    if (total := account.total).attempts:
        without_end = f", {total.without_end:,} of them without an end" * bool(total.without_end)
        print(f"spent: {total} in {total.attempts:,} attempts{without_end}")
    print(*notes, sep="\n", end="\n" * bool(notes))


def states(overrides: Sequence[str], run: str) -> tuple[list[StageState], list[str], Account]:
    """Returns one row per stage, lines about jobs and failures, and what the run has spent."""
    file = chosen_file(overrides, run)
    if file is not None:
        saved = SavedRun.read(file)
        return *states_of(saved.stages, bool(saved.processes())), Account.of(saved.id, saved.folders)
    planned: Run = load("command_line.request").with_settings(overrides)
    folders = {stage.name: stage.folder for stage in planned.stages}
    return *states_of(planned.stages), Account.of(planned.run_json.parent.name, folders)
