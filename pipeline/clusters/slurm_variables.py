"""The environment of SLURM's clients, and so of the jobs that they submit, without the submitter's SLURM variables.

    environment of this process ── for_clients ──> sbatch ── --export=ALL ──> job
                                └─ placement ────> --account=…, --partition=…, options of sbatch

Each client reads options from variables: SQUEUE_PARTITION hides jobs, SBATCH_WAIT keeps sbatch from answering. Their
names differ between versions, so whole families are taken out. Those that a client needs to reach the controller are
kept. A few name a place that users choose on purpose (``PLACES``). They become options, unless a setting names it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.pipeline.core.environment import OF_A_JOB, without_process

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
