"""The tree of trainings that go on from one another, from checkpoints without values."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.report.figures.training_tree import training_tree
from headrace.train.checkpoint import store
from headrace.train.checkpoint.names import checkpoint_name
from headrace.train.checkpoint.state import State


def write(weights: Path, address: str, step: int, origins: list[tuple[str, int]], loss: float | None = None) -> Path:
    """A training whose newest checkpoint is that of ``step``."""
    checkpoints = weights / address / "checkpoints"
    writing = checkpoints / f"writing-{checkpoint_name(step)}"
    (writing / "state").mkdir(parents=True)
    known = [
        {"weights": name, "step": at, "changed": {"training.steps": [8, step], "optimizer.learning_rate": [1e-3, None]}}
        for name, at in origins
    ]
    values = writing / "state" / "0.safetensors"
    values.write_bytes(b"no values")
    files = {"state/0.safetensors": FileRecord.of(values)}
    store.commit(checkpoints, writing, State(step, 4 * step, 99, "r", {}, origins=known), files)
    if loss is not None:
        (weights / address / "metrics.jsonl").write_text(json.dumps({"step": step, "validation_loss": loss}) + "\n")
    return weights / address


@pytest.fixture
def weights(tmp_path) -> Path:
    write(tmp_path, "trunk", 1000, [], 3.5)
    write(tmp_path, "early", 500, [("trunk", 400)])
    write(tmp_path, "late", 900, [("trunk", 800)], 3.25)
    write(tmp_path, "longer", 1200, [("trunk", 800), ("late", 900)])
    write(tmp_path, "stranger", 70, [])
    return tmp_path


def rows(folder: Path) -> list[tuple[str, str, int, int, str]]:
    return [(one.address, one.parent, one.from_step, one.steps, one.loss) for one in training_tree(folder)["trainings"]]


def test_a_tree_has_the_trainings_of_one_trunk(weights):
    expected = [
        ("trunk", "", 0, 1000, "3.500"),
        ("late", "trunk", 800, 900, "3.250"),
        ("longer", "late", 900, 1200, ""),
        ("early", "trunk", 400, 500, ""),
    ]
    for name in ("trunk", "early", "longer"):
        assert rows(weights / name) == expected
    assert training_tree(weights / "late")["trainings"][1].changed == (
        "optimizer.learning_rate: default, training.steps: 900"
    )


def test_a_training_alone_has_none(weights):
    assert training_tree(weights / "stranger") is None
    assert training_tree(weights / "absent") is None


def test_removed_trainings_are_known_from_those_that_went_on(tmp_path):
    last = write(tmp_path, "last", 1200, [("trunk", 800), ("middle", 900)])
    assert rows(last) == [
        ("trunk", "", 0, 800, ""),
        ("middle", "trunk", 800, 900, ""),
        ("last", "middle", 900, 1200, ""),
    ]


def test_each_line_begins_on_that_of_its_parent(weights):
    figure = json.loads(training_tree(weights / "early")["figure"].json)
    lines = {trace["text"][-1]: list(zip(trace["x"], trace["y"], strict=True)) for trace in figure["data"]}
    assert lines == {
        "trunk": [(0, 0), (1000, 0)],
        "late": [(800, 0), (800, 1), (900, 1)],
        "longer": [(900, 1), (900, 2), (1200, 2)],
        "early": [(400, 0), (400, 3), (500, 3)],
    }
    colours = {trace["text"][-1]: trace["line"]["color"] for trace in figure["data"]}
    assert [name for name, colour in colours.items() if colour == "var(--accent)"] == ["early"]


def test_a_damaged_checkpoint_is_left_out(weights):
    (manifest,) = (weights / "early/checkpoints").glob("*/manifest.json")
    manifest.write_text(manifest.read_text().replace("400", "401"))
    assert "early" not in [row[0] for row in rows(weights / "late")]
