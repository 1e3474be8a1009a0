"""Carries out a study and shows what follows: tables in the terminal, a page, JSON. Or lists the studies.

Every arm is trained with every seed, one seed of all arms after the other.
"""

import dataclasses
import re
import statistics
import typing
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.pipeline.command_line.result_files import Captioned, Results, TextTable, write_files
from headrace.pipeline.configuration.options import studies
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.core.statistics import IntervalEnds
from headrace.pipeline.experiments.arms import DONE, NO_VALUE, ArmResult, arm_results
from headrace.pipeline.experiments.measures import (
    AT_CHANCE,
    CONFIRMED,
    CONTRADICTED,
    FINETUNED,
    ClaimVerdict,
    Measured,
    decided,
    difference,
    interval,
    is_at_chance,
)
from headrace.pipeline.experiments.study_file import SizeName, Study, StudyArm, arm_plans, parts_of, read_study
from headrace.pipeline.output import terminal
from headrace.pipeline.report.drawing import Points, losses
from headrace.pipeline.report.formatting import decimal, duration
from headrace.pipeline.report.score_figures import Interval, forest
from headrace.pipeline.tracking.wandb_run import grouped
from headrace.train.cost.flops import PEAK_FLOPS

SHOTS = re.compile(r"_\d+shot\Z")
"""The end that evaluation.shots adds to the name of a benchmark."""
VARIED = "training.seed: first weights, order of rows, dropout and the noise of objectives"
"""The difference between the runs of one arm."""
VARIED_TUNING = "finetune.seeds: the first weights of the head, the order of examples"
"""The same of a fine-tuning."""
CPU_FLOPS = 6e10
"""FLOP/s that two CPU cores reach with models of about a million parameters: the estimate before anything has run."""
GPU, MFU = "H100", 0.4


