"""Checkpoints without a model: an engine whose state is one tensor, in one process."""

import contextlib
import dataclasses
import errno
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.train.checkpoint import store
from headrace.train.checkpoint.names import checkpoint_name, checkpoints, step_of
from headrace.train.checkpoint.saver import Saver
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping
from headrace.train.distributed import processes
from headrace.train.engine.fragments import HostCopy
from headrace.train.training_config import TrainingConfig
from tests.other_processes import wait_until

STATE_FILE = "state/00000.safetensors"

DATA = {"order": "0", "packed": "1", "tokens": "2", "training.seed": "3"}


def state(step: int) -> State:
    return State(step=step, rows_seen=8 * step, tokens_seen=99, run_id="r", data=DATA)


@dataclasses.dataclass
class Engine:
    """One whose snapshot is that of a model of ``values`` values, and which waits for ``gate`` before it is written."""

    values: int = 5
    gate: threading.Event | None = None
    error: OSError | None = None

    def snapshot(self) -> "Engine":
        return self

    def write(self, path: Path) -> None:
        if self.gate:
            self.gate.wait()
        if self.error:
            raise self.error
        HostCopy({"w/0/master": torch.zeros(self.values)}, updates=3).write(path)


def saver(folder: Path, keep_last: int = 9, keep_every: int | None = None, rollback_every: int | None = None) -> Saver:
    return Saver(folder, processes.start("cpu"), Keeping(keep_last, keep_every, rollback_every))


def fill(folder: Path, *steps: int) -> None:
    with saver(folder) as saves:
        for step in steps:
            saves.begin(state(step), Engine())


@pytest.fixture
def folder(tmp_path) -> Path:
    fill(tmp_path, 2, 4, 10, 12)
    return tmp_path


def chosen(folder: Path, rollback_every: int | None = None) -> tuple[Path, State]:
    found = store.newest(folder, rollback_every)
    assert found is not None
    return found.path, found.state


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step_")) for path in folder.iterdir())


def test_the_newest_is_found_with_its_state(folder):
    assert chosen(folder) == (folder / "step_00000012", state(12))


def test_an_empty_folder_has_none(tmp_path):
    assert store.newest(tmp_path / "absent") is None


def rewritten(path: Path, **changed: object) -> None:
    """Changes values in the manifest of the checkpoint at ``path``, whose seal is right again."""
    values = {**read_sealed(path / "manifest.json"), **changed}
    write_sealed(path / "manifest.json", {name: value for name, value in values.items() if value is not None})


def replaced(path: Path, put: Callable[[Path], object] = Path.mkdir) -> None:
    path.unlink()
    put(path)


