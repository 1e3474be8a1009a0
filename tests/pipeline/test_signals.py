"""Polite signals to the command, while ranks or workers are at work for it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.core import work_log
from headrace.pipeline.core.metrics_file import read_metrics
from tests.other_processes import DEADLINE_SECONDS, wait_until
from tests.small_runs import page

ROOT = Path(__file__).parents[2]
PARENT = """
import os, subprocess, sys
variables = [os.environ | {"RANK": str(rank)} for rank in range(int(sys.argv[3]))]
ranks = [subprocess.Popen([sys.executable, "-m", "rank", "single"], env=each) for each in variables]
sys.exit(max(abs(rank.wait()) for rank in ranks))
"""
"""Starts ranks as rank.py does, but without torch."""
RANK = """
import os, signal, sys, time
from pathlib import Path
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import StoppedError
folder, asked, rank = Path(os.environ["FOLDER"]), [], int(os.environ["RANK"])
print("a rank", os.environ["OMP_WAIT_POLICY"], os.environ["PYTHONSAFEPATH"], flush=True)
time.sleep(float(os.environ["SETUP_SECONDS"]))
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
(folder / f"ready-{rank}").touch()
while not all((folder / f"ready-{one}").exists() for one in range(int(os.environ["RANKS"]))):
    time.sleep(0.01)  # a training's ranks meet before the first step
if not rank:
    work_log.record_start(folder, "weights: goes on from step 0")
for step in range(1, 10_000):
    with (folder / ("other.jsonl" if rank else "metrics.jsonl")).open("a") as file:
        file.write(f'{{"step": {step}}}\\n')
    time.sleep(0.05)
    if asked:
        time.sleep(float(os.environ["SAVE_SECONDS"]))
        if not rank:
            error = StoppedError("weights", f"stopped on request at step {step}", "run again")
            work_log.write_error(folder, error)
        sys.exit(75)
"""
COMMAND = """
import os, sys
from pathlib import Path
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.signals import Stop, stoppable
from headrace.pipeline.run import local_ranks
from headrace.train.weights import Weights
MODEL = {"layers": 2, "width": 32, "heads": 4, "kv_heads": 4, "context": 64, "mlp_width": 64}
SETTINGS = {
    "model": MODEL,
    "optimizer": {"type": "adamw", "learning_rate": 1e-2},
    "schedule": {"type": "cosine", "warmup_steps": 2},
    "training": {"steps": 1000, "batch_rows": 8, "micro_batch_rows": 4},
}
folder = Path(sys.argv[1])
try:
    with stoppable():
        local_ranks.RANK = "rank"
        local_ranks.launch(decode(Weights, SETTINGS), folder, folder / "run.json", int(os.environ["RANKS"]))
except Stop as stop:
    print(stop, file=sys.stderr)
    sys.exit(stop.exit_status)
