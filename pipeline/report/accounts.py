"""The account of a run: core-hours, GPU-hours and bytes of each stage. Status, runs, page and wandb show it.

    <stage>/<address>/logs/hosts/     when each attempt ran, for which run, and what it held    (core/work_log.py)

Every attempt counts, also one that was killed: what was spent, not what was useful. A stage holds

    outside jobs    at each moment the cores of its attempts on a machine, at most those of the machine
    in a job        at each moment the cores of the job, however many attempts ran in it

A finished stage without an attempt of this run was made by another one, and costs nothing here.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.artifact_files import result_bytes
from headrace.pipeline.core.work_log import Attempt, attempts
from headrace.pipeline.report.formatting import byte_size, rounded
from headrace.train.cost.flops import HOUR_SECONDS

LEAST = 0.001
REUSED = "reused"


@dataclasses.dataclass(frozen=True)
class Spent:
    """The cost of a stage, or of a whole run."""

    stage: str
    core_hours: float = 0.0
    gpu_hours: float = 0.0
    written_bytes: int = 0
    """The size of the results and checkpoints that are there now."""
    attempts: int = 0
    without_end: int = 0
    """Attempts that were killed, or still run."""
    is_reused: bool = False
    """Another run made the artifact."""

    @property
    def texts(self) -> dict[str, str]:
        """Core-hours, GPU-hours and bytes as text, by the titles of their columns. A text is empty for zero."""
        return {
            "core-hours": amount_text(self.core_hours),
            "GPU-hours": amount_text(self.gpu_hours),
            "written": byte_size(self.written_bytes) if self.written_bytes else "",
        }

    def cell(self, title: str) -> str:
        """Returns the text of the column ``title``: of a stage that another run made, ``reused``."""
        return REUSED if self.is_reused else self.texts[title]

    def __str__(self) -> str:
        """All of it on one line: ``12.3 core-h, 4.5 GPU-h, 1.2 GB``."""
        if self.is_reused:
            return REUSED
        texts = zip(self.texts.values(), ("core-h", "GPU-h", ""), strict=True)
        return ", ".join(f"{text} {unit}".strip() for text, unit in texts if text)


def amount_text(amount: float) -> str:
    """Returns hours to three digits; an empty text for none."""
    return "" if not amount else f"< {LEAST}" if amount < LEAST else rounded(amount)


@dataclasses.dataclass(frozen=True)
class Account:
    """The costs of a run, by stage."""

    stages: Sequence[Spent]

    @property
    def total(self) -> Spent:
        """The sum over all stages."""
        return Spent(
            "all",
            sum(spent.core_hours for spent in self.stages),
            sum(spent.gpu_hours for spent in self.stages),
            sum(spent.written_bytes for spent in self.stages),
            sum(spent.attempts for spent in self.stages),
            sum(spent.without_end for spent in self.stages),
        )

    def spent(self, stage: str) -> Spent:
        """Returns what ``stage`` has spent; nothing when the run has no such stage."""
        return next((spent for spent in self.stages if spent.stage == stage), Spent(stage))

    @classmethod
    def of(cls, run: str, folders: Mapping[str, Path], sizes: dict[Path, int] | None = None) -> "Account":
        """Returns the account of the run with the id ``run``, whose stages are in ``folders``.

        ``sizes`` keeps the bytes of folders that are counted for several runs.
        """
        sizes = {} if sizes is None else sizes
        stages = []
        for stage, folder in folders.items():
            own = [attempt for attempt in attempts(folder) if attempt.run == run]
            if own and folder not in sizes:
                sizes[folder] = result_bytes(folder)
            written, without_end = sizes[folder] if own else 0, sum(attempt.end is None for attempt in own)
            is_reused = is_whole(folder) and not own
            stages.append(Spent(stage, *_hours(own), written, len(own), without_end, is_reused))
        return cls(stages)


NOTHING = Account(())


def _hours(own: Sequence[Attempt]) -> tuple[float, float]:
    """Returns the core-hours and GPU-hours of attempts on a stage: the sum over jobs and machines outside jobs."""
    places: defaultdict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in own:
        places[attempt.job, "" if attempt.job else attempt.host].append(attempt)
    held = [_held(together) for together in places.values()]
    return sum(cores for cores, _ in held) / HOUR_SECONDS, sum(gpus for _, gpus in held) / HOUR_SECONDS


def _held(together: Sequence[Attempt]) -> tuple[float, float]:
    """Returns the seconds of cores and GPUs that attempts held that were in one job, or on one machine."""
    in_job = bool(together[0].job)
    most_cores = max(attempt.held_cores if in_job else attempt.cores for attempt in together)
    most_gpus = max(attempt.held_gpus if in_job else len(attempt.gpus) for attempt in together)
    return (
        _area([(attempt.start, attempt.until, attempt.held_cores) for attempt in together], most_cores),
        _area([(attempt.start, attempt.until, attempt.held_gpus) for attempt in together], most_gpus),
    )


def _area(held: Sequence[tuple[float, float, int]], most: int) -> float:
    """Returns the integral over time of the sum of what is ``held`` (from, until, number), of which there are ``most``.

    It is in units of a second; the attempts are sorted once.
    """
    changes = sorted(change for start, until, number in held for change in ((start, number), (until, -number)))
    area, now_held, before = 0.0, 0, 0.0
    for moment, change in changes:
        area += min(now_held, most) * (moment - before)
        now_held, before = now_held + change, moment
    return area
