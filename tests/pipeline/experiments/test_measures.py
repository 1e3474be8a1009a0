"""A study reads no damaged file of a finished run."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.artifact_files import CHECKSUMS
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.experiments.measures import Measured, Reading, measure_function, read
from headrace.pipeline.run import run_results
from headrace.pipeline.run.run_results import accuracies, validation_loss
from headrace.train.evaluation.metrics import accuracy
from tests.finished import finished

MEASURES = {"loss": "validation_loss", "of_web": "source_loss:web", "quiz": "quiz.acc", "sst2": "finetuned.accuracy"}
DAMAGES = {
    "weights/metrics.jsonl": ("3.5", "2.5"),
    "scores/scores.json": ("0.75", "0.95"),
    "scores/samples/quiz.jsonl": ("0.0", "1.0"),
    "finetuned/scores.json": ("0.5", "0.9"),
    "finetuned/seed_1/metrics.jsonl": ("500", "900"),
    "finetuned/seed_1/predictions.jsonl": ('"bad"', '"fun"'),
}
"""File → a text in it, and a wrong one of the same length."""


def write(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def steps(tmp_path: Path) -> list[SimpleNamespace]:
    """The stages of a run with a training, scores and a fine-tuning of one seed."""
    write(tmp_path / "weights/metrics.jsonl", {"step": 8, "validation_loss": 3.5, "source_loss:web": 4})
    right = [1.0, 1.0, 1.0, 0.0]
    metric = vars(accuracy("acc", right, 0.5))
    entry = {"name": "quiz", "shots": 0, "metrics": [metric | {"interval": list(metric["interval"])}]}
    write(tmp_path / "scores/scores.json", {"benchmarks": [entry]})
    items = [{"name": str(n), "group": "", "outcome": {"acc": one}} for n, one in enumerate(right)]
    write(tmp_path / "scores/samples/quiz.jsonl", *items)
    tuned = {"scores": {"accuracy": {"mean": 0.5, "half_width": None, "values": [0.5]}}, "seeds": [{"seed": 1}]}
    write(tmp_path / "finetuned/scores.json", tuned)
    write(tmp_path / "finetuned/seed_1/metrics.jsonl", {"step": 20, "tokens_seen": 500, "tokens_per_second": 50})
    labels = [{"id": str(n), "label": label, "prediction": "bad"} for n, label in enumerate(("good", "bad"))]
    write(tmp_path / "finetuned/seed_1/predictions.jsonl", *labels)
    folders = [tmp_path / name for name in ("weights", "scores", "finetuned")]
    for folder in folders:
        finished(folder)
    return [SimpleNamespace(name=folder.name, folder=folder, is_whole=True) for folder in folders]


def reading(steps: list[SimpleNamespace]) -> Reading:
    return read(MEASURES, steps, 300)


def test_all_measures_of_a_run_are_read(steps) -> None:
    found = reading(steps)
    expected = {"loss": 3.5, "of_web": 4, "quiz": 0.75, "sst2": 0.5}
    assert {name: one.value for name, one in found.values.items()} == expected
    assert found.values["of_web"].chance == found.values["loss"].chance == math.log(300)
    assert found.seconds == 10
    assert found.values["sst2"].items == {"0": (0.0, 1.0), "1": (1.0, 1.0)}
    assert len(found.values["quiz"].items) == 4


def files_of_weights(artifacts: Mapping[str, Artifact]) -> float | None:
    return float(len(artifacts["weights"].manifest["files"])) if "weights" in artifacts else None


def test_a_measure_may_be_a_function(steps) -> None:
    sources = {"files": f"{__name__}:files_of_weights"}
    assert read(sources, steps, 300).values == {"files": Measured(1.0)}
    assert read(sources, steps[1:], 300).values == {}
    for place in ("tests.nowhere:files", f"{__name__}:nothing"):
        with pytest.raises(ConfigError) as error:
            measure_function(place)
        assert str(error.value).startswith(f"measures: {place!r} names no function (")


def test_every_damaged_file_is_named(steps, tmp_path) -> None:
    for name, (right, wrong) in DAMAGES.items():
        text = (tmp_path / name).read_text()
        assert right in text, name
        (tmp_path / name).write_text(text.replace(right, wrong, 1))
        CHECKSUMS.clear()
        with pytest.raises(ArtifactError) as error:
            reading(steps)
        assert error.value.where == str(tmp_path / name)
        (tmp_path / name).write_text(text)
    CHECKSUMS.clear()
    reading(steps)


def test_the_table_of_runs_marks_a_run_with_damaged_results(steps, tmp_path) -> None:
    run = SimpleNamespace(
        steps=steps, stages=steps, name="small", names=["small"], id="0" * 12, started=0.0, user="ann", is_own=True,
        processes=list, values={"config": {}}, file=tmp_path / "run.json", folders={},
    )  # fmt: skip
    row = run_results.facts_of(run, {})
    assert (row["loss"], row["best_score"]) == (3.5, "quiz acc 75.0 %")
    for name, read_one in (("weights/metrics.jsonl", validation_loss), ("scores/scores.json", accuracies)):
        shutil.copy(tmp_path / name, tmp_path / "copy")
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("5", "6"))
        CHECKSUMS.clear()
        with pytest.raises(ArtifactError, match="is damaged or missing"):
            read_one(steps)
        row = run_results.facts_of(run, {})
        assert (row["loss"], row["best_score"]) == (None, "damaged")
        shutil.copy(tmp_path / "copy", tmp_path / name)
