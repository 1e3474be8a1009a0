"""The findings of a study: its runs, the verdicts on its claims, and the tables that the terminal and the page show."""

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from headrace.pipeline.experiments.arm_plans import VARIED, VARIED_TUNING, ArmPlan
from headrace.pipeline.experiments.measures import Reading
from headrace.pipeline.experiments.study_file import Cell, SizeName, Study, parts_of
from headrace.pipeline.experiments.verdict import (
    AT_CHANCE,
    BySeed,
    ClaimVerdict,
    IntervalEnds,
    Measured,
    decided,
    difference,
    is_at_chance,
    over,
)
from headrace.pipeline.report.formatting import decimal, duration, short
from headrace.train.cost.flops import PEAK_FLOPS

CPU_FLOPS = 6e10
"""FLOP/s that two CPU cores reach with models of about a million parameters: the estimate before anything has run."""
GPU, MFU = "H100", 0.4
UNKNOWN = "–"
FREQUENCIES = "frequencies of tokens alone"
"""The name of the unigram loss."""
TextTable = list[list[str]]
"""The header, then the rows."""


@dataclasses.dataclass(frozen=True)
class SeedRun:
    """One run of a study, and what became of it."""

    arm: str
    seed: int
    state: str
    id: str = ""
    """The id of the run; empty: it was not started."""
    reading: Reading | None = None
    """None before its end."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """A study with its runs at one size."""

    name: str
    study: Study
    size: SizeName
    seeds: int
    plans: Sequence[ArmPlan]
    runs: Sequence[SeedRun]

    def measured(self, arm: str, measure: str) -> dict[int, Measured]:
        """Returns what the runs of ``arm`` measured, by seed."""
        of_arm = {run.seed: run.reading.values for run in self.runs if run.arm == arm and run.reading is not None}
        return {seed: values[measure] for seed, values in of_arm.items() if measure in values}

    @cached_property
    def decisions(self) -> list[ClaimVerdict]:
        """The verdict on each claim."""
        verdicts: list[ClaimVerdict] = []
        for claim in self.study.claims:
            values: dict[str, BySeed] = {
                value: difference(*(self.measured(*self.study.reference(part)) for part in parts_of(value)))
                for value in claim.rising
                if isinstance(value, str)
            }
            verdicts.append(decided(claim.claim, claim.rising, claim.by, values))
        return verdicts

    @property
    def finished(self) -> list[SeedRun]:
        return [run for run in self.runs if run.reading is not None]

    @property
    def unigram(self) -> float | None:
        """The loss of the frequencies of tokens alone; None where it is unknown, or the runs have different text."""
        losses = {run.reading.unigram for run in self.runs if run.reading is not None}
        return losses.pop() if len(losses) == 1 else None

    @property
    def flops(self) -> float:
        """The operations of all runs."""
        return self.seeds * sum(plan.compute.flops for plan in self.plans)

    def held(self) -> str:
        """Returns what the arms have in common, with its value, and the range of what they do not."""
        parts, plans = [], [plan for plan in self.plans if plan.is_pretrained] or self.plans
        for quantity in plans[0].held:
            values = [plan.held[quantity] for plan in plans]
            low, high = _amount(min(values)), _amount(max(values))
            equal = quantity in self.study.held_equal or min(values) == max(values)
            parts.append(f"{quantity} {low}" if equal else f"{quantity} differ, {low} to {high}")
        return "; ".join(parts)

    def cost(self) -> str:
        """Returns the time of the finished trainings, and an estimate for the others."""
        flops = {plan.name: plan.compute.flops for plan in self.plans}
        tokens = {plan.name: plan.compute.tokens for plan in self.plans}
        seconds = sum(run.reading.seconds for run in self.runs if run.reading)
        read = short(sum(tokens[run.arm] for run in self.finished))
        left = self.flops - sum(flops[run.arm] for run in self.finished)
        spent = f"{duration(seconds)} of training in {len(self.finished)} runs, {read} tokens"
        if len(self.finished) == len(self.runs):
            return spent
        if left == self.flops:
            return estimate(self.flops, self.size) + tuning_cost(self.plans, self.seeds)
        more = duration(left * seconds / (self.flops - left))
        return f"{spent}; about {more} more for {len(self.runs) - len(self.finished)} runs"

    def arms_table(self) -> TextTable:
        """Returns a row for each arm: its settings, sizes, and of each measure the mean and interval over
        seeds, with a mark where it is at chance."""
        head = ["arm", "settings", "parameters", "FLOP", "tokens", *self.study.measures, "seeds", "state"]
        rows = []
        for plan in self.plans:
            values = [self._cell(plan.name, measure) for measure in self.study.measures]
            of_arm = [run for run in self.runs if run.arm == plan.name]
            done = sum(run.reading is not None for run in of_arm)
            others = dict.fromkeys(run.state for run in of_arm if run.reading is None)
            sizes = [_amount(plan.held[quantity]) for quantity in ("parameters", "flops", "tokens")]
            settings = " ".join(self.study.arms[plan.name]) or UNKNOWN
            rows.append([plan.name, settings, *sizes, *values, f"{done} of {self.seeds}", "; ".join(others) or "done"])
        return [head, *rows]

    def _cell(self, arm: str, measure: str) -> str:
        measured = self.measured(arm, measure)
        values = [value.value for value in measured.values()]
        if not values:
            return UNKNOWN
        return decimal(statistics.fmean(values), 4) + _ends(over(values)) + f" {AT_CHANCE}" * is_at_chance(measured)

    def verdicts_table(self) -> TextTable:
        """Returns a row for each step of each claim, with its intervals and the verdict on the claim."""
        intervals = ["over seeds, 95 %", "over documents, 95 %"]
        head = ["claim", "higher − lower", "difference", *intervals, "more than", "verdict"]
        rows = []
        for verdict in self.decisions:
            for number, step in enumerate(verdict.steps):
                first = number == 0
                difference = UNKNOWN if step.difference is None else f"{step.difference:+.4f}"
                intervals = [_ends(step.over_seeds) or UNKNOWN, _ends(step.over_items) or UNKNOWN]
                numbers = [difference, *map(str.strip, intervals), f"{verdict.by:g}"]
                rows.append([verdict.claim * first, step.pair, *numbers, verdict.verdict * first])
        return [head, *rows]

    def published_table(self) -> TextTable:
        """Returns the table of the publication; empty when the study has none."""
        published = self.study.published
        return [list(published.head), *([_text(cell) for cell in row] for row in published.rows)] if published else []

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yields the question, the expectation, what is equal and varied, the verdicts, and the cost."""
        yield "question", self.study.question
        yield "expectation", self.study.expectation
        yield "equal in all arms", self.held()
        yield "varied by seed", f"{VARIED}; {VARIED_TUNING}" if self.study.is_of_finetuning else VARIED
        if self.study.needs:
            yield "yours to give", "; ".join(f"{setting}=…, {what}" for setting, what in self.study.needs.items())
        for verdict in self.decisions:
            yield verdict.verdict, verdict.claim
        if self.unigram is not None:
            yield FREQUENCIES, f"{self.unigram:.4f} nats per token of the held-out text, without any context"
        yield "cost", self.cost()
        if self.study.published:
            yield "published", f"{self.study.published.source}; {self.study.published.scale}"

    def notes(self) -> Iterator[str]:
        """Yields sentences about what is not there, and the notes of the study."""
        planned = {plan.name for plan in self.plans}
        for arm in (arm for arm in self.study.arms if arm not in planned):
            needs = self.study.arm_needs[arm].items()
            given = " ".join(f"--arm {arm}:{setting}=… ({what})" for setting, what in needs)
            yield f"The arm {arm} is left out, because it needs files of yours: {given}."
        if left := len(self.runs) - len(self.finished):
            yield f"{left} of {len(self.runs)} runs have no result yet; the same command goes on."
        if self.seeds < 2:
            yield "With one seed there is no interval over seeds, so no claim is decided: give --seeds 3."
        yield from self.study.notes

    def as_json(self) -> dict[str, Any]:
        """Returns plain values: runs with their measures and curves, decisions, sizes of arms."""
        arms = [{"name": plan.name, "overrides": plan.decisive, **plan.held} for plan in self.plans]
        return {
            "study": self.name,
            "size": self.size,
            "seeds": self.seeds,
            "unigram": self.unigram,
            "arms": arms,
            "runs": [_run_json(run) for run in self.runs],
            "decisions": [dataclasses.asdict(verdict) for verdict in self.decisions],
        }


