"""A task from files to scores on SLURM, by the command of docs/fine-tuning.md: translation of made text."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.core.json_files import read_json
from tests.cluster.one_machine import OneMachineSlurm
from tests.cluster.test_line import wait_for_jobs

ROOT = Path(__file__).parents[2]
COMMAND = "experiment=translation_demo"
JOB_SECONDS = 500


@pytest.mark.timeout(900)
def test_a_translation_is_learned_and_scored(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    assert f"headrace {COMMAND} " in (ROOT / "docs/fine-tuning.md").read_text()
    subprocess.run([sys.executable, str(ROOT / "examples/made_text.py")], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "headrace", COMMAND, "cluster=slurm", "tracking.wandb=off"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    wait_for_jobs(JOB_SECONDS)
    (written,) = (tmp_path / "runs/finetuned").glob("*/scores.json")
    assert read_json(written)["scores"]["bleu"]["mean"] > 90
    (report,) = (tmp_path / "runs/report").glob("*/report.html")
    assert "bleu" in report.read_text()
