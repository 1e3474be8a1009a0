"""The account of a run: core-hours, GPU-hours, bytes and money of each stage. Status, runs, page and wandb show it.

    <stage>/<address>/logs/hosts/     when each attempt ran, for which run, and what it held    (core/attempts.py)
    <root>/runs/<id>/charges.json     what the scheduler has counted for a job                  (core/charges.py)

Every attempt counts, also one that was killed: what was spent, not what was useful. A stage holds

    outside jobs    at each moment the cores of its attempts on a machine, at most those of the machine
    in a job        at each moment the cores of the job, however many attempts ran in it

A job that the scheduler has counted costs what the scheduler says, divided among the stages that ran in it by their
measured times. A finished stage without an attempt of this run was made by another one, and costs nothing here.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.attempts import Attempt, attempts
from headrace.pipeline.core.charges import Charge, read_charges
from headrace.pipeline.core.folder_sizes import result_bytes
from headrace.pipeline.report.formatting import byte_size, rounded
from headrace.train.cost.flops import HOUR_SECONDS

LEAST = 0.001
REUSED = "reused"


@dataclasses.dataclass(frozen=True)
class Prices:
    """The prices of a run. None is a price that is not known: what it would be paid for costs nothing."""

    core_hour: float | None = None
    gpu_hour: float | None = None
    currency: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Prices":
        """Returns the prices in the saved settings of a run; those of earlier versions have none."""
        core_hour, gpu_hour = config.get("price_per_core_hour"), config.get("price_per_gpu_hour")
        return cls(core_hour, gpu_hour, str(config.get("currency") or ""))


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
    prices: Prices = Prices()

    @property
    def price(self) -> float | None:
        """The price in ``prices.currency``; None when no price is known."""
        if self.prices.core_hour is None and self.prices.gpu_hour is None:
            return None
        return self.core_hours * (self.prices.core_hour or 0) + self.gpu_hours * (self.prices.gpu_hour or 0)

    @property
    def texts(self) -> dict[str, str]:
        """Core-hours, GPU-hours, bytes and price as text, by the titles of their columns. A text is empty for zero."""
        return {
            "core-hours": amount_text(self.core_hours),
            "GPU-hours": amount_text(self.gpu_hours),
            "written": byte_size(self.written_bytes) if self.written_bytes else "",
            "price": f"{amount_text(self.price)} {self.prices.currency}".strip() if self.price else "",
        }

    def cell(self, title: str) -> str:
        """Returns the text of the column ``title``: of a stage that another run made, ``reused``."""
        return REUSED if self.is_reused else self.texts[title]

    def __str__(self) -> str:
        """All of it on one line: ``12.3 core-h, 4.5 GPU-h, 1.2 GB, 34 EUR``."""
        if self.is_reused:
            return REUSED
        texts = zip(self.texts.values(), ("core-h", "GPU-h", "", ""), strict=True)
        return ", ".join(f"{text} {unit}".strip() for text, unit in texts if text)


def amount_text(amount: float) -> str:
    """Returns hours or money to three digits; an empty text for none."""
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
            prices=self.stages[0].prices if self.stages else Prices(),
        )

    def spent(self, stage: str) -> Spent:
        """Returns what ``stage`` has spent; nothing when the run has no such stage."""
        return next((spent for spent in self.stages if spent.stage == stage), Spent(stage))

    @classmethod
    def of(
        cls, run_folder: Path, folders: Mapping[str, Path], prices: Prices, sizes: dict[Path, int] | None = None
    ) -> "Account":
        """Returns the account of the run whose run.json is in ``run_folder``, and whose stages are in ``folders``.

        ``sizes`` keeps the bytes of folders that are counted for several runs.
        """
        sizes = {} if sizes is None else sizes
        run = run_folder.name
        own = {
            stage: [attempt for attempt in attempts(folder) if attempt.run == run] for stage, folder in folders.items()
        }
        seconds = _seconds(own, read_charges(run_folder))
        stages = []
        for stage, folder in folders.items():
            if folder not in sizes and own[stage]:
                sizes[folder] = result_bytes(folder)
            core_seconds, gpu_seconds = seconds[stage]
            stages.append(
                Spent(
                    stage,
                    core_seconds / HOUR_SECONDS,
                    gpu_seconds / HOUR_SECONDS,
                    sizes[folder] if own[stage] else 0,
                    len(own[stage]),
                    sum(attempt.end is None for attempt in own[stage]),
                    is_reused=is_whole(folder) and not own[stage],
                    prices=prices,
                )
            )
        return cls(stages)


NOTHING = Account(())

Seconds = tuple[float, float]
"""Seconds of cores, and of GPUs."""


def _seconds(own: Mapping[str, Sequence[Attempt]], charges: Mapping[str, Sequence[Charge]]) -> dict[str, Seconds]:
    """Returns what the attempts ``own`` of each stage have held, by stage. ``charges`` are given by job."""
    totals: defaultdict[str, Seconds] = defaultdict(lambda: (0.0, 0.0))
    for place, by_stage in _by_place(own).items():
        measured = {stage: _held(stage_attempts) for stage, stage_attempts in by_stage.items()}
        charged = charges.get(place[0], ())
        for stage, (cores, gpus) in (_divided(charged, measured) if charged else measured).items():
            totals[stage] = (totals[stage][0] + cores, totals[stage][1] + gpus)
    return totals


def _by_place(own: Mapping[str, Sequence[Attempt]]) -> dict[tuple[str, str], dict[str, list[Attempt]]]:
    """Returns the attempts by job, or by machine outside jobs, and then by stage."""
    places: defaultdict[tuple[str, str], defaultdict[str, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for stage, stage_attempts in own.items():
        for attempt in stage_attempts:
            places[attempt.job, "" if attempt.job else attempt.host][stage].append(attempt)
    return {place: dict(by_stage) for place, by_stage in places.items()}


def _divided(charged: Sequence[Charge], measured: Mapping[str, Seconds]) -> dict[str, Seconds]:
    """Divides the charges of a job among its stages by the core-seconds that were ``measured`` of each."""
    cores = sum(charge.seconds * charge.cores for charge in charged)
    gpus = sum(charge.seconds * charge.gpus for charge in charged)
    whole = sum(own_cores for own_cores, _ in measured.values())
    shares = {stage: own_cores / whole if whole else 1 / len(measured) for stage, (own_cores, _) in measured.items()}
    return {stage: (share * cores, share * gpus) for stage, share in shares.items()}


def _held(together: Sequence[Attempt]) -> Seconds:
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
