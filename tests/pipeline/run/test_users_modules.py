"""A user's modules in the current folder, named like ours, like Python's or like a library's, are never imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.clusters.slurm import SCRIPTS
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.run.planner import plan, save
from headrace.pipeline.tracking.tracker import RECORD

ROOT = Path(__file__).resolve().parents[3]


USERS_MODULES = ("train", "queue", "signal", "numba", "wandb") if sys.version_info >= (3, 11) else ("train",)
"""Python 3.10 always searches the current folder first."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user, with modules of our names that fail when they are imported."""
    for name in ("pipeline", "data_prep"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    for name in USERS_MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\nraise SystemExit('not ours')")
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    return tmp_path


SETTINGS = [
    "source=jsonl",
    "source.paths=[pages.jsonl]",
    "cleaning=none",
    "until=texts",
    "root=runs",
    "tracking.wandb=offline",
    "workers=1",
]


def run(folder: Path, *command: str) -> str:
    slurm = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "7", "SLURM_JOB_ID": "7"}
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | slurm
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_texts(folder: Path) -> None:
    assert len(list(folder.glob("runs/texts/*/manifest.json"))) == 1
    assert len(list(folder.glob(f"runs/texts/*/{RECORD}"))) == 1
    assert not (folder / "imported").exists()


@pytest.mark.slow
def test_the_workers_and_the_recorder_of_this_machine(folder: Path) -> None:
    run(folder, str(Path(sys.executable).with_name("headrace")), *SETTINGS)
    check_texts(folder)


@pytest.mark.slow
def test_a_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    values = compose(SETTINGS)
    run_json = save(decoded(values), values, plan(decoded(values)))
    run(folder, "bash", str(SCRIPTS / "array.sbatch"), str(run_json), "texts", "texts", "1", sys.executable)
    check_texts(folder)


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("array", ("run.json", "texts", "texts", "1")),
        ("data", ("run.json", "texts..packed", "4")),
        ("train", ("run.json", "weights", "folder", "2")),
    ],
)
def test_the_scripts_of_jobs(tmp_path: Path, script: str, arguments: tuple[str, ...]) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho safe path: $PYTHONSAFEPATH\n")
    python.chmod(0o755)
    assert "safe path: 1\n" in run(tmp_path, "bash", str(SCRIPTS / f"{script}.sbatch"), *arguments, str(python))
