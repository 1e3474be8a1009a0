"""Refusals of the machine: a read-only or full disk, other people's files, no shared memory, no current folder.

Each gives one line with its cause and what to do, the right exit status, and no traceback.
"""

import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.run import worker
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import plan, save
from tests.command_line import headrace_here
from tests.disks import (
    bound_by_permissions,
    give_away,
    make_read_only,
    small_disk,
    while_bound,
    with_shared_memory,
)
from tests.small_runs import c4_corpus

CODE = Path(__file__).parents[2]


def settings(folder: Path, root: Path, until: str = "signatures") -> list[str]:
    """A run of 24 pages; the root is quoted, for its name may be odd."""
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for rows in c4_corpus() for row in rows))
    source = ["source=jsonl", f"source.paths=[{folder}/pages.jsonl]", "cleaning=none", "dedup.buckets=2"]
    return [*source, f"until={until}", f"root='{root}'"]


def make(overrides: list[str]) -> list[PlannedStage]:
    """The run of ``overrides``, its tasks done in this process."""
    values = compose(overrides)
    config = decoded(values)
    steps = plan(config)
    run_json = save(config, values, steps, overrides)
    for step in steps:
        for phase in step.phases:
            assert worker.main([str(run_json), step.name, phase.name, "0", "1"]) == 0
    return steps


def said(process: "subprocess.CompletedProcess[str]") -> str:
    """The last line of a command that failed, which leaves tracebacks to logs."""
    assert "Traceback" not in process.stderr
    return process.stderr.splitlines()[-1]


def pipeline(overrides: list[str]) -> list[str]:
    return [sys.executable, "-m", "headrace", *overrides]


