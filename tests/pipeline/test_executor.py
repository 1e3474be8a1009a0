import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from pipeline.core.artifact import finish
from pipeline.core.errors import RetryableError, TaskError
from pipeline.executor import PhaseStep, TaskExecutor
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
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/parts").iterdir()}
    (tmp_path / "cure").touch()
    run_phase(stage, tmp_path / "out")
    assert len(list((tmp_path / "out/squares").iterdir())) == 6
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
    """``text`` as the main process of a program of its own."""
    script.write_text(text)
    environment = {**os.environ, "PYTHONPATH": "."}
    return subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment)


def test_workers_do_not_outlive_a_killed_main_process(tmp_path: Path) -> None:
    main = started(
        tmp_path / "main.py",
        f"""
import time
from concurrent.futures import ProcessPoolExecutor
from pipeline.executor import _context, _enter_worker
import os
if __name__ == "__main__":
    theirs, ours = _context().Pipe(duplex=False)
    pool = ProcessPoolExecutor(1, _context(), _enter_worker, (theirs, 1, {str(tmp_path / "log")!r}))
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
from pipeline.executor import PhaseStep, TaskExecutor
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
