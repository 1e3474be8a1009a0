"""Carries out a study and shows what follows: tables in the terminal, a page, JSON. Or lists the studies.

Every arm is trained with every seed, one seed of all arms after the other. The list has a line for each study, with
the runs that are finished and the estimated cost of all.
"""

import dataclasses
import re
import statistics
import typing
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.configuration.options import studies
from headrace.pipeline.core.errors import ConfigError, HeadraceError, suggestion
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.core.statistics import IntervalEnds, mean_interval
from headrace.pipeline.experiments.arms import (
    DONE,
    NO_VALUE,
    NOT_STARTED,
    STARTED,
    ArmResult,
    TextTable,
    all_carried_out,
    all_checked,
    carried_out,
)
from headrace.pipeline.experiments.figures import study_figures
from headrace.pipeline.experiments.measures import Measured, read
from headrace.pipeline.experiments.study_file import (
    Cell,
    SeededArm,
    SizeName,
    Study,
    StudyArm,
    arm_plan,
    arm_plans,
    parts_of,
    read_study,
)
from headrace.pipeline.experiments.verdict import AT_CHANCE, ClaimVerdict, decided, difference, is_at_chance
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.report.drawing import Figure
from headrace.pipeline.report.formatting import decimal, duration, short
from headrace.pipeline.run.saved_run import SavedRun, run_file, saved_runs
from headrace.pipeline.tracking.settings import grouped
from headrace.train.cost.flops import PEAK_FLOPS

VARIED = "training.seed: first weights, order of rows, dropout and the noise of objectives"
"""The difference between the runs of one arm."""
VARIED_TUNING = "finetune.seeds: the first weights of the head, the order of examples"
"""The same of a fine-tuning."""
CPU_FLOPS = 6e10
"""FLOP/s that two CPU cores reach with models of about a million parameters: the estimate before anything has run."""
GPU, MFU = "H100", 0.4
SEEDS = 3
"""The seeds of the cost in the list, as the command takes them without ``--seeds``."""
HEAD = ["study", "title", "arms", "finished runs", f"cost of size tiny with {SEEDS} seeds, all arms as the first"]


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
        """Returns the time of the finished trainings, and an estimate for the others."""
        flops = {plan.name: plan.compute.flops for plan in self.plans}
        tokens = {plan.name: plan.compute.tokens for plan in self.plans}
        seconds = sum(run.reading.seconds for run in self.runs if run.reading)
        read_tokens = short(sum(tokens[run.arm] for run in self.finished))
        total = self.seeds * sum(flops.values())
        left = total - sum(flops[run.arm] for run in self.finished)
        spent = f"{duration(seconds)} of training in {len(self.finished)} runs, {read_tokens} tokens"
        if len(self.finished) == len(self.runs):
            return spent
        if left == total:
            return estimate(total, self.size) + tuning_cost(self.plans, self.seeds)
        more = duration(left * seconds / (total - left))
        return f"{spent}; about {more} more for {len(self.runs) - len(self.finished)} runs"

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
        values = [value.value for value in measured.values()]
        if not values:
            return NO_VALUE
        mark = f" {AT_CHANCE}" if is_at_chance(measured) else ""
        return decimal(statistics.fmean(values), 4) + _ends(mean_interval(values), " [{}]") + mark

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

    def show(self) -> None:
        """Prints the facts, the tables and the notes."""
        terminal.show([("study", f"{self.study.title}, {self.extent}"), *self.facts()])
        for head, *rows in (self.arms_table(), self.verdicts_table()):
            print()
            show_lines(head, rows)
        if notes := list(self.notes()):
            print("", *notes, sep="\n")

    def page_values(self) -> dict[str, object]:
        """Returns the values of the template of the page."""
        tables = [("verdicts", "Verdicts by the rule", self.verdicts_table()), ("arms", "Arms", self.arms_table())]
        if published := self.published_table():
            tables.append(("published", "Published numbers, for reference", published))
        size, seeds = self.extent.split(", ")
        return {
            "title": self.study.title,
            "lede": f"Headrace study {self.name}, {size}: {len(self.plans)} arms, {seeds}",
            "facts": list(self.facts()),
            "notes": list(self.notes()),
            "figures": self.figures(),
            "tables": tables,
        }

    def figures(self) -> list[tuple[Figure, str]]:
        """Returns the figures that the finished runs allow, each with its caption."""
        arms, measures = [plan.name for plan in self.plans], self.study.measures
        measured = {arm: {measure: self.measured(arm, measure) for measure in measures} for arm in arms}
        curves = {arm: [run.reading.curve for run in self.runs if run.arm == arm and run.reading] for arm in arms}
        return study_figures(measures, measured, self.decisions, curves)

    def as_json(self) -> dict[str, Any]:
        """Returns plain values: runs with their measures and curves, decisions, sizes of arms."""
        arms = [{"name": plan.name, "overrides": plan.decisive, **plan.held} for plan in self.plans]
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
        runs, errors = study_runs(study, plans, number, starts)
    findings = Findings(name, study, at, number, plans, runs)
    findings.show()
    write_files(json_file, findings.as_json(), page, findings.page_values)
    if errors:
        raise errors[0]


