"""One training on the cluster, over data that one machine prepared: submitted, disturbed, and compared at its end."""

import dataclasses
import re
import shutil
from pathlib import Path

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from tests.cluster.line import Line, submit
from tests.cluster.one_machine import client, until

STEPS = 240
MADE_HERE = ("weights", "scores", "report", "runs")
SETTINGS = (
    "cluster.ranks_per_node=2",
    "until=weights",
    f"training.steps={STEPS}",
    "training.save_every=20",
    f"training.validate_every={STEPS}",
)
WAIT_SECONDS = 400
ENDS = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")


@dataclasses.dataclass(frozen=True)
class Training:
    """Job ``job``, which trains below ``root``."""

    root: Path
    job: int

    @classmethod
    def submit(cls, line: Line, root: Path, *more: str) -> "Training":
        """Submits it with the settings ``more``, over the data of ``line``."""
        cls.copy_data(line.root, root)
        row, _report = submit(*line.settings, *SETTINGS, f"root='{root}'", *more)
        assert row[:3] == ["weights", "weights", "1"]
        return cls(root, int(row[3]))

    @staticmethod
    def copy_data(source: Path, root: Path) -> None:
        """Copies the artifacts of the data stages from the root ``source`` to ``root``."""
        shutil.copytree(source, root, ignore=shutil.ignore_patterns(*MADE_HERE), dirs_exist_ok=True)

    @property
    def folder(self) -> Path:
        (folder,) = self.root.glob("weights/*")
        return folder

    @property
    def words(self) -> str:
        """The log of all attempts."""
        return "".join(path.read_text() for path in self.root.glob(f"runs/*/logs/weights.weights-{self.job}.log"))

    @property
    def starts(self) -> list[tuple[int, str]]:
        """Number of each attempt, and the checkpoint that it began from."""
        found = re.findall(r"attempt (\d+), rendezvous \S+, from (.*)", self.words)
        return [(int(attempt), checkpoint) for attempt, checkpoint in found]

    @property
    def state(self) -> str:
        (state,) = re.findall(r"JobState=(\S+)", client("scontrol", "show", "job", str(self.job))) or [""]
        return state

    def wait_for_step(self, step: int, attempt: int) -> None:
        """Waits until the given attempt has done ``step``."""

        def is_there() -> bool:
            rows = [row for path in self.root.glob("weights/*/metrics.jsonl") for row in read_metrics(path)]
            return len(self.starts) == attempt and bool(rows) and rows[-1]["step"] >= step

        assert until(is_there, WAIT_SECONDS), f"{self.state}\n{self.words}"

    def wait_for_end(self, state: str) -> None:
        assert until(lambda: self.state in ENDS, WAIT_SECONDS, pause_seconds=0.5), f"{self.state}\n{self.words}"
        assert self.state == state, self.words

    def same_as(self, other: "Training") -> None:
        """Equal weights, bit for bit, and an equal loss at every step."""
        ours, theirs = (one.folder / "hf/model.safetensors" for one in (self, other))
        assert ours.read_bytes() == theirs.read_bytes()
        curves = [
            {row["step"]: row["loss"] for row in read_metrics(one.folder / "metrics.jsonl")} for one in (self, other)
        ]
        assert curves[0] == curves[1]
        assert list(curves[0]) == list(range(1, STEPS + 1))
        assert read_json(self.folder / "manifest.json")["counts"] == read_json(other.folder / "manifest.json")["counts"]