"""


class Command:
    """A process in a group of its own, and its output."""

    def __init__(self, folder: Path, script: str, stderr: int = subprocess.PIPE, **variables: str) -> None:
        paths = os.pathsep.join([str(folder / "stand_in"), str(ROOT / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)],
            stderr=stderr,
            text=True,
            start_new_session=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths, "FOLDER": str(folder), **variables},
        )

    def wait_for(self, sign: Callable[[], object]) -> None:
        wait_until(sign, self.process)

    def end(self) -> tuple[int, list[str]]:
        """Returns its status, and the lines on its standard error."""
        _, lines = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, lines.splitlines()


@pytest.fixture
def training(tmp_path: Path) -> Callable[..., Command]:
    """Starts the launcher, with stand-ins for the ranks and their parent."""
    folder = tmp_path / "stand_in"
    folder.mkdir()
    (folder / "forked.py").write_text(PARENT)
    (folder / "single.py").write_text(RANK)
    (folder / "rank.py").write_text("import sys; __import__(sys.argv[1])")
    variables = {"RANKS": "2", "SETUP_SECONDS": "0", "SAVE_SECONDS": "0"}
    return lambda **changed: Command(tmp_path, COMMAND, **{**variables, **changed})


def is_over(folder: Path) -> bool:
    """Whether no process of ``folder`` is left."""
    mark = f"FOLDER={folder}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environment.read_bytes().split(b"\0"):
                return False
        except OSError:  # it ended
            continue
    return True


START = "weights: goes on from step 0"
SAVING = "weights: saving and stopping (a second signal ends it at once)"
NOT_SAVED = "stopped; run the same command again to go on"


@pytest.mark.parametrize(
    ("number", "send", "ranks"),
    [
        (signal.SIGINT, os.killpg, 2),
        pytest.param(signal.SIGINT, os.kill, 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, os.kill, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, os.kill, 1, marks=pytest.mark.slow),
    ],
)
def test_the_ranks_save_and_end(tmp_path: Path, training, number: signal.Signals, send, ranks: int) -> None:
    command = training(RANKS=str(ranks))
    command.wait_for(lambda: len(read_metrics(tmp_path / "metrics.jsonl")) > 2)
    assert command.process.stderr.readline().strip() == START
    send(command.process.pid, number)
    status, lines = command.end()
    last = read_metrics(tmp_path / "metrics.jsonl")[-1]["step"]
    assert status == 128 + number
    assert lines[-2:] == [SAVING, f"weights: stopped on request at step {last}; run again"]
    wait_until(lambda: is_over(tmp_path))  # killed processes end a little later


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_reader_of_the_output_that_ends_with_it_hinders_no_save(
    training: Callable[..., Command], tmp_path: Path, number: signal.Signals
) -> None:
    """``headrace … 2>&1 | tee log``: Ctrl-C ends tee as well."""
    command = training()
    command.wait_for(lambda: len(read_metrics(tmp_path / "metrics.jsonl")) > 2)
    assert command.process.stderr is not None
    command.process.stderr.close()
    command.process.send_signal(number)
    assert command.process.wait(DEADLINE_SECONDS) == 128 + number
    reported = work_log.error_of(tmp_path)
    assert str(reported).startswith("weights: stopped on request at step ")


@pytest.mark.parametrize("ranks", [1, 2])
def test_before_the_first_step_it_ends_at_once(tmp_path: Path, training, ranks: int) -> None:
    """The ranks, whose threads sleep while they wait, have reported their start."""
    command = training(RANKS=str(ranks), SETUP_SECONDS="1000")
    log = tmp_path / "logs/ranks.log"
    command.wait_for(lambda: log.is_file() and log.read_text() == "a rank PASSIVE 1\n" * ranks)
    os.killpg(command.process.pid, signal.SIGINT)
    status, lines = command.end()
    assert (status, lines[-1]) == (130, NOT_SAVED)
    wait_until(lambda: is_over(tmp_path))  # killed processes end a little later


def test_a_second_signal_ends_it_at_once(tmp_path: Path, training) -> None:
    command = training(SAVE_SECONDS="1000")
    command.wait_for(lambda: len(read_metrics(tmp_path / "metrics.jsonl")) > 2)
    assert command.process.stderr.readline().strip() == START
    os.killpg(command.process.pid, signal.SIGINT)
    assert command.process.stderr.readline().strip() == SAVING
    os.killpg(command.process.pid, signal.SIGINT)
    status, lines = command.end()
    assert (status, lines[-1]) == (130, NOT_SAVED)
    wait_until(lambda: is_over(tmp_path))  # killed processes end a little later


def test_a_closed_terminal_does_not_end_what_runs_under_nohup(tmp_path: Path, training) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = training()
    finally:
        signal.signal(signal.SIGHUP, before)
    command.wait_for(lambda: len(read_metrics(tmp_path / "metrics.jsonl")) > 2)
    os.killpg(command.process.pid, signal.SIGHUP)
    reached = len(read_metrics(tmp_path / "metrics.jsonl"))
    command.wait_for(lambda: len(read_metrics(tmp_path / "metrics.jsonl")) > reached + 4)
    os.kill(command.process.pid, signal.SIGTERM)
    assert command.end()[0] == 143


def test_a_closed_terminal_takes_no_lines_and_the_ranks_save(tmp_path: Path, training) -> None:
    ours, theirs = os.openpty()
    command = training(stderr=theirs)
    os.close(theirs)
    command.wait_for(lambda: len(read_metrics(tmp_path / "metrics.jsonl")) > 2)
    os.close(ours)
    os.kill(command.process.pid, signal.SIGHUP)
    assert command.process.wait(DEADLINE_SECONDS) == 129
    last = read_metrics(tmp_path / "metrics.jsonl")[-1]["step"]
    assert str(work_log.error_of(tmp_path)) == f"weights: stopped on request at step {last}; run again"
    wait_until(lambda: is_over(tmp_path))  # killed processes end a little later


TASKS = """
import sys
from pathlib import Path
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.core.signals import Stop, stoppable
from headrace.pipeline.run.planned_stage import TaskExecutor
from headrace.pipeline.run.workers import Workers
from tests.stand_in import Squares
if __name__ == "__main__":
    try:
        with stoppable():
            step = TaskExecutor(Squares(fault="wait"), {}, {}, Path(sys.argv[1]), "write", 6)
            with Workers(2) as workers, StageProgress("squares", 1) as progress:
                progress.start_phase(1, "write", 6)
                step.run(workers, progress)
    except Stop as stop:
        print(stop, file=sys.stderr)
        sys.exit(stop.exit_status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_finished_tasks_are_kept(tmp_path: Path, number: signal.Signals) -> None:
    """Five of six are done; the sixth waits."""
    command = Command(tmp_path, TASKS)
    command.wait_for(lambda: len(list(tmp_path.glob("parts/*.json"))) == 5)
    os.killpg(command.process.pid, number)
    status, lines = command.end()
    without_progress = [line for line in lines if not line.startswith("squares: phase 1/1 write")]
    assert (status, without_progress) == (128 + number, [NOT_SAVED])
    assert len(list(tmp_path.glob("parts/*.json"))) == 5
    assert "Traceback" not in (tmp_path / "logs/write.log").read_text()


@pytest.mark.slow
def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    """``headrace evaluate --checkpoints`` waits for checkpoints."""
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": page(0)}) + "\n")
    settings = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", f"root={tmp_path}/runs", "until=weights"]
    main = "import sys; from headrace.pipeline.__main__ import main; sys.argv[1:] = {}; main()".format(
        ["evaluate", "--checkpoints", "--watch", *settings]
    )
    command = Command(tmp_path, main)
    assert command.process.stderr.readline().startswith("checkpoints of ")
    os.kill(command.process.pid, signal.SIGTERM)
    assert command.end() == (143, [f"headrace: {NOT_SAVED}"])
