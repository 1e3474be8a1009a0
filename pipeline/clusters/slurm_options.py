"""Options of sbatch and srun: the syntax of their values, the check of those that a user gives, and the environment.

SLURM's clients, and so the jobs that they submit, get no SLURM variables of the submitter:

    environment of this process ── for_clients ──> sbatch ── --export=ALL ──> job
                                └─ placement ────> --account=…, --partition=…, options of sbatch

Each client reads options from variables: SQUEUE_PARTITION hides jobs, SBATCH_WAIT keeps sbatch from answering. Their
names differ between versions, so whole families are taken out. Those that a client needs to reach the controller are
kept. A few name a place that users choose on purpose (``PLACES``). They become options, unless a setting names it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from headrace.pipeline.clusters.base import JobRequest
from headrace.pipeline.core.environment import OF_A_JOB, without_process
from headrace.pipeline.core.errors import ConfigError

TimeLimit = Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d+){0,2}$")]
"""A time in the syntax of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours, …"""
MemorySize = Annotated[str, Field(pattern=r"^\d+[KMGTkmgt]?$")]
"""A size in the syntax of sbatch: megabytes, or a number with a unit."""
Gpus = Annotated[str, Field(pattern=r"^([\w.-]+:)?\d{1,4}$", coerce_numbers_to_str=True)]
"""A number of GPUs, or a type and a number: 8, h100:8."""

RESERVED = (
    *("--job-name", "--clusters", "--array", "--dependency", "--output", "--parsable"),
    *("-J", "-M", "-a", "-d", "-o"),
)
"""Options of sbatch that Headrace sets, or with which it would not find its jobs again."""

UNANSWERED = {
    "--wait": "would keep sbatch from answering until the job has ended (headrace watch waits for a run)",
    "--test-only": "submits nothing (headrace plan shows what a run would do)",
}
"""Options of sbatch after which it has no number of a job."""


def check_options(options: Sequence[str], program: str, setting: str) -> None:
    """Checks the ``options`` of sbatch or srun that a user gives in ``setting``.

    Raises:
        ConfigError: when one of them is no option, would hide the jobs, or would break them.
    """
    for option in options:
        name, _, value = option.partition("=")
        if program == "sbatch" and name in UNANSWERED:
            raise ConfigError(setting, f"{option!r} {UNANSWERED[name]}", "remove it")
        if program == "srun" and name == "--export" and value.split(",")[0] != "ALL":
            problem = f"{option!r} would take the address at which the ranks meet from them"
            raise ConfigError(setting, problem, "write --export=ALL,NAME=value")
        if program == "sbatch" and _is_reserved(option):
            problem = f"{option!r} would hide the jobs from headrace status and cancel"
            raise ConfigError(setting, problem, "remove it: Headrace names, orders and finds its jobs itself")
        if not option.startswith("--"):
            raise ConfigError(setting, f"{option!r} is not an option of {program}", "write --name=value")


def _is_reserved(option: str) -> bool:
    """Whether ``option`` is one of RESERVED, or the beginning of one: sbatch takes ``--job=x`` for ``--job-name=x``."""
    if not option.startswith("--"):
        return option[:2] in RESERVED
    name = option.partition("=")[0]
    return name != "--" and any(known.startswith(name) for known in RESERVED)


def limit_seconds(limit: str) -> int | None:
    """Returns a time limit of sbatch in seconds (0: no limit); None when it is not a time."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if match is None:
        return None
    days, *clock = (int(number or 0) for number in match.groups())
    if match[1] is None and match[4] is None:
        clock = [0, *clock[:2]]  # minutes, or minutes:seconds
    hours, minutes, seconds = clock
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def array_list(indices: Iterable[int], running: int | None) -> str:
    """The value of sbatch's --array for ``indices``, at most ``running`` at once: ``3,7-9%2``."""
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and spans[-1][-1] == index - 1:
            spans[-1][1:] = [index]
        else:
            spans.append([index])
    return ",".join("-".join(map(str, span)) for span in spans) + ("" if running is None else f"%{running}")


