from pathlib import Path

import pytest

from pipeline.core.tracker import Tracker, Tracking, read_metrics


def test_metrics_are_cut_at_the_resumed_step(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path, Tracking(wandb="off"), "run", 0, {})
    for step in (1, 2, 3):
        tracker.log(step, {"loss": 4.0 - step})
    tracker.close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 4, "lo')  # a kill in the middle of a line

    tracker = Tracker(tmp_path, Tracking(wandb="off"), "run", 2, {})
    tracker.log(3, {"loss": 0.5})
    tracker.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0},
        {"step": 3, "loss": 0.5},
    ]


def test_wandb_is_offline_without_a_key_and_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    tracker = Tracker(tmp_path, Tracking(), "abc123", 0, {"layers": 2})
    tracker.log(1, {"loss": 1.5})
    tracker.close()
    assert [path.name.endswith("-abc123") for path in (tmp_path / "wandb").glob("offline-run-*")] == [True]
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 1.5}]
