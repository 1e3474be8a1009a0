"""``headrace export RUN --wandb`` on a run whose training was stopped: what it sends to wandb, and its refusals."""

import json
import shutil
from pathlib import Path

import pytest

from headrace.pipeline.command_line.request import planned
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.tracking import stage_runs
from tests.finished import write_part
from tests.pipeline.report.test_score_history import scored_checkpoint
from tests.pipeline.tracking.wandb_records import offline_runs


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A planned run whose packed rows are whole and whose training has two checkpoints and three rows of metrics."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    (tmp_path / "pages.jsonl").write_text('{"text": "One page."}\n')
    source = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", "cleaning=none"]
    settings = [*source, f"root={tmp_path}/runs", "until=weights", "tracking=file", "name=mill"]
    run = planned(compose(settings), settings)
    for step in run.stages[-5:-2]:
        TaskOutput(step.folder, step.name, 0).done({})
        finish(step.folder, step.description, {step.name: 1})
    weights = run.stages[-2]
    for number in (5, 10):
        values = {"run_id": f"id{number}", "files": {"state/00000.safetensors": {}, "state/00001.safetensors": {}}}
        write_sealed(weights.folder / f"checkpoints/step_{number:08d}/manifest.json", values)
    rows = ({"step": step, "loss": 4.0 / step} for step in (5, 10, 12))
    (weights.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def weights_of(run: Run) -> PlannedStage:
    return next(step for step in run.stages if step.name == "weights")


def test_the_run_of_the_newest_checkpoint_is_rebuilt_with_its_lineage(run: Run) -> None:
    found = dict(stage_runs.sent_again(run, []))
    assert (found["group"], found["run"], found["steps"]) == ("mill", "id10", "12 in 3 rows")
    assert Path(found["now at"]).name.endswith("-id10")
    stages = ["tokenizer", "tokens", "packed"]
    assert list(found) == ["group", "run", "now at", "steps", *stages]
    (training,) = offline_runs(weights_of(run).folder)
    assert (training.config["ranks"], training.config["address"]) == (2, weights_of(run).address)
    assert (training.start.display_name, training.start.run_group, training.start.job_type) == (
        "mill",
        "mill",
        "weights",
    )
    assert {*training.config["inputs"]} == {f"{step.name}-{step.address}" for step in run.stages if step.name in stages}


def test_a_rebuilt_run_of_a_finished_training_is_the_only_one_to_upload(run: Run) -> None:
    weights = weights_of(run)
    other = weights.folder / "wandb" / "offline-run-20260101_000000-another"
    for path in (weights.folder / "wandb" / "offline-run-20260101_000000-id10", other):
        path.mkdir(parents=True)
    write_part(weights.folder, "weights")
    finish(weights.folder, weights.description, {"weights": 1})
    found = dict(stage_runs.sent_again(run, []))
    assert set(weights.folder.glob("wandb/offline-run-*")) == {other, Path(found["now at"])}


def test_scores_of_checkpoints_are_told_too(run: Run) -> None:
    weights = weights_of(run)
    scored_checkpoint(weights.folder.parent.parent, weights.address, 5, 0.5)
    assert dict(stage_runs.sent_again(run, []))["watched"] == "scores of 1 checkpoints"
    (training,) = offline_runs(weights.folder)
    assert [row["global_step"] for row in training.history] == [5, 10, 12, 5]


def test_a_run_is_sent_before_its_training(run: Run) -> None:
    shutil.rmtree(weights_of(run).folder)
    assert list(dict(stage_runs.sent_again(run, []))) == ["group", "tokenizer", "tokens", "packed"]


def test_without_a_finished_stage_there_is_nothing_to_send(run: Run) -> None:
    root = Path(run.config.root)
    shutil.rmtree(root)
    with pytest.raises(ArtifactError) as error:
        list(stage_runs.sent_again(run, []))
    assert str(error.value) == f"{root}: has no finished stage and no checkpoint of this run; start the run"
