"""The demos of tasks that write texts: from made files to BLEU and ROUGE by the commands of docs/fine-tuning.md."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.pipeline.core.json_files import read_json

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/fine-tuning.md").read_text()
LEAST = {"translation_demo": ("bleu", 90.0), "summaries_demo": ("rouge2", 0.8)}
"""Experiment → its metric, and a value that it reaches."""
SECONDS = 550


def run(folder: Path, command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3 * SECONDS)
def test_made_texts_become_scores(tmp_path: Path) -> None:
    """The files of two runs of the script are equal, and each command of the page prints the scores."""
    assert "python examples/made_text.py" in PAGE
    for folder in (tmp_path, tmp_path / "again"):
        folder.mkdir(exist_ok=True)
        run(folder, [sys.executable, str(ROOT / "examples/made_text.py")])
    made = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert len(made) == 7
    for name in made:
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / "again/made" / name).read_bytes()
    for experiment, (metric, least) in LEAST.items():
        (command,) = re.findall(rf"^    headrace (experiment={experiment}) ", PAGE, re.MULTILINE)
        shown = run(tmp_path, [sys.executable, "-m", "headrace", command, "tracking.wandb=off"])
        (written,) = (tmp_path / "runs/finetuned").glob("*/scores.json")
        scores = read_json(written)
        assert scores["metric"] == metric
        assert scores["scores"][metric]["mean"] > least
        assert f"\n{metric} " in shown
        assert "mean of the last 2 checkpoints" in shown
        written.rename(written.with_name("seen.json"))
