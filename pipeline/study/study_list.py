"""Lists the studies: a line each, with the runs that are finished and the estimated cost of all."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.choice import root_of
from headrace.pipeline.configuration.options import studies
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.output.facts import show_lines
from headrace.pipeline.run.saved import saved_runs
from headrace.pipeline.study.arm_plans import arm_plan
from headrace.pipeline.study.findings import estimate, tuning_cost
from headrace.pipeline.study.settings import EXACT, read_study

SEEDS = 3
"""The seeds of the cost, as the command takes them without ``--seeds``."""
HEAD = ["study", "title", "arms", "finished runs", f"cost of size tiny with {SEEDS} seeds"]


def show_studies(overrides: Sequence[str]) -> None:
    """Prints a table of all studies; the cost follows from that of the first arm."""
    done = finished_runs(Path(root_of(overrides)))
    rows = [[EXACT, "Published numbers that need no training", "–", "–", "seconds"]]
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
