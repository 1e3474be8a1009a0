"""``headrace cancel``: stops a run: all its jobs on the cluster, and the commands that run it on this machine.

headrace cancel small              the run of this name, id, beginning of an id, or path
headrace cancel                    your newest run

Finished tasks and checkpoints are kept: the command that started the run resumes it. A training saves before it ends.
A command on another machine cannot be reached from here: what to type there is printed. Commands and jobs that another
user recorded are left as they are.
"""

import itertools
import os
import signal
from collections.abc import Iterator, Sequence

from headrace.pipeline.command_line.choice import chosen_run
from headrace.pipeline.command_line.declaration import command, run_argument
from headrace.pipeline.core.claim import Owner, live_owners
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.output.terminal import Fact, show
from headrace.pipeline.run import jobs
from headrace.pipeline.run.saved_run import SavedRun, is_own, user_of
from headrace.pipeline.run.storage import users_of


@command
@run_argument
def cancel(overrides: Sequence[str], run: str) -> None:
    """Stops a run: all its jobs on the cluster, and its commands on this machine."""
    show(stopped(chosen_run(overrides, run)))


def stopped(run: SavedRun) -> Iterator[Fact]:
    """Stops ``run``; yields what was stopped, and what could not be.

    Raises:
        ConfigError, TaskError: when a cluster cannot be asked, or refuses; after everything else was stopped.
    """
    yield "run", f"{run.label} ({run.file.parent})"
    facts = itertools.chain(_stopped_processes(run), _cancelled_jobs(run))
    yield next(facts, ("nothing", "no job and no command of this run is in progress"))
    yield from facts


def _stopped_processes(run: SavedRun) -> Iterator[Fact]:
    """Stops the commands of this user; a claim of another user could name any process."""
    for mark in run.marks:
        try:
            other_user = "" if is_own(mark) else user_of(mark)
        except FileNotFoundError:  # its command has ended
            continue
        for process in live_owners([mark]):
            yield ("not stopped", f"{mark.name} belongs to {other_user}") if other_user else _stop(process)


def _cancelled_jobs(run: SavedRun) -> Iterator[Fact]:
    """Cancels the jobs that this user recorded; a record of another user could name any job.

    Raises:
        ConfigError, TaskError: when a cluster cannot be asked; TaskError at the end when one refuses.
    """
    stages = []
    for stage in run.all_steps:
        others = [path for path in jobs.files(stage) if not is_own(path)]
        for path in others:
            if not stage.is_whole:
                yield "not cancelled", f"{path} belongs to {user_of(path)}"
        stages += [stage] * (not others)
    live = jobs.live(stages)
    refused = []
    for cluster, live_jobs in live.items():
        shown = f"{cluster.rpartition(':')[2]} jobs {', '.join(job.job for job in live_jobs)}"
        try:
            jobs.cancel(cluster, live_jobs)
        except (ConfigError, TaskError) as error:
            refused.append(shown)
            yield "not cancelled", f"{shown} ({error})"
        else:
            yield "cancelled", shown
    if live:
        yield from _sharing(run)
    if refused:
        raise TaskError("cancel", f"not cancelled: {'; '.join(refused)}", "run the command again")


def _sharing(run: SavedRun) -> Iterator[Fact]:
    """Yields the other runs that waited for the same jobs."""
    unfinished = {stage.address for stage in run.all_steps if not stage.is_whole}
    users = users_of(run.root)
    others = {user.id: user.label for address in unfinished for user in users.get(address, ()) if user.id != run.id}
    for label in others.values():
        yield "shared with", f"{label}: submit it again, it waited for some of these jobs"


def _stop(process: Owner) -> Fact:
    if not process.is_here:
        return "not stopped", f"runs on {process.node}; type there: kill -TERM {process.pid}"
    try:
        os.kill(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return "ended", f"PID {process.pid}"
    except PermissionError:
        return "not stopped", f"PID {process.pid} belongs to another user"
    return "asked to stop", f"PID {process.pid} on this machine: it keeps what is finished, then ends"
