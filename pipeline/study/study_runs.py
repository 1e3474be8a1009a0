"""Carries out the runs of a study: every arm with every seed, one seed of all arms after the other."""

import dataclasses
from collections.abc import Sequence

from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.run.planner import run_folder
from headrace.pipeline.run.run_files import RUN_JSON
from headrace.pipeline.run.saved import SavedRun
from headrace.pipeline.series.carried_out import DONE, NOT_STARTED, STARTED, all_carried_out, all_checked, carried_out
from headrace.pipeline.study.arm_plans import ArmPlan
from headrace.pipeline.study.findings import SeedRun
from headrace.pipeline.study.readings import read
from headrace.pipeline.study.settings import Study


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
    file = run_folder(config) / RUN_JSON
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
