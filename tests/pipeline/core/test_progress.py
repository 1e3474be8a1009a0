import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.core import progress
from headrace.pipeline.core.progress import LATEST, Progress, duration, latest_line


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


def test_steps_of_an_earlier_start_are_not_in_the_rate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Progress("weights", 5000, "steps") as bar:
        now[0] += 60  # compilation
        bar.skip(4000)
        now[0] += 50
        bar.advance(500)
    assert capsys.readouterr().err.splitlines()[-1] == "weights 4,500/5,000 steps, 10/s, 0:00:50 to go"


def test_status_reads_the_latest_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs").mkdir()
    assert latest_line(tmp_path) == ""
    with Progress("weights", 20, "steps", latest=tmp_path / LATEST) as bar:
        bar.advance(1, loss=3.5)
        assert latest_line(tmp_path).startswith("1/20 steps, ")
        assert latest_line(tmp_path).endswith(" to go  loss 3.5")
        bar.advance(1)
        assert latest_line(tmp_path).startswith("1/20 steps, "), "a fast training does not write after each step"
        monkeypatch.setattr(progress, "LATEST_EVERY_SECONDS", 0.0)
        bar.advance(1, loss=3.25)
        assert latest_line(tmp_path).startswith("3/20 steps, ")


def test_a_disk_that_takes_no_line_does_not_end_the_work(tmp_path: Path) -> None:
    with Progress("weights", 20, "steps", latest=tmp_path / "absent" / "line") as bar:
        bar.advance(1)


def test_duration() -> None:
    assert duration(3723.4) == "1:02:03"
