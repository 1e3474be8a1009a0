"""The files that the training from one seed leaves, and the record that makes them whole.

    seed_1/                 metrics.jsonl, result.json, predictions.jsonl, test_predictions.jsonl
    scratch/hf_1/           the model as a Hugging Face folder
    scratch/seed_1.json     size and SHA-256 of all these files; sealed, and written last

Seeds are trained one after the other, so hours may pass until the files are copied to the artifact. They are compared
with the record before a later start skips the seed, and when they are copied. A damaged seed is trained again.

The scores of several seeds have a mean, and the interval that holds the mean of all seeds with 95 % (``SeedScores``).
"""

import dataclasses
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.artifact_files import FileRecord, refuse_outside, sync
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.core.statistics import half_width
from headrace.train.checkpoint.names import CHECKPOINTS

RESULT = "result.json"
"""The file of the scores of one seed, written last."""
OWN_FORMAT = (
    "no class of transformers has this model with a head for the task: hf/ is in Headrace's own format, which "
    "transformers does not open (docs/fine-tuning.md names the models that have one)"
)
"""Said before the training and with the scores."""


@dataclasses.dataclass(frozen=True)
class SeedScores:
    """The values of one metric, in the order of the seeds."""

    metric: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None for a single seed."""
        return half_width(self.values)

    def row(self) -> dict[str, Any]:
        return {"mean": self.mean, "half_width": self.half_width, "values": list(self.values)}


def seed_scores(results: Sequence[Mapping[str, Any]]) -> list[SeedScores]:
    """Returns the scores of each metric, from the result.json of each seed."""
    return [SeedScores(name, tuple(result["scores"][name] for result in results)) for name in results[0]["scores"]]


def best_seed(results: Sequence[Mapping[str, Any]], metric: str) -> int:
    """Returns the seed with the highest ``metric``; of equal ones, the first."""
    return int(max(results, key=lambda result: result["scores"][metric])["seed"])


PREDICTIONS, TEST_PREDICTIONS = "predictions.jsonl", "test_predictions.jsonl"
FILES = ("metrics.jsonl", RESULT, PREDICTIONS, TEST_PREDICTIONS)
"""The files in the folder of a seed; the last one only with ``finetune.test``. A kill may leave others there."""


@dataclasses.dataclass(frozen=True)
class SeedFiles:
    """The files of ``seed`` below the folder of the artifact that ``out`` writes."""

    out: TaskOutput
    seed: int

    @property
    def folder(self) -> Path:
        """The folder of its training."""
        return self.out.folder / f"seed_{self.seed}"

    @property
    def exported(self) -> Path:
        """The folder of its model."""
        return self.out.own_scratch(f"hf_{self.seed}")

    @property
    def record(self) -> Path:
        return self.out.own_scratch(f"seed_{self.seed}.json")

    def commit(self) -> None:
        """Flushes all files to the disk, and writes the record: the seed is trained. Its checkpoints are removed."""
        candidates = [*(self.folder / name for name in FILES), *sorted(self.exported.rglob("*"))]
        paths = [path for path in candidates if path.is_file()]
        for path in [*paths, *sorted({path.parent for path in paths}), self.out.folder]:
            sync(path)
        files = {str(path.relative_to(self.out.folder)): dataclasses.asdict(FileRecord.of(path)) for path in paths}
        write_sealed(self.record, {"files": files})
        sync(self.record.parent)
        self._remove_checkpoints()

    def are_whole(self) -> bool:
        """Whether the seed is trained and all its files are whole. Files of a damaged seed are removed, and the first
        damaged one is named on stderr."""
        if not self.record.is_file():
            return False
        try:
            for path, record in self._recorded():
                if not record.fits(path):
                    raise self._damaged(path)
        except (ArtifactError, RetryableError) as error:
            print(f"{error.where}: {error.problem}; seed {self.seed} is trained again", file=sys.stderr, flush=True)
            self._remove()
            return False
        self._remove_checkpoints()  # those of a start that was killed after its commit
        return True

    def register(self, folder: Path, name: str) -> None:
        """Makes the files in ``folder`` (one of the two) files of the artifact, in its folder ``name``.

        Raises:
            RetryableError: when one is damaged; the next start trains the seed again.
        """
        for path, record in self._recorded():
            if path.is_relative_to(folder):
                with self.out.file(f"{name}/{path.relative_to(folder).as_posix()}") as copy:
                    if path.is_file():
                        shutil.copyfile(path, copy)
                    if not record.fits(copy):
                        self._remove()
                        raise self._damaged(path)

    def _recorded(self) -> Iterator[tuple[Path, FileRecord]]:
        """Yields path and record of each file.

        Raises:
            ArtifactError: when the record is damaged.
        """
        files = read_sealed(self.record)["files"]
        refuse_outside(self.record, files)
        return ((self.out.folder / name, FileRecord(**record)) for name, record in files.items())

    def _damaged(self, path: Path) -> RetryableError:
        return RetryableError(str(path), "is damaged or missing", f"run again: seed {self.seed} is trained again")

    def _remove(self) -> None:
        self.record.unlink(missing_ok=True)
        for folder in (self.folder, self.exported):
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_checkpoints(self) -> None:
        if (self.folder / CHECKPOINTS).exists():
            shutil.rmtree(self.folder / CHECKPOINTS)
