"""SLURM's clients: submission, the queue, and requests to the controller.

Options and arguments are elements of an argument list: no shell reads them, so no value can be taken for a command.

Clients, and so the jobs that they submit, get no SLURM variables of the submitter: each client reads options from them
(SQUEUE_PARTITION hides jobs, SBATCH_WAIT keeps sbatch from answering). Their names differ between versions, so whole
families are taken out. Those that a client needs to reach the controller are kept, and those by which users choose on
purpose where jobs run and who pays: sbatch reads them where no option decides.
"""

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from headrace.pipeline.clusters.base import PENDING, Entry, FullQueueError, Job
from headrace.pipeline.core.environment import OF_A_JOB, without_process
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

NEVER = "DependencyNeverSatisfied"
"""The reason of a job that waits in vain, where SLURM has not removed it from the queue yet."""
ELSEWHERE = "ELSEWHERE"
"""The state of a job of a cluster that this machine's clients do not ask: it may wait or run there."""
CANCEL_SECONDS = SEARCH_SECONDS = 10.0
"""The longest wait for the end of cancelled jobs, and for a job to appear whose submission got no answer."""
POLL_SECONDS = 1.0
"""The pause between two questions to the queue."""
MARK = "headrace:"
"""The beginning of the comment of a job. Its token follows, then the comment that the user gives."""

