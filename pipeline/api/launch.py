"""Launches a run from a notebook or a script, in a process of its own.

    launch ──> python -m headrace.pipeline.api.launch FOLDER OVERRIDE … ──> workers, ranks, jobs
       │            └─ its output, its error ──> sys.stdout, sys.stderr, a HeadraceError
       └─ Ctrl-C, an interrupt of the notebook ──> SIGINT: it stops in an orderly way

    FOLDER/run.txt           the path of the finished or submitted run's run.json
    FOLDER/logs/error.json   else its error (core/work_log.py)

So the calling process keeps its signal handlers, environment, threads and modules. No process imports the caller's
script, so it needs no ``if __name__ == "__main__"``. The standard input of the process is a pipe: when the calling
process ends, it stops in an orderly way.
"""

import codecs
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.api.run import Run
from headrace.pipeline.command_line.declaration import load
from headrace.pipeline.configuration.composition import with_full_names
from headrace.pipeline.configuration.overrides import as_overrides
from headrace.pipeline.core import environment, work_log
from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.signals import STOP_SIGNALS, Stop, stoppable
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.run.saved_run import SavedRun

BLOCK_BYTES = 1 << 16
RUN_FILE = "run.txt"
STOPPED = "the run was stopped; launch it again to go on"


def launch(settings: str | Sequence[str] | Mapping[str, Any] = ()) -> Run:
    """Runs what is left to do of the run with ``settings``, and returns it; on a cluster, it returns after submission.

    Progress and results are printed to ``sys.stderr`` and ``sys.stdout``, as by ``headrace run``. An interrupt stops
    the run in an orderly way: finished tasks are kept, a training saves a checkpoint, and the same call goes on later.
    A second interrupt ends it at once. The run stops, too, when this process ends.

    Args:
        settings: a dict (``{"experiment": "demo", "training.steps": 400}``), a list of overrides
            (``["experiment=demo", "training.steps=400"]``), or a line as in a shell
            (``"experiment=demo training.steps=400"``).

    Raises:
        ConfigError: when a setting is wrong; nothing was started.
        HeadraceError: when a stage failed; the message gives the remedy.
        RetryableError: when a process was killed, or the disk is full: the same call goes on.
        KeyboardInterrupt: when the run was interrupted, or cancelled by ``headrace cancel``.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        status = _process(Path(folder), with_full_names(as_overrides(settings)))
        if error := work_log.error_of(Path(folder)):
            raise error
        if status:
            raise _early_end(status)
        return Run(SavedRun.read(Path(Path(folder, RUN_FILE).read_text())))


def _process(folder: Path, overrides: Sequence[str]) -> int:
    """Runs the process of a run to its end; ``folder`` receives its result. Returns its exit status.

    Raises:
        Stop: when it was interrupted.
    """
    sys.stdout.flush()  # before the process writes to the same file
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.pipeline.api.launch", str(folder), *overrides],
        stdin=subprocess.PIPE,
        stdout=_target("stdout"),
        stderr=_target("stderr"),
        env=os.environ | environment.own_packages(),
        start_new_session=True,  # a terminal or a notebook would signal it, too, and a second signal ends it at once
    )
    interrupted = False
    with process:
        while True:
            try:
                _relay(process)
                process.wait()
                break
            except KeyboardInterrupt:
                interrupted = True
                process.send_signal(signal.SIGINT)
    if interrupted:
        raise Stop(signal.SIGINT, STOPPED)
    return int(process.returncode)


def _target(name: str) -> int | None:
    """Returns where the process writes to: this one's own stream ``name``, or a pipe if a notebook replaced it."""
    return None if getattr(sys, name) is getattr(sys, f"__{name}__") else subprocess.PIPE


def _relay(process: "subprocess.Popen[bytes]") -> None:
    """Copies the output of ``process`` that is piped to this process's streams, until both pipes end."""
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if pipe is not None:
                selector.register(
                    pipe, selectors.EVENT_READ, (codecs.getincrementaldecoder("utf-8")("replace"), stream)
                )
        while selector.get_map():
            for key, _ in selector.select():
                decoder, stream = key.data
                block = os.read(key.fd, BLOCK_BYTES)
                stream.write(decoder.decode(block, final=not block))
                stream.flush()
                if not block:
                    selector.unregister(key.fileobj)


def _early_end(status: int) -> BaseException:
    """Returns the exception for a process that ended with ``status`` and without a report."""
    if status - 128 in STOP_SIGNALS:
        return Stop(status - 128, STOPPED)
    if status < 0:
        problem = f"the process of the run was killed ({signal.Signals(-status).name})"
        return RetryableError("launch", problem, "launch it again: finished tasks are kept")
    return TaskError("launch", f"the process of the run ended early (status {status})", "see its output")


@stoppable()
def main(folder: Path, overrides: Sequence[str]) -> int:
    """Carries out the run of ``overrides``, and writes its end to ``folder``. Returns the exit status."""

    def stop_with_caller() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with system_errors_explained("headrace"):
            threading.Thread(target=stop_with_caller, name="stop-with-caller", daemon=True).start()
            run = load("command_line.run_start").start_run(overrides)
            (folder / RUN_FILE).write_text(str(run.run_json.absolute()))
    except HeadraceError as error:
        work_log.write_error(folder, error)
        return error.exit_status
    except Stop as stop:
        print(f"headrace: {stop}", file=sys.stderr)
        return stop.exit_status
    return 0


if __name__ == "__main__":
    environment.prepare()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
