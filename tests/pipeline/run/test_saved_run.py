"""The names of a run: it keeps each that it was given, and a command that fails gives and takes none."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.command_line.run_start import start_run
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.json_files import read_sealed, write_sealed
from headrace.pipeline.run import planner, submission
from headrace.pipeline.run.saved_run import SavedRun, labels, named_file
from tests.command_line import headrace_here
from tests.pipeline.run.fake_slurm import FakeSlurm

SETTINGS = ("source=jsonl", "source.paths=[raw/a.jsonl]", "cleaning=none", "until=texts", "workers=1")
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run that is named c8."""
    home = tmp_path_factory.mktemp("home")
    (home / "raw").mkdir()
    (home / "raw/a.jsonl").write_text('{"text": "One page."}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert headrace_here(*SETTINGS, "name=c8").returncode == 0
    return home


@pytest.fixture
def root(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a copy of ``home``, which is the current folder."""
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home/runs"


def unreachable(fake: FakeSlurm, patch: pytest.MonkeyPatch) -> None:
    fake.refuse(101, AWAY)
    (fake.folder / "squeue").write_text(f"#!/bin/sh\necho '{AWAY}' >&2; exit 1\n")


def refused(fake: FakeSlurm, patch: pytest.MonkeyPatch) -> None:
    fake.refuse(101, "sbatch: error: Batch job submission failed: Invalid qos specification")


def without_clients(fake: FakeSlurm, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", "/nowhere")


def full(fake: FakeSlurm, patch: pytest.MonkeyPatch) -> None:
    def write(path: Path, values: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    patch.setattr(planner, "write_run", write)


def killed(fake: FakeSlurm, patch: pytest.MonkeyPatch) -> None:
    def write(path: Path, values: dict[str, object]) -> None:
        write_sealed(path, values)
        raise KeyboardInterrupt

    patch.setattr(submission, "record", lambda *_: write(Path("x.json"), {}))


FAILURES: dict[str, tuple[Callable[[FakeSlurm, pytest.MonkeyPatch], None], type[BaseException], tuple[str, ...]]] = {
    "bad setting": (refused, ConfigError, ("cluster.site_env=nowhere.sh",)),
    "unreachable": (unreachable, HeadraceError, ()),
    "refused": (refused, HeadraceError, ()),
    "no clients": (without_clients, ConfigError, ()),
    "full disk": (full, HeadraceError, ()),
    "killed": (killed, KeyboardInterrupt, ()),
}


MORE = (("name=zzz",), ("name=c8", "source.task_bytes=5", "until=clean"), ("name=c8", "ranks=2"))


@pytest.mark.parametrize(
    ("failure", "more"), [*((failure, MORE[0]) for failure in FAILURES), ("refused", MORE[1]), ("refused", MORE[2])]
)
def test_a_failed_submission_changes_no_name_and_no_run(
    fake: FakeSlurm, root: Path, failure: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a finished run under a new name, of another run under its name, of the run with an unhashed setting."""
    (run_json,) = root.glob("runs/*/run.json")
    before = run_json.read_bytes(), run_json.stat().st_mtime_ns
    fail, error, settings = FAILURES[failure]
    fail(fake, monkeypatch)
    needs_a_job = [*SETTINGS, *more, "until=clean", "cluster=slurm", *settings]
    with pytest.raises(error):
        start_run(needs_a_job)
    assert list(root.glob("runs/*/run.json")) == [run_json]
    assert (run_json.read_bytes(), run_json.stat().st_mtime_ns) == before
    assert list(labels(root)) == ["c8"]
    assert all(stage.is_whole for stage in SavedRun.read(run_json).stages)
    if failure in ("bad setting", "refused", "no clients", "full disk"):
        assert not list(root.glob("runs/*/run-*.json")), "what gc would keep for ever"


def test_a_submission_takes_effect_with_its_first_job(fake: FakeSlurm, root: Path) -> None:
    """Also one that is refused later: its run has begun."""
    fake.refuse(102, "sbatch: error: Batch job submission failed: Invalid qos specification")
    settings = [*SETTINGS, "until=clean", "cluster=slurm", "cluster.one_job=never", "dedup.threshold=0.7"]
    with pytest.raises(HeadraceError):
        start_run([*settings, "name=begun"])
    run = SavedRun.read(named_file("runs", "begun"))
    (draft,) = run.file.parent.glob("run-*.json")
    assert read_sealed(draft) == read_sealed(run.file)


def test_a_run_keeps_each_name_that_it_was_given(fake: FakeSlurm, root: Path) -> None:
    """With settings of the same results; the name of another run means the one that has it now."""
    (run_json,) = root.glob("runs/*/run.json")
    start_run([*SETTINGS, "name=c1", "training.micro_batch_rows=1", "cluster=slurm"])
    start_run([*SETTINGS, "name=c2", "cluster=slurm"])
    assert list(labels(root)) == ["c2", "c1", "c8"]
    for name in ("c1", "c2", "c8"):
        assert named_file("runs", name).samefile(run_json)
    for command in (["status", "c8"], ["du", "c1"], ["config", "c8"], ["cancel", "c1"]):
        assert headrace_here(*command).returncode == 0, command
    assert any(line.startswith("c2, c1, c8 ") for line in headrace_here("runs").stdout.splitlines())
    start_run([*SETTINGS, "name=c8", "until=clean", "dedup.threshold=0.7", "cluster=slurm"])
    other = named_file("runs", "c8")
    assert not other.samefile(run_json)
    start_run([*SETTINGS, "name=c1", "cluster=slurm"])
    assert named_file("runs", "c8") == other, "an earlier name does not take it back"
