import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.core import progress
from headrace.pipeline.core.progress import (
    COUNT_EVERY_SECONDS,
    LATEST,
    Amounts,
    Progress,
    StageProgress,
    count,
    counting,
    duration,
    follow_trail,
    latest_line,
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds that the progress sees, as the one value of a list."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


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


def test_a_follower_counts_what_it_sees_and_goes_back_with_the_work(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when 143 steps are done; the training starts again from step 100."""
    monkeypatch.setattr(progress, "LOG_EVERY_SECONDS", 0.0)

    def looks() -> Iterator[list[dict[str, Any]]]:
        for seconds, steps in ((0, range(1, 144)), (60, range(1, 102)), (10, range(102, 122))):
            clock[0] += seconds
            yield [{"done": step, "total": 600, "unit": "steps"} for step in steps]
            if seconds == 0:
                yield [{"line": "weights: goes on from step 100"}]

    follow_trail("weights", looks())
    assert capsys.readouterr().err.splitlines()[:4] == [
        "weights 143/600 steps",
        "weights: goes on from step 100",
        "weights 101/600 steps",
        "weights 121/600 steps, 2/s, 0:04:00 to go",
    ]


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


def test_a_stage_is_one_line_in_a_log(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with StageProgress("duplicates", 12) as progress:
        for number in range(1, 13):
            progress.start_phase(number, "pairs", 16)
            progress.advance(16)
            clock[0] += 2
    assert capsys.readouterr().err == "duplicates: 12 phases in 0:00:24\n"


def test_a_long_stage_shows_what_its_tasks_have_read(capsys: pytest.CaptureFixture[str], clock: list[float]) -> None:
    with StageProgress("clean", 5) as stage:
        stage.start_phase(1, "0-filter", 4, 66_000_000)
        for _ in range(3):
            clock[0] += 20
            stage.count(Amounts(1000, 11_000_000))
        stage.start_phase(2, "1-one_page_per_url", 16)
        clock[0] += 40
        stage.advance(4)
    assert capsys.readouterr().err.splitlines() == [
        "clean: phase 1/5 0-filter, 0/4 tasks, 2,000 records (50/s), 22/66 MB, 0:01:20 to go",
        "clean: phase 2/5 1-one_page_per_url, 4/16 tasks, 0:02:00 to go",
        "clean: 5 phases in 0:01:40",
    ]


def test_tasks_of_an_earlier_start_are_not_in_the_time_left(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    with StageProgress("clean", 5) as stage:
        stage.start_phase(2, "1-one_page_per_url", 16)
        stage.skip(12)
        clock[0] += 40
        stage.advance(1)
    assert capsys.readouterr().err.startswith("clean: phase 2/5 1-one_page_per_url, 13/16 tasks, 0:02:00 to go\n")


def test_what_a_task_counts_is_reported_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, reported = [0.0], list[Amounts]()
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with counting(reported.append):
        for _ in range(10):
            clock[0] += COUNT_EVERY_SECONDS / 4
            count(records=1, raw_bytes=100)
    count(records=1)
    assert reported == [Amounts(4, 400), Amounts(4, 400), Amounts(2, 200)]


def test_duration() -> None:
    assert duration(3723.4) == "1:02:03"
