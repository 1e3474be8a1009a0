"""SLURM's clients: submission, the queue, and requests to the controller.

Options and arguments are elements of an argument list: no shell reads them, so no value can be taken for a command.
"""

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from headrace.pipeline.clusters import slurm_options
from headrace.pipeline.clusters.base import PENDING, Entry, FullQueueError, Job
from headrace.pipeline.core.errors import ConfigError, RetryableError, TaskError
from headrace.pipeline.core.signals import die_with_parent

ANSWER_SECONDS = 60.0
"""SLURM's clients wait very long when the controller is away."""

CORRECT = "correct the cluster settings and run again"
FULL = r"(QOS|Assoc)\w*Submit|unable to accept job"
"""The part of sbatch's messages about limits of the jobs in the queue: MaxSubmitJobs of many kinds, MaxJobCount."""
REFUSALS = {
    FULL: "it is a limit of the jobs in the queue (each array index counts): run again when some of "
    "yours have ended, or ask for fewer with cluster.one_job=always or cluster.array_tasks",
    "Invalid job array specification": "lower cluster.array_tasks (scontrol show config prints MaxArraySize)",
}
"""Parts of sbatch's refusals, and what to do about them; about all others ``CORRECT``."""

UNKNOWN_JOB = "Invalid job id"
"""The answer of a client that was asked for a single job that SLURM has forgotten."""

ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
"""The states that a job does not leave by itself (squeue's manual, JOB STATE CODES)."""

REMEDIES = {
    "TIMEOUT": "raise cluster.data_time, or cluster.train_time for a training",
    "OUT_OF_MEMORY": "raise cluster.data_memory, or cluster.train_memory for a training",
    **dict.fromkeys(("BOOT_FAIL", "NODE_FAIL", "PREEMPTED"), "its node was taken away: run the same command again"),
}
"""The remedies for a job that ended in a state."""

ELSEWHERE = "ELSEWHERE"
"""The state of a job of a cluster that this machine's clients do not ask: it may wait or run there."""

HELD = "held"
"""In the reason of a job that a user or SLURM itself holds: ``JobHeldUser``, ``job requeued in held state``."""

ENDING = frozenset({"COMPLETING", "STAGE_OUT", "SIGNALING"})
"""The states of a job whose processes are being ended."""
CANCEL_SECONDS = SEARCH_SECONDS = 10.0
"""The time in which a cancelled job must begin to end, and a job must appear whose submission got no answer."""
POLL_SECONDS = 1.0
"""The pause between two questions to the queue."""

MARK = "headrace:"
"""The beginning of the comment of a job. Its token follows, then the comment that the user gives."""


def sbatch(command: Sequence[str], stage: str, token: str) -> str:
    """Submits one job by ``command`` and returns its number. The job is also known by ``token`` (``comment``).

    Without a clear answer (sbatch was killed, printed something else, failed after the job was made), the queue is
    searched for the token.

    Raises:
        TaskError: with the whole message of sbatch, when it refuses the job and the queue has none.
        RetryableError: when sbatch or the queue gives no clear answer, so that there may be a job.
    """
    try:
        answer = ask(command)
    except TaskError as error:
        try:
            return _lost(token, error.problem)
        except RetryableError as unclear:
            if re.search(FULL, error.problem):  # it waited for room, and was ended
                raise FullQueueError(unclear.where, unclear.problem, REFUSALS[FULL]) from None
            raise
    number = answer.stdout.strip().split(";")[0]
    if answer.returncode == 0 and number.isdecimal():
        return number
    message = ", ".join((answer.stderr + answer.stdout).strip().splitlines())
    if answer.returncode <= 0:  # it says that there is a job, or a signal ended it
        return _lost(token, f"sbatch ended with status {answer.returncode}: {message or 'it printed no number'}")
    if (job := _searched(token, message)) is not None:
        return job
    remedy = next((remedy for part, remedy in REFUSALS.items() if re.search(part, message)), CORRECT)
    stay = "(jobs submitted before this one stay in the queue)"
    refused = FullQueueError if remedy == REFUSALS[FULL] else TaskError
    raise refused("cluster=slurm", f"sbatch refused the job of stage {stage!r}: {message}", f"{remedy} {stay}")


def cluster_name() -> str:
    """Returns ClusterName of the controller that this machine's clients ask; empty when it does not tell."""
    name = re.search(r"^ClusterName\s*=\s*(\S+)", ask(["scontrol", "show", "config"]).stdout, re.M)
    return name[1] if name else ""


