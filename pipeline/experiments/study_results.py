"""Carries out a study and shows what follows: tables in the terminal, a page, JSON. Or lists the studies.

Every arm is trained with every seed, one seed of all arms after the other. The list has a line for each study, with
the runs that are finished and the estimated cost of all.
"""

import dataclasses
import re
import typing
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.configuration.options import studies
from headrace.pipeline.core.errors import ConfigError, HeadraceError, suggestion
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.experiments.arm_plans import ArmPlan, arm_plan, arm_plans
from headrace.pipeline.experiments.arms import DONE, NOT_STARTED, STARTED, all_carried_out, all_checked, carried_out
from headrace.pipeline.experiments.findings import Findings, SeedRun, estimate, tuning_cost
from headrace.pipeline.experiments.measures import read
from headrace.pipeline.experiments.study_figures import figures
from headrace.pipeline.experiments.study_file import SizeName, Study, read_study
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.run.run_files import run_file
from headrace.pipeline.run.saved_runs import SavedRun, saved_runs
from headrace.pipeline.tracking.settings import grouped


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
    _print(findings)
    write_files(json_file, findings.as_json(), page, lambda: _page_values(findings))
    if errors:
        raise errors[0]


def _print(findings: Findings) -> None:
    terminal.show([("study", f"{findings.study.title}, size {findings.size}, {_seeds(findings)}"), *findings.facts()])
    print()
    arms, verdicts = findings.arms_table(), findings.verdicts_table()
    show_lines(arms[0], arms[1:])
    print()
    show_lines(verdicts[0], verdicts[1:])
    if notes := list(findings.notes()):
        print("", *notes, sep="\n")


def _seeds(findings: Findings) -> str:
    return f"{findings.seeds} seed{'s' * (findings.seeds > 1)}"


def _page_values(findings: Findings) -> dict[str, object]:
    """Returns the values of the template of the page."""
    published = findings.published_table()
    tables = [("verdicts", "Verdicts by the rule", findings.verdicts_table()), ("arms", "Arms", findings.arms_table())]
    if published:
        tables.append(("published", "Published numbers, for reference", published))
    return {
        "title": findings.study.title,
        "lede": f"Headrace study {findings.name}, size {findings.size}: {len(findings.plans)} arms, {_seeds(findings)}",
        "facts": list(findings.facts()),
        "notes": list(findings.notes()),
        "figures": figures(findings),
        "tables": tables,
    }


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """An arm with a seed."""

    plan: ArmPlan
    seed: int

    def __str__(self) -> str:
        return f"{self.plan.name}, seed {self.seed}"


def study_runs(
    study: Study, plans: Sequence[ArmPlan], seeds: int, starts: bool
) -> tuple[list[SeedRun], list[HeadraceError]]:
    """Returns what became of the runs, and the errors of those that failed; the others are carried out all the same.

    Without ``starts`` nothing is carried out.

    Raises:
        HeadraceError: when an arm could not start, naming it; its seeds need the same. Then none is started.
    """
    if starts:
        all_checked((plan.name, *plan.seeded(0)[1:]) for plan in plans)
    wanted = [_Wanted(plan, seed) for seed in range(seeds) for plan in plans]
    return all_carried_out(
        "study",
        wanted,
        starts,
        lambda planned: _seed_run(study, planned.plan, planned.seed, starts),
        lambda planned, state: SeedRun(planned.plan.name, planned.seed, state),
    )


def _seed_run(study: Study, plan: ArmPlan, seed: int, starts: bool) -> SeedRun:
    config, values, overrides = plan.seeded(seed)
    file = run_file(config.root, config.id)
    if starts and not (file.is_file() and _is_done(SavedRun.read(file), study)):
        carried_out(values, overrides, starts, study.last_stage)
    if not file.is_file():
        return SeedRun(plan.name, seed, NOT_STARTED)
    run = SavedRun.read(file)
    if not _is_done(run, study):
        return SeedRun(plan.name, seed, STARTED, run.id)
    return SeedRun(plan.name, seed, DONE, run.id, read(study.measures, run.stages, config.vocabulary, config.objective))


def _is_done(run: SavedRun, study: Study) -> bool:
    """Whether the last stage of the study is finished; run.json holds the stages that its runs went up to."""
    return any(stage.name == study.last_stage and stage.is_whole for stage in run.stages)


SEEDS = 3
"""The seeds of the cost, as the command takes them without ``--seeds``."""
HEAD = ["study", "title", "arms", "finished runs", f"cost of size tiny with {SEEDS} seeds, all arms as the first"]


def show_studies(overrides: Sequence[str]) -> None:
    """Prints a table of all studies; the cost follows from that of the first arm."""
    done = finished_runs(Path(root_of(overrides)))
    rows = []
    for name in studies():
        try:
            study = read_study(name).at("tiny")
            first = arm_plan(name, study, "tiny", next(iter(study.arms)), overrides)
            cost = estimate(SEEDS * len(study.arms) * first.compute.flops, "tiny")
            cost += tuning_cost([first] * len(study.arms), SEEDS)
            rows.append([name, study.title, str(len(study.arms)), done.get(name, "none"), cost])
        except ConfigError as error:
            rows.append([name, "–", "–", "–", f"wrong: {error}"])
    show_lines(HEAD, rows)


def finished_runs(root: Path) -> dict[str, str]:
    """Returns the number of finished runs below ``root`` of each study, by size: ``12 tiny, 3 small``."""
    counts: dict[str, Counter[str]] = {}
    for run in saved_runs(root):
        if (label := re.fullmatch(r"(\w+)-(tiny|small|paper)-\w+-\d+", run.name)) and run.steps[-2].is_whole:
            counts.setdefault(label[1], Counter())[label[2]] += 1
    return {name: ", ".join(f"{n} {size}" for size, n in runs_of_size.items()) for name, runs_of_size in counts.items()}