FAMILIES = (
    *("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "SINFO_"),
    *("SACCT_", "SACCTMGR_", "SPRIO_", "PMI_", "PMIX_", "PRTE_", "OMPI_COMM_WORLD_"),
)
"""Beginnings of names: the variables that SLURM's programs read (their manuals, INPUT ENVIRONMENT VARIABLES), and those
that SLURM or a launcher of MPI sets in a job. In a job they would describe that job to the new one."""
KEPT = frozenset(
    {
        *("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_JWKS", "SLURM_SACK_KEY", "SLURM_SACK_SOCKET"),
        *("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS"),
        *("SBATCH_RESERVATION", "SBATCH_CONSTRAINT", "SBATCH_WCKEY"),
    }
)
"""The variables of these families with which clients find the controller, and with which users choose a place."""


def sbatch(command: Sequence[str], stage: str, token: str) -> str:
    """Submits one job by ``command`` and returns its number. The job is also known by ``token`` (``comment``).

    Without a clear answer (sbatch was killed, printed something else, failed after the job was made), the queue is
    searched for the token.

    Raises:
        TaskError: with the whole message of sbatch, when it refuses the job and the queue has none.
        RetryableError: when sbatch or the queue gives no clear answer, so that there may be a job.
    """
    is_refused = False
    try:
        answer = ask(command)
    except TaskError as error:
        message = error.problem
    else:
        number = answer.stdout.strip().split(";")[0]
        if answer.returncode == 0 and number.isdecimal():
            return number
        message = ", ".join((answer.stderr + answer.stdout).strip().splitlines())
        is_refused = answer.returncode > 0  # else it says that there is a job, or a signal ended it
        if not is_refused:
            message = f"sbatch ended with status {answer.returncode}: {message or 'it printed no number'}"
    if (job := _searched(token, message, 0.0 if is_refused else SEARCH_SECONDS)) is not None:
        return job
    remedy = next((remedy for part, remedy in REFUSALS.items() if re.search(part, message)), CORRECT)
    if is_refused:
        message = f"sbatch refused the job of stage {stage!r}: {message}"
        remedy = f"{remedy} (jobs submitted before this one stay in the queue)"
    else:
        message = f"{message}; the queue shows no such job yet"
    if re.search(FULL, message):  # perhaps sbatch waited for room, and was ended
        raise FullQueueError("cluster=slurm", message, remedy)
    if is_refused:
        raise TaskError("cluster=slurm", message, remedy)
    raise RetryableError("cluster=slurm", message, "run again: the queue is searched before a job is submitted")


def _searched(token: str, problem: str, seconds: float) -> str | None:
    """Returns the number of the job with ``token``, once the queue shows it within ``seconds``.

    Raises:
        RetryableError: when the queue cannot be asked; after ``problem``, what sbatch said.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            job = submitted([token]).get(token)
        except (ConfigError, TaskError) as error:
            unclear = f"{problem}; nor could the queue be searched for the job ({error.problem})"
            remedy = "run again when SLURM is up: nothing is submitted twice"
            raise RetryableError("cluster=slurm", unclear, remedy) from None
        if job is not None or time.monotonic() >= deadline:
            return job
        time.sleep(POLL_SECONDS)


def cluster_name() -> str:
    """Returns ClusterName of the controller that this machine's clients ask; empty when it does not tell."""
    name = re.search(r"^ClusterName\s*=\s*(\S+)", ask(["scontrol", "show", "config"]).stdout, re.M)
    return name[1] if name else ""


def elsewhere(jobs: Iterable[Job]) -> dict[str, str]:
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


def submitted(tokens: Collection[str]) -> dict[str, str]:
    """Returns the number of the job with each of ``tokens`` that SLURM knows.

    Raises:
        ConfigError, TaskError: see ``ask``; also when squeue fails.
    """
    answer = ask(["squeue", "--noheader", "--all", "--states=all", "--format=%F|%k"])
    if answer.returncode:
        raise _failed("squeue", answer.stderr)
    rows = (line.partition("|") for line in answer.stdout.splitlines())
    numbers = {comment.split(" ")[0].removeprefix(MARK): job for job, _, comment in rows if comment.startswith(MARK)}
    return {token: numbers[token] for token in tokens if token in numbers}


def comment(options: Sequence[str], token: str) -> str:
    """Returns the option of the comment of a job: the ``token``, then the comment that the ``options`` give."""
    given = [option.partition("=")[2] for option in options if option.startswith("--comm")]
    return "--comment=" + " ".join([MARK + token, *given[-1:]])


def queued(jobs: Sequence[Job]) -> dict[str, list[Entry]]:
    """Returns the entries of squeue for ``jobs``, by their numbers. Without accounting, SLURM forgets a job minutes
    after its end. A job of the same number and another name is not ours: the controller's numbers began again.

    Raises:
        ConfigError, TaskError: see ``ask``; also when squeue fails.
    """
    away = elsewhere(jobs)
    names = {job.job: job.name for job in jobs if job.job not in away}
    entries: dict[str, list[Entry]] = {job: [] for job in names}
    entries |= {job: [Entry(job, None, ELSEWHERE, True, "", where)] for job, where in away.items()}
    if away and not names:
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
            remedy = REMEDIES.get(state, "") or _remedy_of_wait(state, reason, job)
            is_live = state not in ENDED and reason != NEVER
            entries[job].append(Entry(job, element, state, is_live, reason, remedy))
    return entries


def _remedy_of_wait(state: str, reason: str, job: str) -> str:
    """Returns what a person has to do for a ``job`` that waits for ``reason``; empty when it starts by itself."""
    if state != PENDING:
        return ""
    if reason == NEVER:
        return "the job before it has failed: run the same command again"
    return f"scontrol release {job}, or ask who holds it" if "held" in reason.lower() else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def cancel(jobs: Sequence[Job]) -> None:
    """Cancels ``jobs``, and waits a moment for their end. One that has ended stays as it is.

    Raises:
        ConfigError, TaskError: see ``ask``; also when scancel fails, or another cluster has one of them.
    """
    for job, where in elsewhere(jobs).items():
        raise ConfigError("cluster=slurm", f"job {job} is not cancelled", where)
    answer = ask(["scancel", *(job.job for job in jobs)])
    if answer.returncode and UNKNOWN_JOB not in answer.stderr:
        raise _failed("scancel", answer.stderr)
    deadline = time.monotonic() + CANCEL_SECONDS
    while time.monotonic() < deadline and any(entry.is_live for entry in itertools.chain(*queued(jobs).values())):
        time.sleep(POLL_SECONDS)


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
            env=for_clients(os.environ),
            preexec_fn=die_with_parent if command[0] == "sbatch" and sys.platform == "linux" else None,
        )
    except FileNotFoundError:
        raise ConfigError("cluster=slurm", f"no {command[0]} on this machine", "run on a login node") from None
    except subprocess.TimeoutExpired as expired:
        said = (expired.stderr or b"").decode(errors="replace").strip().splitlines()
        problem = ": ".join([f"{command[0]} gave no answer within {ANSWER_SECONDS:.0f} s", *said[-1:]])
        raise TaskError("cluster=slurm", problem, "is the controller up (scontrol ping)? then run again") from None


def for_clients(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` without SLURM's variables, those that are ``KEPT`` excepted, and without those of one job
    and process: with ``--export=ALL`` a job would take the rank of the process that submitted it."""
    return {
        name: value
        for name, value in without_process(environment).items()
        if name in KEPT or not (name.startswith(FAMILIES) or name in OF_A_JOB)
    }


def _failed(client: str, stderr: str) -> TaskError:
    said = ", ".join(stderr.strip().splitlines())
    return TaskError("cluster=slurm", f"{client} failed: {said}", "run on a login node, when scontrol ping answers")