def _elsewhere(jobs: Iterable[Job]) -> dict[str, str]:
    """Returns those of ``jobs`` that another cluster has, by their numbers, and in words where that is.

    Raises:
        ConfigError, TaskError: see ``ask``; also without a ClusterName.
    """
    servers = {job.job: job.server for job in jobs if job.server}
    if not servers:
        return {}
    if not (name := cluster_name()):
        raise TaskError("cluster=slurm", "scontrol show config prints no ClusterName", "run on a login node")
    where = "the SLURM cluster {!r} has it, and this machine asks {!r}: type the command on a login node there"
    return {job: where.format(server, name) for job, server in servers.items() if server != name}


def sbatch_notice(run_json: Path, name: str, ended: Sequence[str], given: Sequence[str], script: Sequence[str]) -> str:
    """Submits the last job of a chain, which starts after any end of the jobs ``ended``, and returns its number.

    It has neither the time nor the memory of other jobs: those may be what ended them.

    Raises:
        TaskError, RetryableError: see ``sbatch``.
    """
    log, token = str(run_json.parent / "logs" / "notice").replace("%", "%%"), secrets.token_hex(8)
    options = [f"--chdir={os.getcwd()}", f"--job-name={name}", f"--dependency=afterany:{':'.join(ended)}"]
    options += [f"--output={log}-%j.log", *given, "--time=10"]
    return sbatch(["sbatch", "--parsable", *options, f"--comment={comment(options, token)}", *script], "notice", token)


def most_array_indices() -> int | None:
    """Returns the highest number of indices of a job array: MaxArraySize, or max_array_tasks if that is lower
    (slurm.conf's manual); None when the controller gives none, which leaves the decision to sbatch."""
    try:
        answer = ask(["scontrol", "show", "config"]).stdout
    except (ConfigError, TaskError):
        return None
    limits = re.findall(r"^MaxArraySize\s*=\s*(\d+)|^SchedulerParameters\s*=.*\bmax_array_tasks=(\d+)", answer, re.M)
    return min((int(size or tasks) for size, tasks in limits), default=0) or None


def submitted(tokens: Collection[str], jobs: Iterable[Job] = ()) -> dict[str, str]:
    """Returns the number of the job with each of ``tokens`` that SLURM knows. ``jobs`` are theirs, without numbers.

    Raises:
        ConfigError, TaskError: see ``ask``; also when squeue fails, or another cluster may have one of them.
    """
    for where in _elsewhere(jobs).values():
        raise ConfigError("cluster=slurm", "a submission got no answer", where)
    answer = ask(["squeue", "--noheader", "--all", "--states=all", "--format=%F|%k"])
    if answer.returncode:
        raise _failed("squeue", answer.stderr)
    rows = (line.partition("|") for line in answer.stdout.splitlines())
    numbers = {comment.split(" ")[0].removeprefix(MARK): job for job, _, comment in rows if comment.startswith(MARK)}
    return {token: numbers[token] for token in tokens if token in numbers}


def comment(options: Sequence[str], token: str) -> str:
    """Returns the comment of a job: the ``token``, then the comment that the ``options`` give."""
    given = [option.partition("=")[2] for option in options if option.startswith("--comm")]
    return " ".join([MARK + token, *given[-1:]])


def _lost(token: str, problem: str) -> str:
    """Returns the number of the job with ``token`` after sbatch gave no clear answer.

    Raises:
        RetryableError: when the queue does not show it within ``SEARCH_SECONDS``: SLURM may still make it.
    """
    deadline = time.monotonic() + SEARCH_SECONDS
    while (job := _searched(token, problem)) is None:
        if time.monotonic() >= deadline:
            unclear = f"{problem}; the queue shows no such job yet"
            raise RetryableError("cluster=slurm", unclear, "run again: the queue is searched before a job is submitted")
        time.sleep(POLL_SECONDS)
    return job


def _searched(token: str, problem: str) -> str | None:
    """Returns the number of the job with ``token`` in the queue. ``problem`` is what sbatch said.

    Raises:
        RetryableError: when the queue cannot be asked.
    """
    try:
        return submitted([token]).get(token)
    except (ConfigError, TaskError) as error:
        unclear = f"{problem}; nor could the queue be searched for the job ({error.problem})"
        raise RetryableError(
            "cluster=slurm", unclear, "run again when SLURM is up: nothing is submitted twice"
        ) from None


