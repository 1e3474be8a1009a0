"""A small real stage for tests of the machinery around stages."""

import errno
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.stage import Inputs, Phase, Stage


class OddError(OSError):
    """An error of a library that cannot be pickled."""

    def __init__(self, number: int, text: str, *, mill: str) -> None:
        super().__init__(number, text, mill)


@dataclass(frozen=True, kw_only=True)
class Squares(Stage):
    """Writes the square of each task's number; fails at task 3 according to ``fault``, unless ``cure`` exists."""

    name: ClassVar[str] = "squares"
    tasks: int = 6
    fault: str = ""
    cure: str = ""
    log: str = ""
    """A file that gets a line for each task that runs: its number and ``runner``."""
    runner: str = ""
    runners: int = 1
    """A task waits until this number of tasks have left a line in the log."""

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("write", self.tasks, self.write), Phase("sum", 1, self.sum))

    def write(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        if task == 3 and not os.path.exists(self.cure):
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "exit":
                os._exit(3)
            if self.fault == "wait":
                time.sleep(1000)
            if self.fault == "bug":
                raise ZeroDivisionError("division by zero")
            if self.fault == "odd":
                raise OddError(errno.ENOSPC, "No space left on device", mill=str(out.folder))
            if self.fault == "move":
                out.folder.parent.rename(out.folder.parent.with_name("moved"))
            if self.fault == "error":
                raise TaskError("squares task 3", "the moon is full", "wait")
        if self.log:
            self._meet(task)
        with out.shard("squares", "txt") as path:
            path.write_text(str(task * task))
        return Counter(squares=1)

    def sum(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        numbers = [int((out.folder / f"squares/{n:05d}.txt").read_text()) for n in range(self.tasks)]
        with out.file("sum.txt") as path:
            path.write_text(str(sum(numbers)))
        return Counter(sums=1)

    def _meet(self, task: int) -> None:
        with open(self.log, "a") as log:
            log.write(f"{task} {self.runner}\n")
        while len({line.split()[1] for line in Path(self.log).read_text().splitlines()}) < self.runners:
            time.sleep(0.01)
