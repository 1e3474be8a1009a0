import json
from pathlib import Path

import pytest

from headrace.pipeline.core import progress
from headrace.pipeline.core.progress import Progress, duration


def test_a_log_gets_lines_not_bars(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_SECONDS", 0.0)
    with Progress("clean", 2000, "tasks") as bar:
        bar.advance(1000, kept=12345)
        bar.advance(1000, loss=3.14159)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("clean 1,000/2,000 tasks, ")
    assert lines[0].endswith("to go  kept 12,345")
    assert lines[-1].startswith("clean 2,000/2,000 tasks, ")
    assert lines[-1].endswith("0:00:00 to go  loss 3.142")


def test_another_process_can_follow(tmp_path: Path) -> None:
    with Progress("scores", 30, "queries", tmp_path / "trail.jsonl") as bar:
        bar.advance(10)
        bar.advance(20)
    rows = [json.loads(line) for line in (tmp_path / "trail.jsonl").read_text().splitlines()]
    assert rows == [{"done": done, "total": 30, "unit": "queries"} for done in (10, 30)]


def test_duration() -> None:
    assert duration(3723.4) == "1:02:03"
