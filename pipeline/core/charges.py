"""The counts of a scheduler's accounting for the jobs of a run, kept in the folder of its run.json.

    <root>/runs/<id>/charges.json     {"117": [{"start": 1763822160.0, "seconds": 840, "cores": 16, "gpus": 2, …}, …]}

Only jobs that have ended are kept. One that was put back into the queue has an entry for each start. Accounting covers
what no process of ours can measure: the start of a container, and the time between the end of the ranks and that of the
job.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.settings import decode

FILE = "charges.json"


@dataclasses.dataclass(frozen=True)
class Charge:
    """One start of a job: ``cores`` and ``gpus`` of all its nodes were its own for ``seconds``."""

    job: str
    start: float
    """In seconds since 1970."""
    seconds: float
    cores: int
    gpus: int
    is_over: bool
    """False while the job runs: ``seconds`` grow."""


def read_charges(run_folder: Path) -> dict[str, list[Charge]]:
    """Returns the charges of each job that are kept in the folder of a run; none when the file is not readable."""
    try:
        by_job = read_json(run_folder / FILE)
        return {job: [decode(Charge, entry, job) for entry in entries] for job, entries in by_job.items()}
    except (HeadraceError, OSError, AttributeError, TypeError):  # absent, or damaged: the scheduler is asked again
        return {}


def keep_charges(run_folder: Path, before: Mapping[str, Sequence[Charge]], new: Iterable[Charge]) -> None:
    """Keeps the charges ``before``, and ``new`` ones of further jobs."""
    by_job = {job: list(entries) for job, entries in before.items()}
    for charge in new:
        by_job.setdefault(charge.job, []).append(charge)
    if len(by_job) > len(before):
        values = {job: [dataclasses.asdict(entry) for entry in entries] for job, entries in by_job.items()}
        write_json(run_folder / FILE, values)