def check_root(run_json: Path) -> None:
    """Refuses a root that SLURM puts no log below.

    Raises:
        ConfigError: with its path.
    """
    if "\\" in str(run_json.resolve()):
        problem = f"{str(run_json.resolve())!r} holds a backslash: SLURM puts no log there"
        raise ConfigError("root", problem, "rename it")


def check_signal(signal_seconds: int, train_time: str) -> None:
    """Refuses a signal that would come at once.

    Raises:
        ConfigError: with both times.
    """
    limit = limit_seconds(train_time)
    if limit and signal_seconds >= limit:
        problem = f"{signal_seconds} s is not below cluster.train_time ({train_time}, {limit} s)"
        remedy = "lower it, or raise cluster.train_time: the training would be asked to stop at once"
        raise ConfigError("cluster.signal_seconds", problem, remedy)


def dependency(request: JobRequest) -> list[str]:
    """Returns the option of the jobs that ``request`` waits for."""
    conditions = {"afterok": filter(None, [request.after]), "afterany": request.ended}
    given = [f"{condition}:{job}" for condition, jobs in conditions.items() for job in jobs]
    return [f"--dependency={','.join(given)}"] if given else []


def memory_option(size: str | None, indices: int = 1) -> list[str]:
    """Returns the option for memory of ``size``, divided among ``indices`` array indices."""
    if size is None or indices == 1:
        return [] if size is None else [f"--mem={size}"]
    number = size.rstrip("KMGTkmgt")
    return [f"--mem={int(number) * indices}{size[len(number) :]}"]


FAMILIES = (
    *("SLURM", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SCANCEL_", "SCONTROL_", "SINFO_"),
    *("SACCT_", "SACCTMGR_", "SPRIO_", "PMI_", "PMIX_", "PRTE_", "OMPI_COMM_WORLD_"),
)
"""Beginnings of names: the variables that SLURM's programs read (their manuals, INPUT ENVIRONMENT VARIABLES), and those
that SLURM or a launcher of MPI sets in a job. In a job they would describe that job to the new one."""

REACH = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_JWKS", "SLURM_SACK_KEY", "SLURM_SACK_SOCKET")
"""The variables with which clients find the controller and identify their user."""

PLACES = {
    f"SBATCH_{option.upper()}": option
    for option in ("account", "partition", "qos", "reservation", "constraint", "wckey")
}
"""Variables of sbatch that say where jobs run and who pays → the options that they mean."""

CLUSTERS = frozenset({"SLURM_CLUSTERS"})
"""The variables of all clients that name another cluster. There the jobs would not be found again."""


def for_clients(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` without SLURM's variables, those of ``REACH`` excepted, and without those of one job and
    process: with ``--export=ALL`` a job would take the rank of the process that submitted it."""
    return {
        name: value
        for name, value in without_process(environment).items()
        if name in REACH or not (name.startswith(FAMILIES) or name in OF_A_JOB)
    }


def placement(environment: Mapping[str, str], given: Iterable[str]) -> dict[str, str]:
    """Returns the variables of ``PLACES`` that apply to a job, and their values.

    ``given`` are the options that the settings give: where one of them names the place, the variable has no effect.
    """
    named = {option.partition("=")[0].removeprefix("--") for option in given}
    return {name: environment[name] for name, option in PLACES.items() if environment.get(name) and option not in named}


def with_places(environment: Mapping[str, str], given: Sequence[str]) -> tuple[str, ...]:
    """Returns the options of sbatch that ``environment`` adds to those that are ``given``, then these: they decide."""
    places = placement(environment, given)
    return (*(f"--{PLACES[name]}={value}" for name, value in places.items()), *given)


def notes(environment: Mapping[str, str], jobs: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields what the variables of sbatch in ``environment`` do, and which do nothing, as lines for the user.

    ``jobs`` are the options that the settings give, for each kind of job.
    """
    places: dict[str, str] = {}
    for given in jobs:
        places |= placement(environment, given)
    if places:
        values = ", ".join(f"{name}={value}" for name, value in places.items())
        yield f"from the environment, where no setting decides: {values}"
    of_sbatch = {name for name in environment if name.startswith("SBATCH_") or name in CLUSTERS}
    if without_effect := sorted(of_sbatch - PLACES.keys()):
        yield f"without effect: {', '.join(without_effect)} (cluster.options takes options of sbatch)"