@dataclasses.dataclass(frozen=True)
class Findings:
    """A study with its runs at one size."""

    name: str
    study: Study
    size: SizeName
    seeds: int
    plans: Sequence[StudyArm]
    runs: Sequence[ArmResult]

    def measured(self, arm: str, measure: str) -> dict[int, Measured]:
        """Returns what the runs of ``arm`` measured, by seed."""
        of_arm = {run.seed: run.reading.values for run in self.runs if run.arm == arm and run.reading is not None}
        return {seed: values[measure] for seed, values in of_arm.items() if measure in values}

    @cached_property
    def decisions(self) -> list[ClaimVerdict]:
        """The verdict on each claim."""
        verdicts: list[ClaimVerdict] = []
        for claim in self.study.claims:
            values = {
                value: difference(*(self.measured(*self.study.reference(part)) for part in parts_of(value)))
                for value in claim.rising
                if isinstance(value, str)
            }
            verdicts.append(decided(claim.claim, claim.rising, claim.by, values))
        return verdicts

    @property
    def finished(self) -> list[ArmResult]:
        """The runs that measured something."""
        return [run for run in self.runs if run.reading is not None]

    @property
    def extent(self) -> str:
        """The size and the number of seeds, for readers."""
        return f"size {self.size}, {self.seeds} seed{'s' * (self.seeds > 1)}"

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
        """Returns the time of the finished trainings; before, an estimate for all."""
        if not self.finished:
            return estimate(self.seeds * sum(plan.compute.flops for plan in self.plans), self.size)
        seconds = sum(run.reading.seconds for run in self.runs if run.reading)
        return f"{duration(seconds)} of training in {len(self.finished)} of {len(self.runs)} runs"

    def arms_table(self) -> TextTable:
        """Returns a row for each arm: its settings, sizes, and of each measure the mean and interval over
        seeds, with a mark where it is at chance."""
        rows = [["arm", "settings", "parameters", "FLOP", "tokens", *self.study.measures, "seeds", "state"]]
        for plan in self.plans:
            values = [self._cell(plan.name, measure) for measure in self.study.measures]
            of_arm = [run for run in self.runs if run.arm == plan.name]
            done = sum(run.reading is not None for run in of_arm)
            others = dict.fromkeys(run.state for run in of_arm if run.reading is None)
            sizes = [_amount(plan.held[quantity]) for quantity in ("parameters", "flops", "tokens")]
            settings = " ".join(self.study.arms[plan.name]) or NO_VALUE
            rows.append([plan.name, settings, *sizes, *values, f"{done} of {self.seeds}", "; ".join(others) or DONE])
        return rows

    def _cell(self, arm: str, measure: str) -> str:
        measured = self.measured(arm, measure)
        if not measured:
            return NO_VALUE
        mark = f" {AT_CHANCE}" if is_at_chance(measured) else ""
        mean = statistics.fmean(value.value for value in measured.values())
        return decimal(mean, 4) + _ends(interval(measured), " [{}]") + mark

    def verdicts_table(self) -> TextTable:
        """Returns a row for each step of each claim, with its intervals and the verdict on the claim."""
        intervals = ["over seeds, 95 %", "over documents, 95 %"]
        rows = [["claim", "higher − lower", "difference", *intervals, "more than", "verdict"]]
        for verdict in self.decisions:
            ends: tuple[str, str] = verdict.claim, verdict.verdict
            for step in verdict.steps:
                value = NO_VALUE if step.difference is None else f"{step.difference:+.4f}"
                intervals = [_ends(interval, "[{}]") or NO_VALUE for interval in (step.over_seeds, step.over_items)]
                rows.append([ends[0], step.pair, value, *intervals, f"{verdict.by:g}", ends[1]])
                ends = "", ""
        return rows

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yields the question, the expectation, what is equal and varied, the verdicts, and the cost."""
        yield "study", f"{self.study.title}, {self.extent}"
        yield "question", self.study.question
        yield "expectation", self.study.expectation
        yield "equal in all arms", self.held()
        yield "varied by seed", f"{VARIED}; {VARIED_TUNING}" if FINETUNED in self.study.last_stages else VARIED
        if self.study.needs:
            yield "yours to give", "; ".join(f"{setting}=…, {what}" for setting, what in self.study.needs.items())
        for verdict in self.decisions:
            yield verdict.verdict, verdict.claim
        yield "cost", self.cost()

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

    def results(self) -> Results:
        """Returns what the terminal and the page show."""
        tables = [("verdicts", "Verdicts by the rule", self.verdicts_table()), ("arms", "Arms", self.arms_table())]
        lede = f"Headrace study {self.name}: {len(self.plans)} arms, {self.extent}"
        return Results(self.study.title, lede, tables, list(self.facts()), list(self.notes()))

    def figures(self) -> Captioned:
        """Returns the figures that the finished runs allow, each with its caption.

        Measures of one metric, of groups or numbers of worked examples, are one figure.
        """
        arms, metrics = [plan.name for plan in self.plans], dict[str, list[Interval]]()
        for measure, source in self.study.measures.items():
            benchmark, dot, metric = source.partition("@")[0].partition(".")
            rows = metrics.setdefault(SHOTS.sub("", benchmark) + dot + metric, [])
            for arm in arms:
                if by_seed := self.measured(arm, measure):
                    mean = statistics.fmean(measured.value for measured in by_seed.values())
                    rows.append(Interval(arm, measure, mean, *(interval(by_seed) or (mean, mean)), "*"))
        claims = [
            Interval(step.pair, "difference", step.difference, *step.over_seeds, mark)
            for verdict in self.decisions
            for step in verdict.steps
            if step.difference is not None and step.over_seeds is not None
            for mark in ["*" if step.verdict in (CONFIRMED, CONTRADICTED) else ""]
        ]
        curves = {arm: [run.reading.curve for run in self.runs if run.arm == arm and run.reading] for arm in arms}
        drawn = [
            (forest(f"measure-{re.sub('[.:]', '-', metric)}", rows, metric), "Mean over seeds, with the 95 % interval.")
            for metric, rows in metrics.items()
        ]
        drawn += [
            (forest("claims", claims, "higher − lower"), "Differences of the claims, paired by seed, with the 95 % "
             "interval over seeds. Filled: the interval lies on one side of what the claim asks for."),
            (losses({arm: _mean_curve(of_runs) for arm, of_runs in curves.items()}),
             "Validation loss of each arm, the mean over seeds."),
        ]  # fmt: skip
        return [(figure, caption) for figure, caption in drawn if figure is not None]

    def as_json(self) -> dict[str, Any]:
        """Returns plain values: runs with their measures and curves, decisions, sizes of arms."""
        arms = [{"name": plan.name, "overrides": list(plan.overrides), **plan.held} for plan in self.plans]
        return {
            "study": self.name,
            "size": self.size,
            "seeds": self.seeds,
            "arms": arms,
            "runs": [_run_json(run) for run in self.runs],
            "decisions": [dataclasses.asdict(verdict) for verdict in self.decisions],
        }


def carry_out_study(
    name: str,
    overrides: Sequence[str],
    seeds: str,
    size: str,
    page: Path | None,
    json_file: Path | None,
    starts: bool,
    of_arms: Sequence[str] = (),
) -> None:
    """Carries out the study ``name``, and shows its results.

    Args:
        name: the file of the study, without its ending.
        overrides: settings of all arms, in addition to those of the study.
        seeds: the number of runs of each arm, as the user typed it.
        size: tiny, small or paper.
        page: the HTML file to write.
        json_file: the JSON file to write.
        starts: whether missing runs are started.
        of_arms: settings of single arms, each as ``ARM:KEY=VALUE``.

    Raises:
        ConfigError: when the study, the size or an override is wrong; nothing was started.
        HeadraceError: the first error of a run, after the results.
    """
    whole, number = read_study(name), value_of(Positive, seeds, "--seeds")
    if size not in (sizes := typing.get_args(SizeName)):
        raise ConfigError("--size", f"unknown size {size!r}", suggestion(size, sizes))
    at = typing.cast(SizeName, size)
    study = whole.at(at)
    if starts:
        study.check_needs(name, overrides)
    plans = arm_plans(name, study, at, overrides, study.by_arm(of_arms))
    with grouped(f"{name}-{size}"):
        wanted = [plan.seeded(seed) for seed in range(number) for plan in plans]
        runs, errors = arm_results("study", wanted, study.measures, study.last_stage, starts)
    findings = Findings(name, study, at, number, plans, runs)
    shown = findings.results()
    shown.show()
    write_files(json_file, findings.as_json(), page, lambda: shown.page(findings.figures()))
    if errors:
        raise errors[0]


def show_studies(overrides: Sequence[str]) -> None:
    """Prints a table of all studies."""
    rows = []
    for name in studies():
        try:
            study = read_study(name)
            rows.append([name, study.title, ", ".join(study.arms)])
        except ConfigError as error:
            rows.append([name, NO_VALUE, f"wrong: {error}"])
    terminal.show_lines(["study", "title", "arms"], rows)


def estimate(flops: float, size: SizeName) -> str:
    """Returns ``flops`` operations with their time on the machine that ``size`` is meant for."""
    if size == "tiny":
        return f"{flops:.2g} FLOP: about {duration(flops / CPU_FLOPS)} on two CPU cores"
    seconds = flops / (PEAK_FLOPS[GPU] * MFU)
    return f"{flops:.2g} FLOP: about {duration(seconds)} on one {GPU} at {MFU:.0%} MFU"


def _run_json(run: ArmResult) -> dict[str, Any]:
    values = run.reading.values if run.reading else {}
    return {
        "arm": run.arm,
        "seed": run.seed,
        "state": run.state,
        "values": {name: measured.value for name, measured in values.items()},
        "seconds": run.reading and round(run.reading.seconds, 1),
        "curve": run.reading and list(run.reading.curve),
    }


def _mean_curve(curves: Sequence[Points]) -> Points:
    """Returns the mean of ``curves`` at the steps that all of them have."""
    of_runs = [dict(curve) for curve in curves]
    steps = sorted(set[float].intersection(*map(set, of_runs))) if of_runs else []
    return [(step, statistics.fmean(curve[step] for curve in of_runs)) for step in steps]


def _ends(interval: IntervalEnds | None, form: str) -> str:
    """Returns ``interval`` in ``form``, where {} stands for its ends; empty for None."""
    return "" if interval is None else form.format(", ".join(decimal(end, 4) for end in interval))


def _amount(number: float) -> str:
    return f"{number:.3g}" if number >= 1e9 else f"{number:,.0f}"
