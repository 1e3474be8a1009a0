"""``headrace sync`` on a run whose training was stopped: what it sends to wandb, and its refusals."""

import json
import os
import shlex
from pathlib import Path

import pytest

from headrace.pipeline.commands import start, sync
from headrace.pipeline.composition import compose
from headrace.pipeline.config import decoded
from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.tracker import GROUP
from headrace.pipeline.run.planner import Step, plan
from tests.command_line import headrace_here
from tests.pipeline.report.test_score_history import scored_checkpoint


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """A planned run whose packed rows are whole and whose training has two checkpoints and three rows of metrics."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    (tmp_path / "pages.jsonl").write_text('{"text": "One page."}\n')
    source = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", "cleaning=none"]
    steps = plan(decoded(compose([*source, f"root={tmp_path}/runs", "until=weights", "tracking=file"])))[:-1]
    packed, weights = steps[-2:]
    TaskOutput(packed.folder, "packed", 0).done({})
    finish(packed.folder, packed.description, {"packed": 1})
    for number in (5, 10):
        write_sealed(weights.folder / f"checkpoints/step_{number:08d}/manifest.json", {"run_id": f"id{number}"})
    rows = ({"step": step, "loss": 4.0 / step} for step in (5, 10, 12))
    (weights.folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return steps


def test_the_run_of_the_newest_checkpoint_is_rebuilt_with_its_lineage(steps: list[Step]) -> None:
    tokens, packed = steps[-3:-1]
    found = dict(sync.explain(steps))
    assert (found["run"], found["steps"]) == ("id10", "12 in 3 rows")
    assert Path(found["now at"]).name.endswith("-id10")
    assert found["packed"] == f"{packed.address}  from tokens-{tokens.address}"
    assert found["weights"].endswith(f", tokens-{tokens.address}, packed-{packed.address}")
    assert set(found) == {"run", "now at", "upload with", "steps", "packed", "weights"}
    assert shlex.split(found["upload with"]) == ["wandb", "sync", found["now at"]]


def test_a_rebuilt_run_of_a_finished_training_is_the_only_one_to_upload(steps: list[Step]) -> None:
    weights = steps[-1]
    other = weights.folder / "wandb" / "offline-run-20260101_000000-another"
    for path in (weights.folder / "wandb" / "offline-run-20260101_000000-id10", other):
        path.mkdir(parents=True)
    TaskOutput(weights.folder, "weights", 0).done({})
    finish(weights.folder, weights.description, {"weights": 1})
    found = dict(sync.explain(steps))
    assert set(weights.folder.glob("wandb/offline-run-*")) == {other, Path(found["now at"])}


def test_scores_of_checkpoints_are_told_too(steps: list[Step]) -> None:
    weights = steps[-1]
    scored_checkpoint(weights.folder.parent.parent, weights.address, 5, 0.5)
    assert dict(sync.explain(steps))["watched"] == "scores of 1 checkpoints"


def test_the_newest_checkpoint_stands_for_weights_that_are_trained(steps: list[Step]) -> None:
    packed, weights = sync.products(steps)
    assert (packed.manifest, packed.made_by_run) == (steps[-2].folder / "manifest.json", False)
    assert weights.manifest == steps[-1].folder / "checkpoints/step_00000010/manifest.json"
    assert weights.made_by_run


def test_without_a_checkpoint_there_is_nothing_to_sync(steps: list[Step]) -> None:
    for manifest in steps[-1].folder.glob("checkpoints/*/manifest.json"):
        manifest.unlink()
    with pytest.raises(ArtifactError) as error:
        list(sync.explain(steps))
    assert str(error.value) == f"{steps[-1].folder}: has no checkpoint yet, and so no run; train first"


def test_a_run_without_training_is_refused(steps: list[Step]) -> None:
    with pytest.raises(ConfigError) as error:
        list(sync.explain(steps[:-1]))
    assert str(error.value) == "until: the run ends before the training; name a run that trains"


def test_the_runs_of_a_sweep_are_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []
    monkeypatch.setattr(start, "carry_out", lambda run: groups.append(os.environ[GROUP]))
    (tmp_path / "pages.jsonl").write_text('{"text": "One page."}\n')
    source = ("source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", f"root={tmp_path}/runs", "until=clean")
    for name in ("name=rows", "workers=1"):
        assert headrace_here("-m", *source, name, "packing.row_tokens=64,128").returncode == 0
    assert groups[:2] == ["rows"] * 2
    assert groups[2] == groups[3]
    assert groups[2].startswith("sweep-")
    assert GROUP not in os.environ
