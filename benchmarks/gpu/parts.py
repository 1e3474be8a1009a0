"""All that needs a GPU, in parts of at most eight minutes. Started by parts.sh.

    python -m benchmarks.gpu.parts PART [--device cpu --tiny] [--out .] [--inputs FOLDER] [--seconds 480]
                                      [--only ITEM …]

    right      is it right? versions, ceilings of the hardware, kernels against slow computations, ZeRO stages without a
               graph break, a training that is stopped and resumed, heaviest kernels          (right.py)
    families   every kind of model, optimizer and scoring: the same as on the CPU?            (families.py)
    line       experiments by their command, from pages to scores; trainings that are killed  (line.py)
    ledger     124M parameters: the speed of one change each, and of a peer                   (ledger.py)
    scale      350M and 1.3B parameters, recomputation, planned and measured memory, snapshots  (scale.py)
    kernels    single operations, in the ways that they can be computed                       (kernels.py)

Each item runs in a process of its own, which is killed at the item's limit: no item is disturbed by an error of CUDA,
by the memory or by the compiled shapes of another. The process of the next item starts at once and waits, so that
importing takes no time. One JSON line an item goes to the output and to ``<out>/gpu_<part>.jsonl`` at once: its
seconds, and its result or its error. What the items print goes to ``<out>/gpu_<part>.log``. An item for which no time
is left is skipped. The exit status is 1 when one failed.

``--tiny`` takes tiny models and few updates; it shows that all runs. ``right`` trains on tokens and rows of
``--inputs`` (carry.py makes them); without it they are made, which needs the packages of the data stages.
"""

import argparse
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.item import Item, Setting
from headrace.train.distributed import processes

PRINTED_CHARACTERS = 1000
"""The end of what a failing item printed: in its line. All is in the log."""
END_SECONDS = 10.0
"""The time for a killed process to end: one that hangs in the driver of the GPU may not."""


class Worker:
    """A process that waits for the name of an item, runs it, and prints its line to its stdout."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """``command`` reads the name from its stdin; its stderr is added to ``log`` after it ended."""
        self._log, self._errors = log, tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed when the worker is stopped
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            preexec_fn=os.setpgrp,  # its group is killed, and not this process
        )

    def line(self, name: str, limit_seconds: float) -> dict[str, Any]:
        """Returns the line of the item ``name``, after at most ``limit_seconds``."""
        begun, answer, error = time.monotonic(), "", None
        try:
            answer = self._process.communicate(f"{name}\n", timeout=limit_seconds)[0]
        except subprocess.TimeoutExpired:
            error = f"not done after {limit_seconds:.0f} s"
        except BaseException:  # this process is to end
            self.stop(name)
            raise
        status, printed = self._process.poll(), self.stop(name)
        if status == 0:
            return {"item": name, **json.loads(answer)}
        failed = {"passed": False, "error": error or f"exit status {status}", "printed": printed[-PRINTED_CHARACTERS:]}
        return {"item": name, "seconds": round(time.monotonic() - begun, 1), **failed}

    def stop(self, name: str = "") -> str:
        """Ends the process with all that it has started; returns its stderr, which the log has below ``name``."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._errors.seek(0)
        printed = self._errors.read()
        self._errors.close()
        if name:
            with self._log.open("a") as log:
                log.write(f"== {name}\n{printed}\n")
        return printed


def lines(items: Mapping[str, Item], command: Sequence[str], log: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Yields the line of each item, run by a process of ``command``; all of them end after ``seconds``."""
    deadline = time.monotonic() + seconds
    spare, names = Worker(command, log), list(items)
    try:
        for number, name in enumerate(names):
            later = [items[later_name] for later_name in names[number + 1 :]]
            left = deadline - time.monotonic() - sum(item.limit_seconds for item in later if item.is_reserved)
            if left <= 1:
                yield {"item": name, "passed": False, "error": "no time left"}
                continue
            worker, spare = spare, Worker(command, log)
            yield worker.line(name, min(left, items[name].limit_seconds))
    finally:
        spare.stop()


def items_of(part: str) -> Mapping[str, Item]:
    items: Mapping[str, Item] = importlib.import_module(f"benchmarks.gpu.{part}").ITEMS
    return items


def work(asked: argparse.Namespace) -> None:
    """Runs the item whose name comes from stdin, and prints its line; ends this process."""
    try:
        answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print, too
        items = items_of(asked.part)
        if name := sys.stdin.readline().strip():
            begun = time.monotonic()
            setting = Setting(processes.start(asked.device), asked.tiny, asked.inputs, asked.scratch)
            result = items[name].work(setting)
            json.dump({"seconds": round(time.monotonic() - begun, 1), "passed": True, **result}, answers)
            answers.flush()
        os._exit(0)
    finally:  # threads of libraries do not delay the end
        traceback.print_exc()
        os._exit(1)


def supervise(asked: argparse.Namespace) -> int:
    """Runs the items of a part; returns the number of those that failed."""
    items = {name: item for name, item in items_of(asked.part).items() if name in (asked.only or [name])}
    failures = 0
    asked.out.mkdir(parents=True, exist_ok=True)
    log, results = (asked.out / f"gpu_{asked.part}.{suffix}" for suffix in ("log", "jsonl"))
    with tempfile.TemporaryDirectory(prefix="headrace_gpu_") as scratch, results.open("a") as out:
        options = ["--device", asked.device, *(["--tiny"] if asked.tiny else []), "--scratch", scratch]
        options += ["--inputs", str(asked.inputs or Path(scratch, "inputs"))]
        command = [sys.executable, "-m", "benchmarks.gpu.parts", asked.part, *options]
        for line in lines(items, command, log, asked.seconds):
            failures += not line["passed"]
            text = json.dumps({"part": asked.part, **line})
            print(text, file=out, flush=True)
            print(text, flush=True)
    return failures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("right", "families", "line", "ledger", "scale", "kernels"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--seconds", type=float, default=480.0, help="the time of the part")
    parser.add_argument("--only", nargs="+", metavar="ITEM")
    parser.add_argument("--scratch", type=Path, help="makes this process run one item: its name comes from stdin")
    asked = parser.parse_args()
    if asked.scratch:
        work(asked)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no process is left over
    sys.exit(min(supervise(asked), 1))


if __name__ == "__main__":
    main()
