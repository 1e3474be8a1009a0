"""A run whose jobs go to a SLURM of stand-ins."""

from pathlib import Path

import pytest

from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.run.planned_stage import PlannedStage
from tests.pipeline.run.fake_slurm import FakeSlurm, make_steps


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return FakeSlurm(tmp_path / "bin")


@pytest.fixture
def run_json(tmp_path: Path) -> Path:
    path = tmp_path / "root" / "runs" / "feedfeed" / "run.json"
    write_sealed(path, {"config": {}, "descriptions": {}})
    return path


@pytest.fixture
def steps(tmp_path: Path) -> list[PlannedStage]:
    return make_steps(tmp_path / "root")
