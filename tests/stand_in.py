"""A small real stage for tests of the machinery around stages."""

import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pipeline.core.artifact import TaskOutput
from pipeline.core.errors import TaskError
from pipeline.core.stage import Inputs, Phase, Stage


@dataclass(frozen=True, kw_only=True)
class Squares(Stage):
    """Writes the square of each task's number; misbehaves at task 3 as ``fault`` says, unless ``cure`` exists."""

    name: ClassVar[str] = "squares"
    tasks: int = 6
    fault: str = ""
    cure: str = ""

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("write", self.tasks, self.write), Phase("sum", 1, self.sum))

    def write(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        if task == 3 and not os.path.exists(self.cure):
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "wait":
                time.sleep(100)
            if self.fault == "bug":
                raise ZeroDivisionError("division by zero")
            if self.fault == "error":
                raise TaskError("squares task 3", "the moon is full", "wait")
        with out.shard("squares", "txt") as path:
            path.write_text(str(task * task))
        return Counter(squares=1)

    def sum(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        numbers = [int((out.folder / f"squares/{n:05d}.txt").read_text()) for n in range(self.tasks)]
        with out.file("sum.txt") as path:
            path.write_text(str(sum(numbers)))
        return Counter(sums=1)
