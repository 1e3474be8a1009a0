"""A user's modules named like our folders, in the folder that headrace is run in, are never imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.composition import compose
from headrace.pipeline.config import decoded
from headrace.pipeline.run.planner import plan, save

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user, with modules of our names that fail when they are imported."""
    for name in ("pipeline", "data_prep"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "train.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    return tmp_path


SETTINGS = ["source=jsonl", "source.paths=[pages.jsonl]", "cleaning=none", "until=texts", "root=runs"]


def run(folder: Path, *command: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_workers_of_this_machine(folder: Path) -> None:
    run(folder, "-m", "headrace", *SETTINGS)
    assert len(list(folder.glob("runs/texts/*/manifest.json"))) == 1


def test_a_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    values = compose(SETTINGS)
    run_json = save(decoded(values), values, plan(decoded(values)))
    run(folder, "-m", "headrace.pipeline.run.worker", str(run_json), "texts", "texts", "0")
    assert len(list(folder.glob("runs/texts/*/manifest.json"))) == 1
