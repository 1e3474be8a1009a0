"""Checkpoints without a model: an engine that writes two files, in one process."""

from pathlib import Path

import pytest

from pipeline.core.errors import ArtifactError
from train import checkpoint, distributed
from train.checkpoint import State


class Writer:
    """Writes what an engine would."""

    def save(self, folder: Path) -> None:
        (folder / "state").mkdir(parents=True)
        (folder / "state" / "a.pt").write_bytes(b"weights")
        (folder / "state" / "b.pt").write_bytes(b"moments")


DATA = {"order": "0", "packed": "1", "tokens": "2", "training.seed": "3"}


def state(step: int) -> State:
    layout = {"ranks": 1, "zero_stage": 1}
    return State(step=step, rows_seen=8 * step, tokens_seen=99, run_id="r", data=DATA, layout=layout)


@pytest.fixture
def folder(tmp_path) -> Path:
    ranks = distributed.start("cpu")
    for step in (2, 4, 10, 12):
        checkpoint.save(tmp_path, state(step), Writer(), ranks)
    return tmp_path


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step_")) for path in folder.iterdir())


def test_the_newest_is_found_with_its_state(folder):
    assert checkpoint.newest(folder) == (folder / "step_00000012", state(12))


def test_an_empty_folder_has_none(tmp_path):
    assert checkpoint.newest(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "state/b.pt").write_bytes(b"momentS"), "{path}/state/b.pt: is damaged or missing"),
        (lambda path: (path / "state/a.pt").unlink(), "{path}/state/a.pt: is damaged or missing"),
        (lambda path: (path / "manifest.json").unlink(), "{path}: has no manifest.json"),
        (lambda path: (path / "manifest.json").write_text("{"), "{path}/manifest.json: is not JSON"),
        (lambda path: (path / "manifest.json").write_text('{"format": 9}'), "{path}: has format 9, not 2"),
    ],
)
def test_a_damaged_one_is_passed_over_with_its_reason(folder, damage, message, capsys):
    damage(folder / "step_00000012")
    assert checkpoint.newest(folder) == (folder / "step_00000010", state(10))
    error = capsys.readouterr().err
    assert error.startswith(message.format(path=folder / "step_00000012"))
    assert error.endswith("(passed over)\n")


def test_pruning_keeps_the_last_and_the_milestones(folder):
    checkpoint.prune(folder, keep_last=1, keep_every=4)
    assert steps(folder) == [4, 12]
    checkpoint.prune(folder, keep_last=1, keep_every=None)
    assert steps(folder) == [12]


def test_what_a_kill_left_is_swept_away(folder):
    (folder / "writing-step_00000014" / "state").mkdir(parents=True)
    (folder / "step_00000002").rename(folder / "removing-step_00000002")
    checkpoint.sweep(folder)
    assert steps(folder) == [4, 10, 12]


def test_one_of_the_same_step_is_replaced(folder):
    (folder / "step_00000012" / "manifest.json").unlink()
    checkpoint.save(folder, state(12), Writer(), distributed.start("cpu"))
    assert checkpoint.verify(folder / "step_00000012") == state(12)


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        ({"packed": "9"}, "packed"),
        ({"training.seed": "9", "tokens": "8"}, "tokens, training.seed"),
        ({"packed of wiki": "9"}, "packed of wiki"),
    ],
)
def test_other_data_is_refused(other, changed):
    with pytest.raises(ArtifactError) as error:
        checkpoint.check_resumable(state(3), {**DATA, **other, "order": "9"}, state(3).layout)
    assert str(error.value) == (
        f"weights: the checkpoint of step 3 was trained on other data: {changed} changed; "
        "bring that back, or use another root"
    )
