"""SLURM's accounting: what each start of a job held, and for how long, as sacct has it.

    117|1763822160|840|16|billing=16,cpu=16,gres/gpu=2,node=2|COMPLETED
    JobIDRaw|Start|ElapsedRaw|AllocCPUS|AllocTRES|State            (sacct's manual)

A cluster without accounting (AccountingStorageType=accounting_storage/none) has no entries.
"""

import re
from collections.abc import Iterator, Sequence

from headrace.pipeline.clusters.slurm_client import ENDED, ask
from headrace.pipeline.core.charges import Charge

JOBS_OF_A_CALL = 1_000
"""The most jobs that one call asks for: an argument of a program has at most 131,072 bytes (execve(2))."""
FIELDS = "JobIDRaw,Start,ElapsedRaw,AllocCPUS,AllocTRES,State"
ROW = re.compile(r"(\d+)\|(\d+)\|(\d+)\|(\d+)\|([^|]*)\|(\w+)[^|]*")
"""A row of a job that has started: one that waits has no time of a start."""
GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
REQUEUED = "REQUEUED"


def charges(jobs: Sequence[str]) -> list[Charge]:
    """Returns an entry for each start of each of ``jobs``; none without accounting.

    Raises:
        ConfigError, TaskError: see ``ask``.
    """
    rows: list[Charge] = []
    for first in range(0, len(jobs), JOBS_OF_A_CALL):
        which = f"--jobs={','.join(jobs[first : first + JOBS_OF_A_CALL])}"
        # --duplicates: each start of a job; --allocations: no row for each step
        command = ["sacct", "--noheader", "--parsable2", "--duplicates", "--allocations", which, f"--format={FIELDS}"]
        rows += _read(ask(command, SLURM_TIME_FORMAT="%s").stdout)  # times in seconds since 1970, in no zone
    return rows


def _read(answer: str) -> Iterator[Charge]:
    for line in answer.splitlines():
        if row := ROW.fullmatch(line.strip()):
            job, start, seconds, cores, resources, state = row.groups()
            gpus = GPUS.search(resources)
            is_over = state in ENDED or state == REQUEUED
            yield Charge(job, float(start), float(seconds), int(cores), int(gpus[1]) if gpus else 0, is_over)
