"""Runs that a script or a notebook launches, without ``if __name__ == "__main__"``."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.pipeline.run.saved_run import saved_runs
from tests.other_processes import DEADLINE_SECONDS, wait_until
from tests.small_runs import plain_corpus

ROOT = Path(__file__).parents[3]
SETTINGS = {"source": "jsonl", "source.paths": "pages.jsonl", "source.task_bytes": 4000, "until": "clean"}
OWN_FILTER = """
import time
from pathlib import Path
from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings

@filter_settings
class Waiting(Filter):
    \"\"\"Waits while a file exists; fails at another.\"\"\"

    def judge(self, document):
        Path("begun").touch()
        while Path("wait").exists():
            time.sleep(0.02)
        if Path("fail").exists():
            raise ValueError("no luck")
        return Drop("waiting", "x") if "wheel" not in document.text else None
"""
SCRIPT = """
import logging, multiprocessing, os, signal, sys, threading
def surroundings():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]
    loggers = (logging.root.level, list(logging.root.handlers), logging.raiseExceptions)
    return (dict(os.environ), os.getcwd(), handlers, loggers, threading.active_count(),
            multiprocessing.get_start_method(allow_none=True), sys.modules["__main__"], "torch" in sys.modules)
before = surroundings()
import headrace
run = headrace.launch({settings!r})
print("launched", run.id, run.is_done, len(run.documents("clean")))
changed = [pair for pair in zip(before, surroundings()) if pair[0] != pair[1]]
assert not changed, changed
"""
IN_NOTEBOOK = """
import sys, types
main = sys.modules["__main__"] = types.ModuleType("__main__")  # as in IPython: it has no __file__
class Cell:
    def __init__(self): self.text = ""
    def write(self, text): self.text += text
    def flush(self): pass
sys.stdout = cell = Cell()
try:
    exec(compile({script!r}, "<cell 1>", "exec"), main.__dict__)
finally:
    sys.stdout = sys.__stdout__
    print(cell.text)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The current folder of a script: pages, and a filter of its own."""
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain_corpus()[0]))
    (tmp_path / "own.py").write_text(OWN_FILTER)
    return tmp_path


def settings(**changed: object) -> dict[str, object]:
    own = [{"type": "python", "path": "own:Waiting"}]
    return {**SETTINGS, "workers": 2, "cleaning": "none", "cleaning.filters": own, **changed}


def started(folder: Path, *arguments: str, script: str | None = None) -> "subprocess.Popen[str]":
    """Starts Python in ``folder``; ``script`` is piped to it."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    if script is not None:
        process.stdin.write(script)
        process.stdin.close()
        process.stdin = None
    return process


@pytest.mark.slow
@pytest.mark.parametrize("way", ["python script.py", "python - < script.py", "a cell of a notebook"])
def test_a_script_without_a_main_guard(folder: Path, way: str) -> None:
    """It starts several workers, its surroundings stay as they were, and nothing imports it again."""
    script = SCRIPT.format(settings=settings())
    (folder / "script.py").write_text(script)
    (folder / "cell.py").write_text(IN_NOTEBOOK.format(script=script))
    piped = script if way.startswith("python -") else None
    argument = {"python script.py": "script.py", "a cell of a notebook": "cell.py"}.get(way, "-")
    process = started(folder, argument, script=piped)
    output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, errors
    assert [line for line in output.splitlines() if line.startswith("launched")] == [
        f"launched {next(saved_runs(folder / 'runs')).id} True 12"
    ]
    assert output.count("kept by clean") == 1, "the results, as headrace run prints them"


STOPPED = """
import os, headrace
try:
    headrace.launch({settings!r})
except KeyboardInterrupt as stop:
    print("interrupted:", stop, flush=True)
os.remove("wait")
print("done:", headrace.launch({settings!r}).is_done)
"""


@pytest.mark.slow
def test_an_interrupt_stops_it_and_the_same_call_goes_on(folder: Path) -> None:
    (folder / "wait").touch()
    (folder / "script.py").write_text(STOPPED.format(settings=settings()))
    process = started(folder, "script.py")
    wait_until((folder / "begun").exists, process)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, errors
    assert "interrupted: the run was stopped; launch it again to go on\n" in output
    assert output.endswith("done: True\n")
    assert errors.count("headrace: stopped; ") == 1
    assert "Traceback" not in errors


@pytest.mark.slow
def test_it_stops_when_the_script_is_killed(folder: Path) -> None:
    (folder / "wait").touch()
    (folder / "script.py").write_text(f"import headrace\nheadrace.launch({settings()!r})")
    process = started(folder, "script.py")
    wait_until((folder / "begun").exists, process)
    (run,) = saved_runs(folder / "runs")
    assert len(run.processes()) == 1
    process.kill()
    process.communicate()
    wait_until(lambda: not run.marks)


@pytest.mark.slow
def test_errors_of_the_run_are_raised(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(headrace.ConfigError, match=r"^source.paths: .*no\.jsonl"):
        headrace.launch(settings(**{"source.paths": "no.jsonl"}))
    (folder / "fail").touch()
    with pytest.raises(headrace.TaskError, match=r"python\.Waiting\.failed at 12 of 12 pages: ValueError in own\.py"):
        headrace.launch(settings(workers=1))
    assert "python.Waiting.failed" not in capfd.readouterr().err, "the error is not printed, too"
