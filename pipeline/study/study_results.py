"""Carries out a study and shows what follows: tables in the terminal, a page, JSON."""

import typing
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.output import facts
from headrace.pipeline.output.facts import show_lines
from headrace.pipeline.study.arm_plans import arm_plans
from headrace.pipeline.study.findings import Findings
from headrace.pipeline.study.settings import SizeName, read_study
from headrace.pipeline.study.study_figures import figures
from headrace.pipeline.study.study_runs import study_runs
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
    facts.show([("study", f"{findings.study.title}, size {findings.size}, {_seeds(findings)}"), *findings.facts()])
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
