"""The curve of a training without measured times: all that two equal trainings have in common in metrics.jsonl."""

from pathlib import Path
from typing import Any

from headrace.pipeline.core.metrics_file import read_metrics

SPEEDS = {
    *("tokens_per_second", "data_wait_seconds", "mfu"),
    *("slowest_rank", "slowest_rank_ratio", "rank_wait_seconds"),
}


def curve(folder: Path) -> list[dict[str, Any]]:
    """The rows of the training in ``folder``, times aside."""
    rows = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in row.items() if name not in SPEEDS} for row in rows]
