import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.artifact import finish, part_path
from headrace.pipeline.core.artifact_files import held
from headrace.pipeline.core.claim import Owner, claim_of
from headrace.pipeline.core.errors import RetryableError, TaskError
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.run.planned_stage import TaskExecutor
from headrace.pipeline.run.workers import TaskEnd, Workers, start_error
from tests.other_processes import DEADLINE_SECONDS, is_running, wait_until
from tests.pipeline.run.claim_clock import release_when_reported
from tests.stand_in import Squares


def run_phase(stage: Squares, folder: Path, phase: str = "write", workers: int = 2) -> None:
    tasks = {phase.name: phase.tasks for phase in stage.phases({})}[phase]
    with Workers(workers) as pool, StageProgress(stage.name, 1) as progress:
        progress.start_phase(1, phase, tasks)
        TaskExecutor(stage, {}, {}, folder, phase, tasks).run(pool, progress)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of an artifact; logs are not part of it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in named.items() if not name.startswith("logs/")}


def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path) -> None:
    for workers in (1, 3):
        for phase in ("write", "sum"):
            run_phase(Squares(), tmp_path / str(workers), phase, workers)
        finish(tmp_path / str(workers), {}, {"write": 6, "sum": 1})
    assert contents(tmp_path / "1") == contents(tmp_path / "3")
    assert (tmp_path / "1/sum.txt").read_text() == "55"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_root_that_is_moved_is_not_made_again(tmp_path: Path, workers: int) -> None:
    """What was done before is whole where it is now, and the same work goes on there."""
    folder, there = tmp_path / "root/squares", tmp_path / "moved/squares"
    stage = Squares(fault="move", cure=str(there))
    with held(folder), pytest.raises(TaskError, match=rf"squares: was moved or replaced .*: it is {there} now"):
        run_phase(stage, folder, workers=workers)
    assert not folder.parent.exists()
    done = [path.read_bytes() for path in sorted(there.glob("squares/[0-9]*"))]
    assert done
    run_phase(stage, there)
    assert len(list(there.glob("parts/*.json"))) == 6


def test_a_killed_worker_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    stage = Squares(fault="kill", cure=str(tmp_path / "cure"))
    with pytest.raises(
        RetryableError, match=r"squares\.write: a worker process was killed, \d of 6 tasks are not done"
    ):
        run_phase(stage, tmp_path / "out")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/parts").glob("*.json")}
    (tmp_path / "cure").touch()
    run_phase(stage, tmp_path / "out")
    assert len(list((tmp_path / "out/squares").glob("[0-9]*"))) == 6
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())


def test_workers_do_not_run_the_script_of_the_main_process_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have no main guard: every worker would end there, as if it were killed."""
    script = types.ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    (tmp_path / "script.py").write_text(f"open({str(tmp_path / 'again')!r}, 'w')\nraise SystemExit(1)\n")
    monkeypatch.setitem(sys.modules, "__main__", script)
    run_phase(Squares(), tmp_path / "out")
    assert sys.modules["__main__"] is script
    assert not (tmp_path / "again").exists()


def test_a_bug_names_the_task_and_the_log(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as raised:
        run_phase(Squares(fault="bug"), tmp_path)
    log = tmp_path / "logs/write.log"
    assert str(raised.value) == (
        f"squares.write task 3: ZeroDivisionError: division by zero; see {log}; running again repeats this task only"
    )
    assert "Traceback" in log.read_text()


def test_an_error_that_a_task_explains_arrives_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"^squares task 3: the moon is full; wait$"):
        run_phase(Squares(fault="error"), tmp_path)


def test_an_error_that_cannot_be_pickled_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RetryableError, match=f"^{tmp_path}: No space left on device; free some space and run again$"):
        run_phase(Squares(fault="odd"), tmp_path)


class Closed:
    """The main function of a worker that cannot be imported there."""

    def __reduce__(self):
        return refuse, ()


def refuse() -> None:
    raise LookupError("the channel is closed")


def test_a_worker_that_does_not_start_is_no_lack_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pipeline.run.workers._serve", Closed())
    rank = r"(\[rank0\]: )?"  # torch writes it in a process where another test has begun a process group
    expected = f"^squares.write: a worker process did not start: {rank}LookupError: the channel is closed; correct the"
    with pytest.raises(TaskError, match=expected):
        run_phase(Squares(), tmp_path)


def started(script: Path, text: str) -> "subprocess.Popen[str]":
    """Starts a Python program with ``text`` as its main module."""
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": "src:."}
    return subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_main_process(tmp_path: Path) -> None:
    """Neither idle ones nor one in the middle of a task."""
    main = started(
        tmp_path / "main.py",
        f"""
