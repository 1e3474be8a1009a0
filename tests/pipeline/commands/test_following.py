"""The progress of a run that is not finished, as ``headrace status`` and ``headrace watch`` show it."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.composition import compose
from headrace.pipeline.config import decoded
from headrace.pipeline.core.progress import LATEST
from headrace.pipeline.run.planner import Step, plan
from tests.command_line import headrace_here

LINE = "120/5,000 steps, 3.2/s, 0:25:25 to go  loss 3.412  tokens/s 51,200"


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    source = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", "cleaning=none"]
    return [*source, f"root={tmp_path}/runs", "until=weights", "tracking=file"]


@pytest.fixture
def training(settings: list[str]) -> Step:
    """A training that runs."""
    step = plan(decoded(compose(settings)))[-1]
    (step.folder / LATEST).parent.mkdir(parents=True)
    (step.folder / LATEST).write_text(LINE)
    return step


def test_status_shows_steps_time_left_loss_and_speed(
    settings: list[str], training: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    done = headrace_here("status", *settings)
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.split()[:1] == ["weights"]]
    assert " ".join(LINE.split()) in " ".join(row.split())