def queued(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
    """Returns the entries of squeue for ``jobs``, by their numbers. Without accounting, SLURM forgets a job minutes
    after its end. A job of the same number and another name is not ours: the controller's numbers began again.

    Raises:
        ConfigError, TaskError: see ``ask``; also when squeue fails.
    """
    elsewhere = _elsewhere(jobs)
    names = {job.job: job.name for job in jobs if job.job not in elsewhere}
    entries: dict[str, list[Entry]] = {job: [] for job in names}
    entries |= {job: [Entry(job, None, ELSEWHERE, True, "", where)] for job, where in elsewhere.items()}
    if elsewhere and not names:
        return entries
    which = f"--jobs={','.join(names)}"
    # --array: a line for each index, so one that was cancelled before it ran is seen to be absent
    answer = ask(["squeue", "--noheader", "--all", "--array", "--states=all", which, "--format=%F|%K|%T|%r|%j"])
    if answer.returncode and UNKNOWN_JOB not in answer.stderr:
        raise _failed("squeue", answer.stderr)
    for line in answer.stdout.splitlines():
        job, *fields = line.split("|", 4)
        if not _is_number(job):
            continue  # the greeting of a wrapper, or a header
        if len(fields) != 4:
            raise TaskError("cluster=slurm", f"squeue printed {line!r}, which is no whole row", "run again")
        index, state, reason, name = fields
        if job in names and names[job] in ("", name):
            element = int(index) if _is_number(index) else None
            remedy = REMEDIES.get(state, "") or remedy_of_wait(state, reason, job)
            entries[job].append(Entry(job, element, state, state not in ENDED, reason, remedy))
    return entries


def remedy_of_wait(state: str, reason: str, job: str) -> str:
    """Returns what a person has to do for a ``job`` that waits for ``reason``; empty when it starts by itself."""
    if state != PENDING:
        return ""
    if reason == "DependencyNeverSatisfied":
        return "the job before it has failed: run the same command again"
    return f"scontrol release {job}, or ask who holds it" if HELD in reason.lower() else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def own_numbers(jobs: Sequence[Job]) -> list[str]:
    """Returns the numbers of ``jobs``.

    Raises:
        ConfigError: when another cluster has one of them.
    """
    for job, where in _elsewhere(jobs).items():
        raise ConfigError("cluster=slurm", f"job {job} is not cancelled", where)
    return [job.job for job in jobs]


def cancel(jobs: Sequence[str]) -> None:
    """Cancels ``jobs``. One that has ended stays as it is. The queue is asked afterwards: scancel also succeeds when it
    cancels nothing.

    Raises:
        ConfigError, TaskError: see ``ask``; also when scancel fails, or jobs still wait or run.
    """
    answer = ask(["scancel", *jobs])
    if answer.returncode and UNKNOWN_JOB not in answer.stderr:
        raise _failed("scancel", answer.stderr)
    deadline = time.monotonic() + CANCEL_SECONDS
    while going := _going(jobs):
        if time.monotonic() >= deadline:
            problem = f"scancel succeeded, but squeue shows {', '.join(going)}"
            raise TaskError("cluster=slurm", problem, "run again, or cancel them with scancel")
        time.sleep(POLL_SECONDS)


def _going(jobs: Sequence[str]) -> list[str]:
    """Returns ``7 RUNNING`` for each of ``jobs`` that neither has ended nor is ending."""
    entries = queued([Job(number, "", None) for number in jobs])
    return [
        f"{number} {entry.state}"
        for number, own in entries.items()
        for entry in own
        if entry.is_live and entry.state not in ENDING
    ]


def ask(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Runs a SLURM client. No shell reads options and values.

    Raises:
        ConfigError: when this machine has no such client.
        TaskError: when it does not answer in time.
    """
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=ANSWER_SECONDS,
            env=slurm_options.for_clients(os.environ),
            preexec_fn=die_with_parent if command[0] == "sbatch" and sys.platform == "linux" else None,
        )
    except FileNotFoundError:
        raise ConfigError("cluster=slurm", f"no {command[0]} on this machine", "run on a login node") from None
    except subprocess.TimeoutExpired as expired:
        said = (expired.stderr or b"").decode(errors="replace").strip().splitlines()
        problem = ": ".join([f"{command[0]} gave no answer within {ANSWER_SECONDS:.0f} s", *said[-1:]])
        raise TaskError("cluster=slurm", problem, "is the controller up (scontrol ping)? then run again") from None


def _failed(client: str, stderr: str) -> TaskError:
    said = ", ".join(stderr.strip().splitlines())
    return TaskError("cluster=slurm", f"{client} failed: {said}", "run on a login node, when scontrol ping answers")