import os
from pathlib import Path
from headrace.pipeline.run.workers import TaskEnd, Workers
from tests.pipeline.run.test_planned_stage import print_and_wait
if __name__ == "__main__":
    list(Workers(2).run(print_and_wait, [0, 1], Path({str(tmp_path / "log")!r})))
""",
    )
    log = tmp_path / "log"
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 2, main)
    workers = log.read_text().split()
    main.send_signal(signal.SIGKILL)
    main.wait()
    wait_until(lambda: not any(is_running(int(worker)) for worker in workers))


def print_and_wait(task: int) -> None:
    os.write(1, f"{os.getpid()}\n".encode())  # print would write the end of the line apart
    time.sleep(60 * task)


def print_number(task: int) -> None:
    print(task)


def test_what_a_task_prints_is_in_the_log(tmp_path: Path) -> None:
    """A user's filter may print without a flush, and workers end without clean-up."""
    with Workers(2) as workers:
        list(workers.run(print_number, [0, 1], tmp_path / "log"))
    assert sorted((tmp_path / "log").read_text().split()) == ["0", "1"]


def test_workers_serve_several_phases(tmp_path: Path) -> None:
    """They keep what they loaded. A phase of a single task has a worker of its own, which may use all cores."""
    with Workers(2) as workers:
        for log, tasks in (("a", [0, 0, 0]), ("b", [0, 0]), ("c", [0]), ("d", [0])):
            assert [end.error for end in workers.run(print_and_wait, tasks, tmp_path / log)] == [None] * len(tasks)
    a, b, c, d = ((tmp_path / log).read_text().split() for log in "abcd")
    assert len(set(a)) == 2
    assert set(b) == set(a)
    assert c == d
    assert not set(c) & set(a)
    assert not is_running(int(c[0]))


@pytest.mark.parametrize("error", [EOFError("unexpected EOF"), ConnectionRefusedError()])
def test_a_fork_server_that_was_killed_is_retryable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    """It is found when it is asked for a worker."""

    def start(*_: object) -> None:
        raise error

    monkeypatch.setattr("multiprocessing.context.ForkServerProcess.start", start)
    monkeypatch.setattr("headrace.pipeline.run.workers.start_error", str)  # workers of other tests may have left one
    with pytest.raises(RetryableError, match=r"a worker process was killed, (\d+) of \1 tasks are not done; run again"):
        run_phase(Squares(), tmp_path)


class Broken:
    """A task that the main process can pickle, and a worker cannot load."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)

    def __call__(self, task: int) -> None:
        """Is never called."""


def test_a_task_that_cannot_be_loaded_is_an_error_of_the_task(tmp_path: Path) -> None:
    with Workers(2) as workers:
        found = list(workers.run(Broken(), [0, 1], tmp_path / "log"))
    assert {one.text for one in found if isinstance(one, TaskEnd)} == {
        "ValueError: invalid literal for int() with base 10: 'no number'"
    }


def test_a_worker_that_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"a worker process ended with status 3; see .*/logs/write\.log") as caught:
        run_phase(Squares(fault="exit"), tmp_path)
    assert not isinstance(caught.value, RetryableError)


def test_without_a_file_in_memory_no_start_error_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems other than Linux."""
    with open(os.devnull, "r+b") as null:
        monkeypatch.setattr("headrace.pipeline.run.workers._output", null.fileno)
        assert start_error() == ""


