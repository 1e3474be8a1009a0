"""A folder that is moved or replaced while a process writes to it: nothing is written to the old path."""

import contextlib
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from headrace.data_prep.shuffle.exchange import allocate
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.artifact_files import MOVED, check, held, make
from headrace.pipeline.core.claim import claimed
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.train.checkpoint import store
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping
from headrace.train.distributed import processes
from headrace.train.inference.sharing import AnswerLog


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home/root/weights/0123456789ab"
    folder.mkdir(parents=True)
    return folder


def replaced(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    shutil.copytree(folder.with_name("moved"), folder)


def removed(folder: Path) -> None:
    shutil.rmtree(folder.parent)


def another_file(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.write_text("")


MOVES: dict[str, Callable[[Path], object]] = {
    "artifact": lambda folder: folder.rename(folder.with_name("moved")),
    "stage": lambda folder: folder.parent.rename(folder.parents[1] / "moved"),
    "root": lambda folder: folder.parents[1].rename(folder.parents[2] / "moved"),
    "folder above the root": lambda folder: folder.parents[2].rename(folder.parents[3] / "moved"),
    "a copy is there now": replaced,
    "removed": removed,
    "a file is there now": another_file,
}


@pytest.mark.parametrize("move", MOVES)
def test_each_way_of_moving_it(folder: Path, move: str) -> None:
    with held(folder):
        check(folder / "logs")
        MOVES[move](folder)
        with pytest.raises(TaskError) as caught, system_errors_explained(folder):
            make(folder / "logs")
    assert str(caught.value).startswith(f"{folder}: was moved or replaced during the work")
    moved = next(iter(folder.parents[3].rglob("moved")), None)
    assert (f"it is {moved}" in str(caught.value)) == (moved is not None)
    assert not (folder / "logs").exists()
    make(folder.with_name("other"))


def test_a_link_to_where_it_is_now_is_the_same_folder(folder: Path) -> None:
    with held(folder):
        root = folder.parents[1]
        root.rename(root.with_name("moved"))
        root.symlink_to(root.with_name("moved"))
        make(folder / "logs")
    assert (root.with_name("moved") / "weights/0123456789ab/logs").is_dir()


class Snapshot:
    def snapshot(self) -> "Snapshot":
        return self

    def write(self, path: Path) -> None:
        path.write_bytes(b"")


def save(folder: Path) -> None:
    """A save of a training of one rank."""
    with Saver(folder / "checkpoints", processes.start("cpu"), Keeping(9)) as training:
        training.begin(cast(State, types.SimpleNamespace(step=7)), Snapshot())
        training.wait()


def write_file(folder: Path) -> None:
    with TaskOutput(folder, "sort", 0).file("a.txt") as path:
        path.write_text("")


def write_scratch(folder: Path) -> None:
    with TaskOutput(folder, "sort", 0).scratch("a", "txt") as path:
        path.write_text("")


def claim(folder: Path) -> None:
    with claimed(folder / "parts/sort-00000.claim"):
        pass


def record_attempt(folder: Path) -> None:
    with work_log.attempted(folder):
        pass


WRITERS: dict[str, Callable[[Path], object]] = {
    "JSON": lambda folder: write_json(folder / "manifest.json", {}),
    "file": write_file,
    "scratch": write_scratch,
    "own scratch": lambda folder: allocate(TaskOutput(folder, "sort", 0), 10, "uint8", 0),
    "part record": lambda folder: TaskOutput(folder, "sort", 0).done({}),
    "claim": claim,
    "attempt": record_attempt,
    "start": lambda folder: work_log.record_start(folder, "line"),
    "error": lambda folder: work_log.write_error(folder, TaskError("a", "b", "c")),
    "bad node": lambda folder: work_log.add_bad_node(folder, "n1"),
    "share of a checkpoint": lambda folder: store.write_share(folder / "checkpoints/writing-x", Snapshot(), 0),
    "checkpoint": save,
    "answers of a scoring": lambda folder: AnswerLog(path=folder / "answers/log").add({"a": 1}),
}
SWALLOWED = {"start", "error", "bad node"}
"""Writers whose failure ends no work: they print a line."""


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_makes_it_again(folder: Path, writer: str, capsys: pytest.CaptureFixture[str]) -> None:
    ending = contextlib.nullcontext() if writer in SWALLOWED else pytest.raises(TaskError, match="moved or replaced")
    with ending, held(folder), system_errors_explained(folder):
        MOVES["root"](folder)
        WRITERS[writer](folder)
    assert not folder.parents[1].exists()
    assert writer not in SWALLOWED or "moved or replaced" in capsys.readouterr().err


def test_it_is_held_only_during_the_block(folder: Path) -> None:
    with held(folder), held(folder):
        pass
    MOVES["artifact"](folder)
    with pytest.raises(OSError, match=f"Errno {MOVED}"), held(folder, is_new=False):
        pass
    make(folder)