def study_runs(
    study: Study, plans: Sequence[StudyArm], seeds: int, starts: bool
) -> tuple[list[ArmResult], list[HeadraceError]]:
    """Returns what became of the runs, and the errors of those that failed; the others are carried out all the same.

    Without ``starts`` nothing is carried out.

    Raises:
        HeadraceError: when an arm could not start, naming it; its seeds need the same. Then none is started.
    """
    wanted = [plan.seeded(seed) for seed in range(seeds) for plan in plans]
    if starts:
        all_checked((arm.name, arm.values, arm.overrides) for arm in wanted if arm.seed == 0)
    return all_carried_out(
        "study",
        wanted,
        starts,
        lambda arm: _seed_run(study, arm, starts),
        lambda arm, state: ArmResult(arm.name, state, seed=arm.seed),
    )


def _seed_run(study: Study, arm: SeededArm, starts: bool) -> ArmResult:
    """Carries out ``arm``; a finished run is read from its run.json, without planning it."""
    file = run_file(arm.config.root, arm.config.id)
    if starts and not (file.is_file() and _is_done(SavedRun.read(file), study)):
        carried_out(arm.values, arm.overrides, starts, study.last_stage)
    if not file.is_file():
        return ArmResult(arm.name, NOT_STARTED, seed=arm.seed)
    run = SavedRun.read(file)
    if not _is_done(run, study):
        return ArmResult(arm.name, STARTED, run.id, seed=arm.seed)
    reading = read(study.measures, run.stages, arm.config.vocabulary)
    return ArmResult(arm.name, DONE, run.id, reading, arm.seed)


def _is_done(run: SavedRun, study: Study) -> bool:
    """Whether the last stage of the study is finished; run.json holds the stages that its runs went up to."""
    return any(stage.name == study.last_stage and stage.is_whole for stage in run.stages)


def show_studies(overrides: Sequence[str]) -> None:
    """Prints a table of all studies; the cost follows from that of the first arm."""
    done, rows = finished_runs(Path(root_of(overrides))), []
    for name in studies():
        try:
            study = read_study(name).at("tiny")
            first = arm_plan(name, study, "tiny", next(iter(study.arms)), overrides)
            cost = estimate(SEEDS * len(study.arms) * first.compute.flops, "tiny")
            cost += tuning_cost([first] * len(study.arms), SEEDS)
            rows.append([name, study.title, str(len(study.arms)), done.get(name, "none"), cost])
        except ConfigError as error:
            rows.append([name, NO_VALUE, NO_VALUE, NO_VALUE, f"wrong: {error}"])
    show_lines(HEAD, rows)


def finished_runs(root: Path) -> dict[str, str]:
    """Returns the number of finished runs below ``root`` of each study, by size: ``12 tiny, 3 small``."""
    counts: dict[str, Counter[str]] = {}
    for run in saved_runs(root):
        if (label := re.fullmatch(r"(\w+)-(tiny|small|paper)-\w+-\d+", run.name)) and run.steps[-2].is_whole:
            counts.setdefault(label[1], Counter())[label[2]] += 1
    return {name: ", ".join(f"{n} {size}" for size, n in runs_of_size.items()) for name, runs_of_size in counts.items()}


def estimate(flops: float, size: SizeName) -> str:
    """Returns ``flops`` operations with their time on the machine that ``size`` is meant for."""
    if size == "tiny":
        return f"{flops:.2g} FLOP: about {duration(flops / CPU_FLOPS)} on two CPU cores"
    seconds = flops / (PEAK_FLOPS[GPU] * MFU)
    return f"{flops:.2g} FLOP: about {duration(seconds)} on one {GPU} at {MFU:.0%} MFU"


def tuning_cost(plans: Sequence[StudyArm], seeds: int) -> str:
    """Returns the fine-tunings of ``plans`` as an addition to their estimate; empty if there are none.

    Their operations depend on the lengths of the examples, which are not known before they are read.
    """
    recipes = [plan.config.finetune for plan in plans if plan.config.finetune is not None]
    if not recipes:
        return ""
    first = recipes[0]
    length = f"{first.steps:,} updates" if first.steps else f"{first.epochs:g} epochs"
    return f"; and {seeds * len(recipes)} fine-tunings of {length} of {first.batch_rows} examples"


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


def _ends(interval: IntervalEnds | None, form: str) -> str:
    """Returns ``interval`` in ``form``, where {} stands for its ends; empty for None."""
    return "" if interval is None else form.format(", ".join(decimal(end, 4) for end in interval))


def _amount(number: float) -> str:
    return f"{number:.3g}" if number >= 1e9 else f"{number:,.0f}"


def _text(cell: Cell) -> str:
    return NO_VALUE if cell is None else f"{cell:g}" if isinstance(cell, float) else cell
