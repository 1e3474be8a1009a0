import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from headrace.pipeline.core.artifact import finish, part_path
from headrace.pipeline.core.claim import QUIET_SECONDS, claim_of
from headrace.pipeline.core.errors import RetryableError, TaskError
from headrace.pipeline.core.owner import Owner
from headrace.pipeline.run.executor import PhaseStep, TaskExecutor
from tests.stand_in import Squares


def run_phase(stage: Squares, folder: Path, phase: str = "write", workers: int = 2) -> None:
    tasks = {phase.name: phase.tasks for phase in stage.phases({})}[phase]
    TaskExecutor(PhaseStep(stage, {}, {}, folder, phase), tasks, workers).run()


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


def started(script: Path, text: str) -> "subprocess.Popen[str]":
    """Starts a Python program with ``text`` as its main module."""
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": "src:."}
    return subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment)


def test_workers_do_not_outlive_a_killed_main_process(tmp_path: Path) -> None:
    main = started(
        tmp_path / "main.py",
        f"""
import time
from concurrent.futures import ProcessPoolExecutor
from headrace.pipeline.run.executor import _context, _initialize_worker
import os
if __name__ == "__main__":
    worker_end, main_end = _context().Pipe(duplex=False)
    pool = ProcessPoolExecutor(1, _context(), _initialize_worker, (None, worker_end, 1, {str(tmp_path / "log")!r}))
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 60).result()
""",
    )
    assert main.stdout is not None
    worker = int(main.stdout.readline())
    main.send_signal(signal.SIGKILL)
    main.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


def test_workers_killed_as_the_pool_ends_do_not_hold_up_the_exit(tmp_path: Path) -> None:
    """One idle worker holds the lock of the pool's queue. If it dies too late for the pool to see, the lock is lost."""
    main = started(
        tmp_path / "main.py",
        f"""
import multiprocessing, os, signal
from pathlib import Path
from headrace.pipeline.run.executor import PhaseStep, TaskExecutor
from tests.stand_in import Squares
if __name__ == "__main__":
    for number in range(4):
        step = PhaseStep(Squares(), {{}}, {{}}, Path({str(tmp_path)!r}, str(number)), "write")
        finished = TaskExecutor(step, 6, 5)._finished(list(range(6)))
        for _ in range(6):
            next(finished)
        for worker in multiprocessing.active_children()[:-1]:
            os.kill(worker.pid, signal.SIGKILL)
        print(next(finished, "over"), flush=True)
""",
    )
    try:
        said, _ = main.communicate(timeout=60)
    finally:
        main.kill()
    assert (main.returncode, said) == (0, "over\n" * 4)


@pytest.mark.parametrize("error", [EOFError("unexpected EOF"), ConnectionRefusedError(), BrokenProcessPool()])
def test_a_fork_server_that_was_killed_is_retryable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    """The pool starts its workers while tasks are submitted."""

    def submit(*_: object) -> None:
        raise error

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", submit)
    with pytest.raises(RetryableError, match=r"a worker process was killed, (\d+) of \1 tasks are not done; run again"):
        run_phase(Squares(), tmp_path)


COMMAND = """
import os, sys
from pathlib import Path
from headrace.pipeline.core.artifact import finish
from headrace.pipeline.run.executor import PhaseStep, TaskExecutor
from tests.stand_in import Squares
if __name__ == "__main__":
    folder, log, runners = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    stage = Squares(tasks=8, log=log, runner=str(os.getpid()), runners=runners)
    for phase in stage.phases({}):
        TaskExecutor(PhaseStep(stage, {}, {}, folder, phase.name), phase.tasks, 2).run()
    finish(folder, {}, {phase.name: phase.tasks for phase in stage.phases({})})
"""
"""One of argv[3] commands on the folder argv[1]; argv[2] is the log of what ran."""


def commands(tmp_path: Path, folder: Path, number: int) -> "list[subprocess.Popen[str]]":
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    environment = {**os.environ, "PYTHONPATH": "src:."}
    command = [sys.executable, str(script), str(folder), str(tmp_path / "ran"), str(number)]
    return [subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) for _ in range(number)]


def test_two_equal_commands_share_the_tasks_and_both_end_well(tmp_path: Path) -> None:
    (alone,) = commands(tmp_path, tmp_path / "alone", 1)
    assert alone.wait(60) == 0
    (tmp_path / "ran").unlink()
    both = commands(tmp_path, tmp_path / "shared", 2)
    said = [command.communicate(timeout=60)[1] for command in both]
    assert [command.returncode for command in both] == [0, 0], said
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert sorted(task for task, _ in ran) == sorted(map(str, range(8))), "each task ran once"
    assert len({main for _, main in ran}) == 2, "both commands took a share"
    assert all("write 8/8 tasks" in words for words in said), "the other command's tasks count"


def test_the_tasks_of_a_killed_command_are_taken_over(tmp_path: Path) -> None:
    first, second = commands(tmp_path, tmp_path / "out", 2)
    ran = tmp_path / "ran"
    while not ran.exists() or f" {first.pid}\n" not in ran.read_text():
        time.sleep(0.01)
    first.kill()
    _, said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert (tmp_path / "out/sum.txt").read_text() == "140"
    assert not [path for path in (tmp_path / "out").rglob("*") if path.suffix == ".claim" or path.name[:4] == "tmp-"]


def test_it_says_for_whom_it_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = claim_of(part_path(tmp_path, "sum", 0))
    holder = started(
        tmp_path / "holder.py",
        f"""
import time
from pathlib import Path
from headrace.pipeline.core.claim import claimed
with claimed(Path({str(claim)!r})):
    print("held", flush=True)
    time.sleep(60)
""",
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    run_phase(Squares(), tmp_path)
    threading.Timer(QUIET_SECONDS + 1, holder.kill).start()
    run_phase(Squares(), tmp_path, "sum")
    assert f"squares.sum waits for {Owner.current().node} PID {holder.pid}\n" in capsys.readouterr().err
    assert (tmp_path / "sum.txt").read_text() == "55"
    holder.wait()


def test_a_worker_that_lost_its_task_and_its_files_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was suspended while another command did its task, finished the artifact and removed its unfinished files."""
    executor = TaskExecutor(PhaseStep(Squares(), {}, {}, tmp_path, "write"), 6, 1)

    def suspended(rank: int, local_rank: int) -> None:
        if rank == 3:
            part = part_path(tmp_path, "write", 3)
            part.parent.mkdir(exist_ok=True)
            part.touch()
        raise FileNotFoundError("tmp-")

    monkeypatch.setattr(executor, "_run_for_rank", suspended)
    assert executor.run_task(3)
    with pytest.raises(FileNotFoundError):
        executor.run_task(4)