def outcome_of(command: list[str], cwd: Path = CODE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


def worker_command(overrides: list[str], stage: str, phase: str) -> list[str]:
    """Returns the command of a job: the first task of ``phase``."""
    values = compose(overrides)
    config = decoded(values)
    run_json = save(config, values, plan(config), overrides)
    return [sys.executable, "-m", "headrace.pipeline.run.worker", str(run_json), stage, phase, "0", "1"]


@pytest.fixture(scope="module")
def read_only_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """A folder with a run that is whole, below disk/runs where nobody can write any more, and the run's settings."""
    folder = tmp_path_factory.mktemp("read_only")
    with small_disk(folder / "disk", "8m") as disk:
        overrides = settings(folder, disk / "runs")
        make(overrides)
        make_read_only(disk)
        yield folder, overrides


def test_a_whole_run_on_a_read_only_root_prints_its_summary(read_only_run: tuple[Path, list[str]]) -> None:
    folder, overrides = read_only_run
    again = headrace_here(*overrides)
    assert again.returncode == 0
    assert "kept by clean               24" in again.stdout
    reason = f"root: cannot write below '{folder}/disk/runs' (Read-only file system)"
    assert again.stderr == f"{reason}: run.json was not written; all stages were finished before\n"


def test_a_read_only_root_can_be_looked_at(read_only_run: tuple[Path, list[str]]) -> None:
    folder, _ = read_only_run
    root = f"root={folder}/disk/runs"
    for words in (
        ["status"],
        ["why", f"{folder}/pages.jsonl:2"],
        ["inspect", "clean"],
        ["why", str(CODE / "README.md"), "--as", "page"],
    ):
        shown = headrace_here(*words, root)
        assert (shown.returncode, shown.stderr) == (0, ""), words
        assert shown.stdout


def test_a_read_only_root_refuses_what_is_left_to_do(read_only_run: tuple[Path, list[str]]) -> None:
    folder, overrides = read_only_run
    refused = headrace_here(*overrides, "until=duplicates")
    assert refused.returncode == 2
    wrong = f"cannot write below '{folder}/disk/runs' (Read-only file system)"
    assert said(refused) == f"headrace: root: {wrong}; use a folder of your own: root=FOLDER"


@pytest.mark.parametrize("free", ["60k", "100k", "140k"])
def test_a_full_disk_in_any_stage(tmp_path: Path, free: str) -> None:
    with small_disk(tmp_path / "disk", free) as disk:
        overrides = settings(tmp_path, disk / "runs", until="duplicates")
        values = compose(overrides)
        config = decoded(values)
        steps = plan(config)
        run_json = save(config, values, steps, overrides)
        ends = [
            worker.main([str(run_json), step.name, phase.name, "0", "1"]) for step in steps for phase in step.phases
        ]
    assert 75 in ends
    assert set(ends) <= {0, 1, 75}, "later stages say that their input is missing"
    assert ends[ends.index(75) - 1] == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", ["ro", "size=4k"])
def test_no_shared_memory(options: str) -> None:
    """The data stages need none, because workers have pipes instead of semaphores in /dev/shm."""
    fill = [] if options == "ro" else ["sh", "-c", 'head -c 4096 /dev/zero >/dev/shm/full; exec "$@"', "sh"]
    with tempfile.TemporaryDirectory() as folder:  # tmp_path may be in /dev/shm
        overrides = settings(Path(folder), Path(folder, "runs"))
        done = outcome_of(with_shared_memory(options, [*fill, *pipeline(overrides)]))
    assert done.returncode == 0, said(done)


def test_a_root_whose_name_holds_markup_is_printed_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markup that begins a style, that ends one which did not begin, and an emoji."""
    monkeypatch.setenv("COLUMNS", "400")
    overrides = settings(tmp_path, tmp_path / "[red] :smile: [bold]a[/b]", until="texts")
    texts, report = make(overrides)
    again = headrace_here(*overrides)
    done = [f"{step.name:<11} done before: {step.folder}" for step in (texts, report)]
    assert (again.returncode, again.stderr.splitlines()) == (0, done)
    status = headrace_here("status", *overrides)
    assert (status.returncode, status.stderr) == (0, "")
    assert str(texts.folder) in status.stdout


def test_a_half_done_artifact_of_somebody_else(tmp_path: Path) -> None:
    overrides = settings(tmp_path, tmp_path / "runs")
    *_, signatures, _ = make(overrides)
    _, *arguments = worker_command(overrides, "signatures", "signatures")[2:]
    (signatures.folder / "manifest.json").unlink()
    (signatures.folder / "parts" / "signatures-00000.json").unlink()
    give_away(signatures.folder / "signatures")

    def job() -> str:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = worker.main(arguments)
        return f"{status}\n{errors.getvalue()}"

    status, *_, last = while_bound(job).splitlines()
    assert status == "1"
    assert f"({signatures.folder}/signatures belongs to nobody, you are root)" in last
    assert last.endswith("; ask for access, or use a folder of your own: root=FOLDER")


def inspected(root: Path) -> str:
    """The status of ``headrace inspect clean``, and its last line."""
    done = headrace_here("inspect", "clean", f"root={root}")
    return f"{done.returncode}\n{said(done)}"


def test_an_artifact_that_may_not_be_read(tmp_path: Path) -> None:
    overrides = settings(tmp_path, tmp_path / "runs")
    _, clean, *_ = make(overrides)
    for path in (clean.folder / "manifest.json", clean.folder / "documents" / "00000.jsonl.zst"):
        give_away(path)
        path.chmod(0)
        found = while_bound(lambda: inspected(tmp_path / "runs"))
        owner = "Permission denied (it belongs to nobody, you are root)"
        wrong = f"headrace: {path}: {owner}; ask for access, or use a folder of your own: root=FOLDER"
        assert found == f"1\n{wrong}"
        path.chmod(0o644)


@pytest.mark.slow
def test_a_log_that_may_not_be_written_is_no_killed_worker(tmp_path: Path) -> None:
    overrides = settings(tmp_path, tmp_path / "runs", until="texts")
    texts, _ = make(overrides)
    (texts.folder / "manifest.json").unlink()
    (texts.folder / "parts" / "texts-00000.json").unlink()
    log = texts.folder / "logs" / "texts.log"
    log.touch()
    give_away(log)
    done = outcome_of(bound_by_permissions(pipeline(overrides)))
    assert done.returncode == 1
    assert said(done).startswith(f"headrace: {log}: Permission denied (it belongs to nobody, you are root);")


def test_the_current_folder_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    remove = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", "env", f"PYTHONPATH={CODE / 'src'}"]
    done = outcome_of([*remove, *pipeline(["status", f"root={tmp_path}"])], cwd=gone)
    assert (done.returncode, said(done)) == (
        2,
        "headrace: headrace: the current folder was removed; change to another (cd)",
    )


def test_a_root_whose_name_is_no_text(tmp_path: Path) -> None:
    done = headrace_here("status", f"root={tmp_path}/\udcff")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "is not UTF-8; rename what it names" in done.stderr


def test_a_home_that_belongs_to_somebody_else(tmp_path: Path) -> None:
    """The caches and settings of libraries are not needed."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    give_away(home)
    overrides = settings(tmp_path, tmp_path / "runs", until="texts")
    command = ["env", f"HOME={home}", *worker_command(overrides, "texts", "texts")]
    assert outcome_of(bound_by_permissions(command)).returncode == 0
    shutil.rmtree(home)