FILE, MANIFEST = "{path}/" + STATE_FILE, "{path}/manifest.json"
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a cut file": (lambda path: os.truncate(path / STATE_FILE, 99), FILE + " is damaged or missing"),
    "an empty file": (lambda path: os.truncate(path / STATE_FILE, 0), FILE + " is damaged or missing"),
    "another file": (lambda path: (path / STATE_FILE).write_bytes(b"{}"), FILE + " is damaged or missing"),
    "no file": (lambda path: (path / STATE_FILE).unlink(), FILE + " is damaged or missing"),
    "no folder of files": (lambda path: shutil.rmtree(path / "state"), FILE + " is damaged or missing"),
    "a folder as file": (lambda path: replaced(path / STATE_FILE), FILE + " is damaged or missing"),
    "a link to itself": (
        lambda path: replaced(path / STATE_FILE, lambda file: file.symlink_to(file)),
        FILE + " cannot be read (Too many levels of symbolic links)",
    ),
    "a file as folder": (
        lambda path: (shutil.rmtree(path / "state"), (path / "state").touch()),
        FILE + " cannot be read (Not a directory)",
    ),
    "no manifest": (lambda path: (path / "manifest.json").unlink(), "{path} has no manifest.json"),
    "an empty folder": (lambda path: (shutil.rmtree(path), path.mkdir()), "{path} has no manifest.json"),
    "a file in its place": (lambda path: (shutil.rmtree(path), path.touch()), "{path} has no manifest.json"),
    "a cut manifest": (lambda path: (path / "manifest.json").write_text("{"), MANIFEST + " is not JSON ("),
    "an empty manifest": (lambda path: (path / "manifest.json").write_text(""), MANIFEST + " is not JSON ("),
    "a manifest without seal": (
        lambda path: (path / "manifest.json").write_text("[]"),
        MANIFEST + " is damaged (its seal does not match)",
    ),
    "another format": (lambda path: rewritten(path, format=9), "{path} has format 9, not 3"),
    "no list of files": (lambda path: rewritten(path, files=None), MANIFEST + " is not that of a checkpoint"),
    "no files": (lambda path: rewritten(path, files={}), MANIFEST + " is that of step 12, with 0 files"),
    "no step": (lambda path: rewritten(path, step=None), MANIFEST + " is not that of a checkpoint"),
    "one of another step": (
        lambda path: (shutil.rmtree(path), shutil.copytree(path.with_name("step_00000004"), path)),
        MANIFEST + " is that of step 4, with 1 files",
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_one_is_passed_over_with_its_reason_and_removed_by_the_next_save(folder, kind):
    damage, reason = DAMAGES[kind]
    path = folder / "step_00000012"
    damage(path)
    found = store.newest(folder)
    assert found is not None
    assert (found.path, found.state) == (folder / "step_00000010", state(10))
    expected = f"its newest whole checkpoint (passed over: {reason.format(path=path)}"
    assert found.reason.startswith(expected)
    with saver(folder, keep_last=2) as saves:
        saves.begin(state(11), Engine())
    assert steps(folder) == [10, 11]


def test_without_a_whole_one_a_start_is_refused_and_the_problem_of_each_is_named(folder):
    for path in folder.iterdir():
        (path / STATE_FILE).unlink()
    with pytest.raises(ArtifactError) as error:
        store.newest(folder)
    problems = "; ".join(f"{folder}/step_{step:08d}/{STATE_FILE} is damaged or missing" for step in (12, 10, 4, 2))
    assert str(error.value) == (
        f"{folder}: none of the checkpoints is whole: {problems}; restore one; to begin at step 0: rm -r {folder}"
    )


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EMFILE])
def test_a_reader_that_is_refused_has_shown_no_damage(folder, number, monkeypatch):
    """The checkpoint may be whole: going on from an older one would remove it."""

    def refused(*_: object) -> bool:
        raise OSError(number, os.strerror(number), "state")

    monkeypatch.setattr(FileRecord, "fits", refused)
    with pytest.raises(OSError, match=os.strerror(number)):
        store.newest(folder)


def test_a_disk_that_fails_in_one_file_is_damage(folder, monkeypatch):
    fits = FileRecord.fits

    def failing(record: FileRecord, path: Path) -> bool:
        if "step_00000012" in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return fits(record, path)

    monkeypatch.setattr(FileRecord, "fits", failing)
    assert chosen(folder) == (folder / "step_00000010", state(10))


def test_one_of_other_settings_is_refused_with_their_names(folder):
    settings = {"version": 3, "hashed": {"optimizer": {"rate": 1}, "model": 4}, "inputs": {}, "raw_files": []}
    found = dataclasses.replace(state(12), settings=settings)
    store.check_resumable(found, DATA, settings)
    store.check_resumable(state(12), DATA, settings)  # one of an older version has none
    with pytest.raises(ArtifactError) as error:
        store.check_resumable(found, DATA, {**settings, "version": 4, "hashed": {"optimizer": {"rate": 2}, "model": 4}})
    wrong = "the checkpoint of step 12 is of a training with other settings: optimizer, version"
    assert str(error.value) == f"weights: {wrong}; remove it, or bring back that of this training"


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    fill(folder, 7)
    return folder / "step_00000007"


