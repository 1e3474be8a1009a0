"""The demo of tags of words: the two lines of docs/tasks.md, from no files to scores."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "courses/docs/tasks.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_demo_of_the_page_learns_the_names(tmp_path: Path) -> None:
    lines = [line.strip() for line in PAGE.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.endswith("practice.py pages"))
    pages, tags, command = lines[start : start + 3]
    for line in (pages, tags):
        program, script, what = line.split()
        assert program == "python"
        subprocess.run([sys.executable, str(ROOT / script), what], cwd=tmp_path, check=True, timeout=300)
    sentences = (tmp_path / "tags/train.txt").read_text().split("\n\n")
    assert len(sentences) == len(set(sentences)) == 600
    assert not set(sentences) & set((tmp_path / "tags/dev.txt").read_text().split("\n\n"))
    program, *arguments = command.split()
    assert program == "headrace"
    subprocess.run(
        [sys.executable, "-m", "headrace", *arguments, "tracking.wandb=off"],
        cwd=tmp_path, check=True, timeout=600, capture_output=True,
    )  # fmt: skip
    (scores,) = tmp_path.glob("runs/finetuned/*/scores.json")
    assert json.loads(scores.read_text())["scores"]["f1"]["mean"] > 0.9