def test_after_an_error_running_tasks_are_finished_and_no_other_is_started(tmp_path: Path) -> None:
    """Task 3 fails while others run. What they do is kept."""
    with pytest.raises(TaskError, match="the moon is full"):
        run_phase(Squares(tasks=4000, fault="error"), tmp_path)
    done = {int(path.stem[-5:]) for path in (tmp_path / "parts").glob("*.json")}
    assert {0, 1, 2} <= done
    assert len(done) < 3999, "those would take seconds"
    assert not list((tmp_path / "parts").glob("*.claim"))


COMMAND = """
import os, sys
from pathlib import Path
from headrace.pipeline.core.artifact import finish
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.run.planned_stage import TaskExecutor
from headrace.pipeline.run.workers import TaskEnd, Workers
from tests.stand_in import Squares
if __name__ == "__main__":
    folder, log, runners = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    stage = Squares(tasks=8, log=log, runner=str(os.getpid()), runners=runners)
    with Workers(2) as workers, StageProgress("squares", 2) as progress:
        for number, phase in enumerate(stage.phases({}), 1):
            progress.start_phase(number, phase.name, phase.tasks)
            TaskExecutor(stage, {}, {}, folder, phase.name, phase.tasks).run(workers, progress)
    finish(folder, {}, {phase.name: phase.tasks for phase in stage.phases({})})
"""
"""One of argv[3] commands on the folder argv[1]; argv[2] is the log of what ran."""


def commands(tmp_path: Path, folder: Path, number: int) -> "list[subprocess.Popen[str]]":
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    environment = {**os.environ, "PYTHONPATH": "src:."}
    command = [sys.executable, str(script), str(folder), str(tmp_path / "ran"), str(number)]
    return [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(number)]


@pytest.mark.slow
def test_two_equal_commands_share_the_tasks_and_both_end_well(tmp_path: Path) -> None:
    (alone,) = commands(tmp_path, tmp_path / "alone", 1)
    assert alone.wait(DEADLINE_SECONDS) == 0
    (tmp_path / "ran").unlink()
    both = commands(tmp_path, tmp_path / "shared", 2)
    said = [command.communicate(timeout=DEADLINE_SECONDS)[1] for command in both]
    assert [command.returncode for command in both] == [0, 0], said
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert sorted(task for task, _ in ran) == sorted(map(str, range(8))), "each task ran once"
    assert len({main for _, main in ran}) == 2, "both commands took a share"
    assert all("squares: 2 phases in " in lines for lines in said)


@pytest.mark.slow
def test_the_tasks_of_a_killed_command_are_taken_over(tmp_path: Path) -> None:
    first, second = commands(tmp_path, tmp_path / "out", 2)
    ran = tmp_path / "ran"
    wait_until(lambda: ran.exists() and f" {first.pid}\n" in ran.read_text())
    first.kill()
    _, said = second.communicate(timeout=DEADLINE_SECONDS)
    assert second.returncode == 0, said
    assert (tmp_path / "out/sum.txt").read_text() == "140"
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix == ".claim" or path.name[:4] == "tmp-"]


def test_it_says_for_whom_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claim_of(part_path(tmp_path, "sum", 0))
    holder = started(
        tmp_path / "holder.py",
        f"""
import time
from pathlib import Path
from headrace.pipeline.core.claim import claimed
with claimed(Path({str(claim)!r})):
    print("held", flush=True)
    time.sleep(600)
""",
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    run_phase(Squares(), tmp_path)
    release_when_reported(monkeypatch, holder.kill)
    run_phase(Squares(), tmp_path, "sum")
    assert f"squares.sum waits for {Owner.current().node} PID {holder.pid}\n" in capsys.readouterr().err
    assert (tmp_path / "sum.txt").read_text() == "55"
    holder.wait()


def test_a_worker_that_lost_its_task_and_its_files_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was suspended while another command did its task, finished the artifact and removed its unfinished files."""
    executor = TaskExecutor(Squares(), {}, {}, tmp_path, "write", 6)

    def suspended(step: TaskExecutor, task: int) -> None:
        if task == 3:
            part = part_path(tmp_path, "write", 3)
            part.parent.mkdir(exist_ok=True)
            part.touch()
        raise FileNotFoundError("tmp-")

    monkeypatch.setattr(TaskExecutor, "write", suspended)
    assert executor.run_task(3)
    with pytest.raises(FileNotFoundError):
        executor.run_task(4)
