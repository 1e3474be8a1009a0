"""Asks the scheduler's accounting for the jobs of a run, and keeps the answer in the folder of its run.json.

    attempts of the stages ── jobs ──> Cluster.charges ──> runs/<id>/charges.json      (core/charges.py)

``headrace status`` and the job of the report ask. A job is asked for until it has ended.
"""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.clusters.cluster_classes import class_of, has_class
from headrace.pipeline.core.attempts import Attempt, attempts
from headrace.pipeline.core.charges import Charge, keep_charges, read_charges
from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.report.accounts import Account, Prices
from headrace.pipeline.run import jobs
from headrace.pipeline.run.saved_runs import SavedRun

CLOCK_SECONDS = 60.0
"""The most by which the clocks of nodes and scheduler may differ."""
RESTART_SECONDS = 86_400.0
"""A start of a job later than this after its last attempt is that of another job: numbers may begin again."""


def ask_charges(run: SavedRun) -> None:
    """Asks for the jobs of ``run`` whose charges are not kept. Without an answer the measured times stand."""
    attempts_of: defaultdict[str, list[Attempt]] = defaultdict(list)
    jobs_of: defaultdict[str, set[str]] = defaultdict(set)  # by the name of the cluster's class
    kept = read_charges(run.file.parent)
    for stage in run.stages:
        own = [attempt for attempt in attempts(stage.folder) if attempt.run == run.id and attempt.job]
        for attempt in own:
            attempts_of[attempt.job].append(attempt)
        for cluster in {job.cluster for job in jobs.records(stage).values() if has_class(job.cluster)}:
            jobs_of[cluster] |= {attempt.job for attempt in own if attempt.job not in kept}
    for cluster, asked in jobs_of.items() if run.is_own else ():
        with contextlib.suppress(HeadraceError, OSError):  # no accounting now, or the root is not writable
            charges = class_of(cluster).charges(sorted(asked)) if asked else []
            own_charges = [charge for charge in charges if _is_of(charge, attempts_of[charge.job])]
            going = {charge.job for charge in own_charges if not charge.is_over}
            ended = [charge for charge in own_charges if charge.job not in going]
            keep_charges(run.file.parent, read_charges(run.file.parent), ended)


def account_of(run: SavedRun, sizes: dict[Path, int] | None = None) -> Account:
    """Returns what ``run`` has spent. ``sizes`` keeps the bytes of folders that runs share."""
    folders = {stage.name: stage.folder for stage in run.stages}
    return Account.of(run.file.parent, folders, Prices.of(run.values["config"]), sizes)


def _is_of(charge: Charge, known: Sequence[Attempt]) -> bool:
    """Whether ``charge`` is of the job with the ``known`` attempts, by its time: the number may be that of another."""
    first, last = min(attempt.start for attempt in known), max(attempt.until for attempt in known)
    return first - CLOCK_SECONDS <= charge.start + charge.seconds and charge.start <= last + RESTART_SECONDS
