"""Ranks: those that are forks of one process meet at its socket, and none is left when one of them, or the process,
ends. In a job: inputs that are not finished, a job of another version, and the modules that a rank loads.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.run import rank
from headrace.pipeline.run.planner import plan, save
from headrace.pipeline.tracking.tracker import Recorder
from tests.other_processes import DEADLINE_SECONDS, is_running, wait_until

OF_DATA = ("headrace.pipeline.config", "headrace.data_prep.filters", "headrace.data_prep.sources", "numba", "datatrove")

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from headrace.pipeline.run import rank
from headrace.train.distributed import forks

def single(stage_json):
    import torch
    from headrace.train.distributed import processes
    folder, how = Path(stage_json), sys.argv[3]
    (folder / f"rank-{os.environ['RANK']}").write_text(str(os.getpid()))
    if how == "fails" and os.environ["RANK"] == "1":
        raise ValueError("rank 1 fails")
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if how == "killed" or how == "deaf":
        time.sleep(100 if os.environ["RANK"] == "0" or how == "killed" else 0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    ranks = processes.start("cpu")
    gathered = processes.gather((ranks.rank, ranks.local_rank, ranks.world, os.environ["RANK"]))
    (folder / f"found-{ranks.rank}").write_text(repr(gathered))
    return 0

rank.single = single
forks.ENDING_SECONDS = 0.5
rank.exit_now(rank.forked(*sys.argv[1:3]))
"""


def start(folder: Path, ranks: int, how: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT, str(folder), str(ranks), how]
    paths = os.pathsep.join(sys.path)
    environment = os.environ | {"PYTHONPATH": paths}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def test_they_meet_and_know_their_numbers(tmp_path: Path) -> None:
    process = start(tmp_path, 3, "works")
    assert process.communicate(timeout=DEADLINE_SECONDS) is not None
    assert process.returncode == 0
    expected = repr([(rank, rank, 3, str(rank)) for rank in range(3)])
    assert [(tmp_path / f"found-{rank}").read_text() for rank in range(3)] == [expected] * 3


@pytest.mark.slow
def test_the_others_end_when_one_fails_while_they_wait_for_it(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "fails")
    _, words = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert words.count("ValueError: rank 1 fails") == 1


@pytest.mark.slow
def test_one_that_does_not_end_when_it_is_asked_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "deaf")
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 128 + signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_they_end_with_their_parent(tmp_path: Path) -> None:
    process = start(tmp_path, 2, "killed")
    files = [tmp_path / f"rank-{rank}" for rank in range(2)]
    wait_until(lambda: all(file.is_file() and file.read_text() for file in files))
    ranks = [int(file.read_text()) for file in files]
    assert all(map(is_running, ranks))
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, ranks)))


def test_it_ends_with_a_killed_launcher_that_nobody_waits_for() -> None:
    """Which stays as a zombie: in a container whose first process waits for no other."""
    launcher = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    watching = "from headrace.pipeline.run.rank import exit_with; import sys, time; exit_with(int(sys.argv[1]))"
    code = f"{watching}; print('ready', flush=True); time.sleep(600)"
    rank = subprocess.Popen([sys.executable, "-c", code, str(launcher.pid)], stdout=subprocess.PIPE)
    assert rank.stdout is not None
    assert rank.stdout.readline() == b"ready\n"
    launcher.kill()
    assert rank.wait(DEADLINE_SECONDS) == 1
    launcher.wait()


def test_an_input_whose_last_task_was_killed_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    settings = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", f"root={tmp_path}/root", "until=clean"]
    values = compose(settings)
    texts, clean, report = plan(decoded(values))
    run_json = save(decoded(values), values, [texts, clean, report])
    texts.executor(texts.phases[0]).run_task_when_free(0)
    seen = []
    monkeypatch.setattr(rank, "run_rank", lambda step, run: seen.append((step.name, texts.is_whole)))
    rank.run_in_job(clean, run_json)
    assert seen == [("clean", True)]


@pytest.mark.parametrize(("number", "recorded"), [("0", ["texts"]), ("1", [])])
def test_a_stage_that_is_done_is_recorded_by_rank_0_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, recorded: list[str]
) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "One page."}) + "\n")
    settings = ["source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", f"root={tmp_path}/root", "until=texts"]
    values = compose(settings)
    texts, report = plan(decoded(values))
    run_json = save(decoded(values), values, [texts, report])
    texts.executor(texts.phases[0]).run_task_when_free(0)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_PROCID", number)
    seen: list[str] = []
    monkeypatch.setattr(Recorder, "record", lambda _, stage, folder: seen.append(stage))
    rank.run_in_job(texts, run_json)
    assert seen == recorded


def test_a_job_of_a_version_that_wrote_no_such_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rank.of_job(str(tmp_path / "run-ab.json"), "weights") == 2
    said = capsys.readouterr().err
    expected = (
        f"headrace: {tmp_path}/weights.run-ab.json: is not there: another version of headrace submitted this job; "
    )
    assert said.startswith(expected)


def test_the_modules_of_the_data_stages_are_not_loaded() -> None:
    code = "import sys, headrace.pipeline.run.rank; print([name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *OF_DATA], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
