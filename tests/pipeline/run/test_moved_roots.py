"""A root that was moved, or copied to another folder or machine, while a training was not finished."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.command_line import request
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact, TaskOutput
from headrace.pipeline.core.claim import SILENCE_SECONDS, Waiting, claimed
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.saved_run import SavedRun, named_file
from tests.command_line import headrace_here
from tests.small_runs import build, trained, training_of

ELSEWHERE = "node7~4026531836~4711~88231"


@pytest.fixture(scope="module")
def half_trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A training of 4 steps that was killed: step 4 is not whole, and its processes left their claims."""
    run = trained(training_of(build(tmp_path_factory.mktemp("home"), "none"), "training.steps=4", "name=mill"))
    weights = weights_of(run)
    (weights.folder / "manifest.json").unlink()
    for path in (weights.folder / "parts").iterdir():
        path.unlink()
    (weights.folder / "checkpoints/step_00000004/manifest.json").unlink()
    run_json = named_file(run.config.root, "mill")
    for claim in (weights.folder / "parts/weights-00000.claim", run_json.with_name(f"running-{ELSEWHERE}.claim")):
        claim.symlink_to(f"{ELSEWHERE}~~0")
        os.utime(claim, (1, 1), follow_symlinks=False)
    return run


def weights_of(run: Run) -> PlannedStage:
    return next(step for step in run.stages if step.name == "weights")


def copied(root: Path, target: Path) -> None:
    shutil.copytree(root, target, symlinks=True)


def copied_by_content(root: Path, target: Path) -> None:
    """As ``cp -L`` does, which leaves out claims: they are links without a target."""
    shutil.copytree(root, target, ignore=shutil.ignore_patterns("*.claim"))


def linked(root: Path, target: Path) -> None:
    target.symlink_to(root)


def with_linked_stages(root: Path, target: Path) -> None:
    """Folders of stages on another disk."""
    copied(root, target)
    for stage in ("weights", "packed"):
        (target / stage).rename(target.with_name(f"disk_{stage}"))
        (target / stage).symlink_to(target.with_name(f"disk_{stage}"))


@pytest.mark.slow
@pytest.mark.parametrize("place", [copied_by_content, linked, with_linked_stages])
def test_a_training_goes_on_where_its_root_is_now(
    half_trained: Run, tmp_path: Path, place: Callable[[Path, Path], None]
) -> None:
    home = Path(half_trained.config.root)
    here, target = tmp_path / "own" / "runs", tmp_path / "away"
    here.parent.mkdir()
    copied(home, here)  # each test has a home of its own
    place(here, target)
    if place is not linked:
        here.rename(tmp_path / "gone")
    run = SavedRun.read(named_file(str(target), "mill"))
    planned = training_of_overrides(half_trained, target)
    assert [step.folder for step in run.steps if step.name == "weights"] == [weights_of(planned).folder]
    shown = headrace_here("status", "mill", f"root={target}")
    assert shown.returncode == 0, shown.stderr
    (row,) = [line for line in shown.stdout.splitlines() if line.split()[:1] == ["weights"]]
    assert "step 2 saved" in row
    weights = weights_of(planned)
    out = TaskOutput(weights.folder, "weights", 0)
    out.done(weights.phases[0].run(0, {name: Artifact(folder) for name, folder in weights.inputs.items()}, out))
    assert weights.finish().counts["steps"] == 4
    reason = f"(passed over: {weights.folder}/checkpoints/step_00000004 has no manifest.json)"
    assert (
        work_log.latest_start(weights.folder) == f"weights: goes on from step 2, its newest whole checkpoint {reason}"
    )
    assert not any(str(home) in line for line in headrace_here("status", "mill", f"root={target}").stdout.splitlines())


def training_of_overrides(run: Run, root: Path) -> Run:
    """The run of the same command with ``root``, and its raw files where they were."""
    words = [*(word for word in run.overrides if not word.startswith("root=")), f"root={root}"]
    return request.planned(request.composed(words), words)


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-1, 1])
def test_claims_that_came_with_a_copy_hold_nothing_up_for_longer_than_a_silence(
    half_trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """The processes of the other machine work in the other root, or are gone. Its clock is ahead, or behind."""
    root = tmp_path / "runs"
    copied(Path(half_trained.config.root), root)
    (claim,) = root.glob("weights/*/parts/*.claim")
    beat = time.time() + 3600 * hours
    os.utime(claim, (beat, beat), follow_symlinks=False)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    waiting = Waiting("weights")
    waiting.start()
    assert not waiting.any_free([claim])
    now[0] = SILENCE_SECONDS + 1
    assert waiting.any_free([claim])
    with claimed(claim) as is_ours:
        assert is_ours