def estimate(flops: float, size: SizeName) -> str:
    """Returns ``flops`` operations with their time on the machine that ``size`` is meant for."""
    if size == "tiny":
        return f"{flops:.2g} FLOP: about {duration(flops / CPU_FLOPS)} on two CPU cores"
    seconds = flops / (PEAK_FLOPS[GPU] * MFU)
    return f"{flops:.2g} FLOP: about {duration(seconds)} on one {GPU} at {MFU:.0%} MFU"


def tuning_cost(plans: Sequence[ArmPlan], seeds: int) -> str:
    """Returns the fine-tunings of ``plans`` as an addition to their estimate; empty if there are none.

    Their operations depend on the lengths of the examples, which are not known before they are read.
    """
    recipes = [plan.config.finetune for plan in plans if plan.config.finetune is not None]
    if not recipes:
        return ""
    first = recipes[0]
    length = f"{first.steps:,} updates" if first.steps else f"{first.epochs:g} epochs"
    return f"; and {seeds * len(recipes)} fine-tunings of {length} of {first.batch_rows} examples"


def _run_json(run: SeedRun) -> dict[str, Any]:
    values: Mapping[str, Measured] = run.reading.values if run.reading else {}
    return {
        "arm": run.arm,
        "seed": run.seed,
        "state": run.state,
        "values": {name: measured.value for name, measured in values.items()},
        "seconds": run.reading and round(run.reading.seconds, 1),
        "curve": run.reading and list(run.reading.curve),
    }


def _ends(interval: IntervalEnds | None) -> str:
    return "" if interval is None else f" [{', '.join(decimal(end, 4) for end in interval)}]"


def _amount(number: float) -> str:
    return f"{number:.3g}" if number >= 1e9 else f"{number:,.0f}"


def _text(cell: Cell) -> str:
    return UNKNOWN if cell is None else f"{cell:g}" if isinstance(cell, float) else cell
