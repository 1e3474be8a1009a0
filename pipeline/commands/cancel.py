"""``headrace cancel``: stops a run: all its jobs on the cluster, and the commands that run it on this machine.

headrace cancel small              the run of this name, id, beginning of an id, or path
headrace cancel                    your newest run

Finished tasks and checkpoints are kept: the command that started the run resumes it. A training saves before it ends.
A command on another machine cannot be reached from here: what to type there is printed.
"""

import os
import signal
from collections.abc import Iterator, Sequence

from headrace.pipeline.commands.choice import chosen_run
from headrace.pipeline.commands.declaration import command, run_argument
from headrace.pipeline.commands.facts import Fact, show
from headrace.pipeline.core.owner import Owner
from headrace.pipeline.run import jobs
from headrace.pipeline.run.saved import SavedRun
from headrace.pipeline.run.storage import users_of


@command
@run_argument
def cancel(overrides: Sequence[str], run: str) -> None:
    """Stops a run: all its jobs on the cluster, and its commands on this machine."""
    show(stopped(chosen_run(overrides, run)))


def stopped(run: SavedRun) -> Iterator[Fact]:
    """Stops ``run``; yields what was stopped, and what could not be.

    Raises:
        ConfigError, TaskError: when the cluster cannot be asked, or refuses.
    """
    yield "run", f"{run.label} ({run.file.parent})"
    live = jobs.live(run.steps)
    for cluster, numbers in live.items():
        jobs.cancel(cluster, numbers)
        yield "cancelled", f"{cluster} jobs {', '.join(map(str, numbers))}"
    if live:
        yield from _sharing(run)
    processes = run.processes()
    for process in processes:
        yield _stop(process)
    if not live and not processes:
        yield "nothing", "no job and no command of this run is in progress"


def _sharing(run: SavedRun) -> Iterator[Fact]:
    """Yields the other runs that waited for the same jobs."""
    unfinished = {step.address for step in run.steps if not step.is_whole}
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
