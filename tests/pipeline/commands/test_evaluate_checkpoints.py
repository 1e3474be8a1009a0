"""``headrace evaluate --checkpoints``: which checkpoints are scored, how often, and as what."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from headrace.pipeline.command_line.request import changed
from headrace.pipeline.commands import evaluate
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.pipeline.report.score_history import IN_LOOP, points
from headrace.pipeline.run import run_progress
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.train.engine import fragments
from headrace.train.evaluation.settings import Evaluation
from headrace.train.scores import CheckpointScores
from tests.command_line import headrace_here, understood
from tests.train.conftest import make_inputs
from tests.train.test_weights import BENCHMARKS, MODEL, stage


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_stage) -> Run:
    """A run with a training of 12 steps that kept three checkpoints and scored itself at each."""
    root = tmp_path_factory.mktemp("watched")
    inputs = make_inputs(root, run_stage, documents=60)
    weights = stage(keep_last=9, evaluate_every=4)
    folder = root / "weights" / "0123456789ab"
    run_stage(weights, inputs, folder)
    evaluation = decode(Evaluation, {"benchmarks": BENCHMARKS, "device": "cpu"})
    config = decoded(compose(["source=html", "source.paths=[none]", f"root={root}"]))
    step = PlannedStage(weights, folder.name, folder, {name: one.folder for name, one in inputs.items()}, {}, {})
    return Run(dataclasses.replace(config, model=MODEL, evaluation=evaluation), {}, [step], [])


@pytest.fixture
def run(trained, tmp_path, monkeypatch, run_stage) -> Run:
    """The same with a folder of its own, where scoring happens in this process."""
    (step,) = trained.stages
    folder = tmp_path / "weights" / step.address
    shutil.copytree(step.folder, folder)

    def execute(step: PlannedStage, config: object) -> Artifact:
        step.folder.mkdir(parents=True, exist_ok=True)  # as with the log of the ranks
        return run_stage(step.stage, {name: Artifact(path) for name, path in step.inputs.items()}, step.folder)

    monkeypatch.setattr(evaluate, "execute", execute)
    config = dataclasses.replace(trained.config, root=str(tmp_path))
    return Run(config, {}, [dataclasses.replace(step, folder=folder)], [])


def checkpoints(run: Run) -> list[Path]:
    return sorted((run.stages[0].folder / "checkpoints").glob("step_*"))


def steps_of(printed: str) -> list[str]:
    return [line.split("  ")[0] for line in printed.splitlines()]


@pytest.mark.slow
def test_checkpoints_score_what_the_training_scored_of_itself(run, capsys):
    evaluate.show_checkpoints(run, watch=True)
    lines = capsys.readouterr().out.splitlines()
    rows = read_metrics(run.stages[0].folder / "metrics.jsonl")
    (last,) = [row["evaluation"] for row in rows if "evaluation" in row and row["step"] == 12]
    right, bits = last["agreement"][0], last["validation"][0]
    assert lines[2] == (
        f"step 12  agreement acc {100 * right['value']:.1f} % ± {100 * right['standard_error']:.1f} %"
        f"  validation bits_per_byte {bits['value']:.4f} ± {bits['standard_error']:.4f}"
    )
    found = points(run.stages[0].folder)
    own, beside = ([point for point in found if (point.source == IN_LOOP) is here] for here in (True, False))
    assert {point.step for point in own} == {4, 8, 12}
    assert [dataclasses.replace(point, source=IN_LOOP) for point in beside] == own


@pytest.mark.slow
def test_nothing_is_scored_twice(run, monkeypatch, capsys):
    evaluate.show_checkpoints(run, watch=False)
    first = capsys.readouterr().out
    assert steps_of(first) == ["step 4", "step 8", "step 12"]
    monkeypatch.setattr(evaluate, "execute", None)
    evaluate.show_checkpoints(run, watch=False)
    assert capsys.readouterr().out == first


@pytest.mark.slow
def test_another_evaluation_is_scored_beside_it(run):
    evaluate.show_checkpoints(run, watch=False)
    other = decode(Evaluation, {"benchmarks": {"agreement": {"type": "agreement", "limit": 2}}, "device": "cpu"})
    evaluate.show_checkpoints(
        dataclasses.replace(run, config=dataclasses.replace(run.config, evaluation=other)), watch=False
    )
    all_points = points(run.stages[0].folder)
    found = {(point.source, point.metric.items) for point in all_points if point.benchmark == "agreement"}
    assert {items for _, items in found} >= {2, 8}
    assert len({source for source, _ in found}) == 3


@pytest.mark.slow
def test_a_checkpoint_that_is_removed_while_it_is_read_is_passed_over(run, monkeypatch, capsys):
    first, *_ = checkpoints(run)
    whole = fragments.read

    def late(files, wanted):
        if first in files[0].parents:
            shutil.rmtree(first)
        return whole(files, wanted)

    monkeypatch.setattr(fragments, "read", late)
    evaluate.show_checkpoints(run, watch=False)
    said = capsys.readouterr()
    assert steps_of(said.out) == ["step 8", "step 12"]
    assert f"{first}: was removed while it was read (passed over)" in said.err.splitlines()


@pytest.mark.slow
def test_a_damaged_checkpoint_is_passed_over(run, capsys):
    state = next((checkpoints(run)[1] / "state").iterdir())
    state.write_bytes(state.read_bytes()[:-1])
    evaluate.show_checkpoints(run, watch=False)
    said = capsys.readouterr()
    assert steps_of(said.out) == ["step 4", "step 12"]
    assert f"{state}: is damaged or missing (passed over)" in said.err.splitlines()


@pytest.mark.slow
def test_a_scoring_that_fails_ends_the_watch(run, monkeypatch):
    def failing(step, config):
        raise TaskError("scores", "a rank ended early (status 1)", "run again")

    monkeypatch.setattr(evaluate, "execute", failing)
    with pytest.raises(TaskError):
        evaluate.show_checkpoints(run, watch=False)


def test_checkpoints_are_taken_as_they_appear_until_the_training_is_done(tmp_path, monkeypatch):
    training = PlannedStage(stage(), "a", tmp_path, {}, {}, {})

    def save(*steps: int) -> None:
        for step in steps:
            (tmp_path / "checkpoints" / f"step_{step:08d}").mkdir(parents=True)

    def wait(seconds: float) -> None:
        save(8)
        (tmp_path / "manifest.json").touch()

    monkeypatch.setattr(evaluate.time, "sleep", wait)
    save(2, 6)
    found = evaluate.appearing(training, tmp_path, watch=True)
    assert next(found).name == "step_00000002"
    save(4)
    (tmp_path / "checkpoints" / "writing-step_00000010").mkdir()
    assert [path.name for path in found] == ["step_00000004", "step_00000006", "step_00000008"]


def test_scoring_ends_when_nobody_works_on_the_training(tmp_path, monkeypatch):
    """After the checkpoints that it has left."""
    monkeypatch.setattr(run_progress, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(run_progress, "POLL_SECONDS", 0.0)
    for step in (2, 6):
        (tmp_path / "checkpoints" / f"step_{step:08d}").mkdir(parents=True)
    found = evaluate.appearing(PlannedStage(stage(), "a", tmp_path, {}, {}, {}), tmp_path, watch=True)
    assert [next(found).name for _ in range(2)] == ["step_00000002", "step_00000006"]
    with pytest.raises(TaskError, match="weights: no job and no command works on it; correct the cause"):
        next(found)


@pytest.mark.slow
def test_a_run_without_training_is_refused(run):
    other = dataclasses.replace(
        run.stages[0], stage=evaluate.of_checkpoint(run, run.stages[0], checkpoints(run)[0]).stage
    )
    with pytest.raises(ConfigError) as error:
        evaluate.show_checkpoints(dataclasses.replace(run, stages=[other]), watch=False)
    assert str(error.value) == "until: the run ends before the training; name a run that trains"


@pytest.mark.slow
def test_the_place_and_the_way_stay_out_of_the_address(run):
    one = evaluate.of_checkpoint(run, run.stages[0], checkpoints(run)[0])
    elsewhere = dataclasses.replace(one.stage, checkpoint="elsewhere")
    assert isinstance(elsewhere, CheckpointScores)
    assert elsewhere.address(dict.fromkeys(elsewhere.inputs, "a")) == one.stage.address(
        dict.fromkeys(elsewhere.inputs, "a")
    )
    assert one.address != evaluate.of_checkpoint(run, run.stages[0], checkpoints(run)[1]).address


@pytest.mark.slow
def test_the_evaluation_of_the_newest_run_may_be_another(run):
    overrides = ["source=html", "source.paths=[none]", "evaluation=demo", "model=llama_demo"]
    config = decoded(compose(overrides))
    before = Run(config, {}, run.stages, overrides)
    after = changed(before, ["evaluation=pairs", "evaluation.seed=7", "ranks=2"], {"evaluation", "ranks"})
    assert (after.config.evaluation.seed, after.config.ranks) == (7, 2)
    assert set(after.config.evaluation.benchmarks) != set(config.evaluation.benchmarks)
    assert dataclasses.replace(after.config, evaluation=config.evaluation, ranks=1) == config
    assert after.stages == before.stages


def test_a_run_or_folders_are_scored():
    found = {"names": ("small",), "of_run": True, "watch": True}
    assert understood("evaluate", "small", "--checkpoints", "--watch", "ranks=2") == (found, ["ranks=2"])
    for arguments, error in {
        ("--watch",): "--watch: is given without --checkpoints; give both; status --watch follows a run",
        ("--checkpoints", "a", "b"): "--checkpoints: is for one run, and prints lines; name one run, without --page",
        (): "command line: evaluate needs FOLDER; give folders of models, or --checkpoints",
    }.items():
        done = headrace_here("evaluate", *arguments)
        assert (done.returncode, done.stderr) == (2, f"headrace: {error}\n")