@given(st.sampled_from(["manifest.json", STATE_FILE]), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_any_flipped_bit_and_any_truncation_is_found(one, file, place, bit):
    content = (one / file).read_bytes()
    at = int(place * (len(content) - 1))  # the last byte ends the last line
    flipped = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    try:
        for damaged in (flipped, content[:at]):
            (one / file).write_bytes(damaged)
            with pytest.raises(ArtifactError):
                store.verify(one)
    finally:
        (one / file).write_bytes(content)
    assert store.verify(one) == state(7)


def test_only_listed_files_are_read(folder):
    (folder / "step_00000012/state/00001.safetensors").write_bytes(b"of somebody else")
    assert store.state_files(folder / "step_00000012") == [folder / "step_00000012" / STATE_FILE]


def test_pruning_keeps_the_last_and_the_milestones(tmp_path):
    for keep_every, kept in ((4, [4, 12]), (None, [12])):
        with saver(tmp_path / str(keep_every), keep_last=1, keep_every=keep_every) as saves:
            for step in (2, 4, 10, 12):
                saves.begin(state(step), Engine())
        assert steps(tmp_path / str(keep_every)) == kept


PERIODS = {
    "keep_every is a multiple": ({"keep_every": 6}, [6, 12, 15, 16]),
    "keep_every is none": ({"keep_every": 4}, [4, 8, 12, 15, 16]),
    "keep_every is smaller": ({"keep_every": 2}, [2, 4, 6, 8, 10, 12, 14, 15, 16]),
    "keep_every is longer than the training": ({"keep_every": 20}, [15, 16]),
    "save_every is longer than the training": ({"save_every": 20, "keep_every": 5}, [5, 10, 15, 16]),
    "both are longer": ({"save_every": 20, "keep_every": 30}, [16]),
    "a step to roll back to, too": ({"keep_every": 7, "spike_sigma": 6.0, "spike_rollback_every": 5}, [7, 14, 15, 16]),
}
"""Settings of a training of 16 steps with save_every=3, and the checkpoints that are left at its end."""


@pytest.mark.parametrize("name", PERIODS)
def test_checkpoints_of_the_steps_to_keep_are_saved_and_kept_whatever_the_other_periods(name, tmp_path):
    changed, kept = PERIODS[name]
    training = TrainingConfig(**{"steps": 16, "batch_rows": 1, "save_every": 3} | changed)
    with saver(tmp_path, training.keep_last, training.keep_every, training.spike_rollback_every) as saves:
        for step in filter(training.saves_at, range(1, training.steps + 1)):
            saves.begin(state(step), Engine())
    assert steps(tmp_path) == kept


def test_pruning_keeps_what_a_spike_leads_back_to(tmp_path):
    kept = {2: [2], 8: [8], 10: [8, 10], 14: [8, 14], 16: [16], 18: [16, 18]}
    with saver(tmp_path, keep_last=1, rollback_every=8) as saves:
        for step in kept:
            saves.begin(state(step), Engine())
            saves.wait()
            assert steps(tmp_path) == kept[step]
    with saver(tmp_path / "two", keep_last=2, rollback_every=8) as saves:
        for step in (8, 14, 16):  # 14 is of no use without 8
            saves.begin(state(step), Engine())
    assert steps(tmp_path / "two") == [8, 14, 16]


def test_checkpoints_after_the_one_that_a_training_resumed_from_do_not_displace_its_new_ones(folder):
    """10 and 12 are damaged, say: a training that goes on from 4 saves 6, then 8."""
    kept = {6: [4, 6], 8: [6, 8]}
    with saver(folder, keep_last=2, keep_every=10) as saves:
        for step in kept:
            saves.begin(state(step), Engine())
            saves.wait()
            assert steps(folder) == kept[step]


def test_one_that_a_spike_could_not_lead_back_from_is_passed_over(folder):
    (folder / "step_00000010" / "manifest.json").unlink()
    assert chosen(folder) == (folder / "step_00000012", state(12))
    assert chosen(folder, 12) == (folder / "step_00000012", state(12))
    assert chosen(folder, 13) == (folder / "step_00000012", state(12))
    found = store.newest(folder, 5)
    assert found is not None
    assert (found.path, found.state) == (folder / "step_00000004", state(4))
    damaged = f"{folder}/step_00000010 has no manifest.json"
    leads = f"{damaged}, and a spike after step 12 leads back to it"
    assert found.reason == f"its newest whole checkpoint (passed over: {leads}; {damaged})"


def test_the_files_of_a_step_when_it_is_saved(folder):
    gate = threading.Event()
    with saver(folder) as saves:
        saves.begin(state(14), Engine(gate=gate))
        threading.Timer(0.1, gate.set).start()
        assert saves.saved(14) == [folder / "step_00000014" / STATE_FILE]
        (folder / "step_00000014" / STATE_FILE).write_bytes(b"{}")
        with pytest.raises(RetryableError) as error:
            saves.saved(14)
    assert str(error.value) == (
        f"{folder}/step_00000014/{STATE_FILE}: is damaged or missing, and a spike leads back to it; "
        "run again to go on from the one before"
    )


def test_training_says_when_it_waits_for_a_save(folder):
    gate, said = threading.Event(), []

    @contextlib.contextmanager
    def waiting() -> Iterator[None]:
        said.append("waits")
        gate.set()
        yield
        said.append("goes on")

    with Saver(folder, processes.start("cpu"), Keeping(9), waiting) as saves:
        saves.wait()
        saves.begin(state(14), Engine(gate=gate))
        assert said == []
        saves.wait()
    assert said == ["waits", "goes on"]


def test_what_a_kill_left_is_swept_away(folder):
    (folder / "writing-step_00000014" / "state").mkdir(parents=True)
    (folder / "step_00000002").rename(folder / "removing-step_00000002")
    store.sweep(folder)
    assert steps(folder) == [4, 10, 12]


def test_one_of_the_same_step_is_replaced(folder):
    (folder / "step_00000012" / "manifest.json").unlink()
    fill(folder, 12)
    assert store.verify(folder / "step_00000012") == state(12)


def test_training_goes_on_while_one_checkpoint_is_written(folder):
    gate = threading.Event()
    with saver(folder) as saves:
        saves.begin(state(14), Engine(gate=gate))
        assert not saves.failed
        assert chosen(folder) == (folder / "step_00000012", state(12))
        threading.Timer(0.1, gate.set).start()
        saves.begin(state(16), Engine())  # waits
        assert gate.is_set()
        assert (folder / "step_00000014").exists()
    assert chosen(folder) == (folder / "step_00000016", state(16))


@contextlib.contextmanager
def largest_file(bytes_: int) -> Iterator[None]:
    """A disk that takes this many bytes of a file, and no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_checkpoint_before(folder):
    with saver(folder) as saves:
        with largest_file(100_000):
            saves.begin(state(14), Engine(values=1_000_000))
            with pytest.raises(RetryableError) as error:
                saves.wait()
        assert steps(folder) == [2, 4, 10, 12]
        assert chosen(folder) == (folder / "step_00000012", state(12))
        saves.begin(state(14), Engine(values=1_000_000))
    assert str(error.value).startswith(f"{folder}: the checkpoint of step 14 could not be saved (rank 0: ")
    assert "File too large" in str(error.value)
    assert str(error.value).endswith("); free space there and run again: the checkpoint before it is kept")
    assert chosen(folder) == (folder / "step_00000014", state(14))


def test_a_failed_save_is_told_at_the_next_boundary(folder):
    with saver(folder) as saves:
        saves.begin(state(14), Engine(error=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        while not saves.failed:
            pass
        with pytest.raises(RetryableError) as error:
            saves.begin(state(16), Engine())
        assert not saves.failed
    assert str(error.value) == (
        f"{folder}: the checkpoint of step 14 could not be saved (rank 0: [Errno 28] No space left on device); "
        "free space there and run again: the checkpoint before it is kept"
    )


def test_its_threads_end_with_it(folder):
    before = threads()
    with saver(folder) as saves:
        saves.begin(state(14), Engine())
        saves.wait()
        wait_until(lambda: any(name.startswith("gloo") for _, name in threads() - before))  # a thread names itself
        own = threads() - before
        assert any(not name.startswith("gloo") for _, name in own)
    wait_until(lambda: not own & threads())  # Linux lists a thread for a moment after its end


def threads() -> set[tuple[str, str]]:
    """Number and name of each thread of this process; one that an earlier test left may end meanwhile.

    Each process group of gloo has a thread, which wakes a hundred times a second.
    """
    named = set()
    for path in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            named.add((path.name, (path / "comm").read_text().strip()))
    return named


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
        store.check_resumable(state(3), {**DATA, **other, "order": "9"}, {})
    assert str(error.value) == (
        f"weights: the checkpoint of step 3 was trained on other data: {changed} changed; "
        "bring that back, or use another root"
    )


def test_checkpoints_are_listed_by_step_and_other_folders_are_not(tmp_path: Path) -> None:
    steps = [999_999_999, 50, 99_999_999]
    for name in (*map(checkpoint_name, steps), "writing-step_00000060", "removing-step_00000040", "step_old"):
        (tmp_path / name).mkdir()
    found = checkpoints(tmp_path)
    assert list(found) == sorted(steps), "a ninth digit does not change the order"
    assert found[50] == tmp_path / "step_00000050"
    assert [step_of(path) for path in found.values()] == sorted(steps)
    assert checkpoints(tmp_path / "missing") == {}
