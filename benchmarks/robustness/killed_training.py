"""A training whose processes kill_anywhere.py kills, and the ways of starting it."""

import dataclasses
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.robustness.descendants import below
from headrace.pipeline.clusters.base import JOB_RANK, adopt_job
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.environment import MAIN_PID
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.run.local_ranks import RANK
from headrace.pipeline.run.planned_stage import save_stage
from headrace.pipeline.run.planner import plan, save
from headrace.pipeline.run.saved_run import stage_of_job
from tests.end_to_end.test_line import DATA_STAGES, command

SETTINGS = ("until=weights", "training.steps=60", "training.save_every=2", "training.keep_last=2")


class Process(Protocol):
    """A child of this process; the names are those of subprocess.Popen."""

    pid: int

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...


class Fork:
    """A fork of this process that runs ``work`` with further ``variables``, and writes to ``log``."""

    def __init__(self, work: Callable[[], None], variables: Mapping[str, str], log: Path) -> None:
        self._status: int | None = None
        self.pid = os.fork()
        if not self.pid:
            try:
                os.environ |= variables
                with log.open("ab") as words:
                    for number in (1, 2):
                        os.dup2(words.fileno(), number)
                work()
            finally:
                os._exit(1)

    def poll(self) -> int | None:
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


@dataclasses.dataclass(frozen=True)
class Running:
    """The processes of one start of a training."""

    way: str
    ranks: int
    started: Sequence[Process]

    def everyone(self) -> dict[str, int]:
        """Process numbers by name, of those that are there."""
        if self.way in ("srun", "fork"):
            return {f"rank {rank}": process.pid for rank, process in enumerate(self.started)}
        first = self.started[0].pid
        above = ["main"] if self.way == "command" else []
        if self.way == "parent" or self.ranks > 1:  # a single rank is a child of the command itself
            above.append("parent")
        names = itertools.chain(above, (f"rank {rank}" for rank in itertools.count()))
        return dict(zip(names, [first, *below(first)], strict=False))

    def over(self) -> bool:
        """Returns whether all have ended; after a failure of one, stops the others."""
        statuses = [process.poll() for process in self.started]
        if any(statuses):
            for process in self.started:
                process.terminate()
        return None not in statuses


class Training:
    """A training in a root of its own that reads the data of ``whole``, and finds the weights below ``trunks``."""

    def __init__(
        self, root: Path, whole: Path, ranks: int, overrides: Sequence[str], trunks: Path | None = None
    ) -> None:
        (root / "weights").mkdir(parents=True)
        for stage in DATA_STAGES:
            (root / stage).symlink_to(whole / stage)
        for trunk in (trunks or whole).glob("weights/*"):
            (root / "weights" / trunk.name).symlink_to(trunk)
        self.root, self.ranks, self.settings = root, ranks, (*SETTINGS, f"ranks={ranks}", *overrides)
        values = compose(["experiment=smoke", f"root={root}", "tracking=file", *self.settings])
        steps = plan(decoded(values))
        self.folder, self.run_json = steps[-2].folder, save(decoded(values), values, steps)
        self.stage_json = save_stage(steps[-2])
        save_stage(steps[-2], stage_of_job(self.run_json, "weights"))
        self.metrics, self.checkpoints = self.folder / "metrics.jsonl", self.folder / "checkpoints"
        self.log = root / "log"

    @property
    def underway(self) -> list[Path]:
        """Checkpoints half written or half removed."""
        return [*self.checkpoints.glob("writing-*"), *self.checkpoints.glob("removing-*")]

    @property
    def is_over(self) -> bool:
        return (self.folder / "manifest.json").exists()

    def rows(self) -> int:
        """Returns the number of rows in metrics.jsonl; a row that is being written counts."""
        return self.metrics.read_bytes().count(b"\n") if self.metrics.exists() else 0

    def start(self, way: str) -> Running:
        worker = [sys.executable, "-m", *JOB_RANK, str(self.run_json), "weights"]
        if way == "command":
            return Running(way, self.ranks, [self._process(command(self.root, *self.settings), {})])
        if way == "parent":
            parent = [sys.executable, "-m", RANK, "forked", str(self.stage_json), str(self.ranks)]
            return Running(way, self.ranks, [self._process(parent, {MAIN_PID: str(os.getpid())})])
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
        cores = max(1, len(os.sched_getaffinity(0)) // self.ranks)  # as the other ways: no other number of threads
        same = address | {"SLURM_NTASKS": str(self.ranks), "SLURM_NTASKS_PER_NODE": str(self.ranks)}
        same |= {"SLURM_CPUS_PER_TASK": str(cores)}
        variables_of_ranks = [
            same | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(self.ranks)
        ]
        if way == "fork":
            return Running(way, self.ranks, [Fork(self._work, variables, self.log) for variables in variables_of_ranks])
        return Running(way, self.ranks, [self._process(worker, variables) for variables in variables_of_ranks])

    def _work(self) -> None:
        from headrace.pipeline.run import rank

        adopt_job()
        exit_now(rank.of_job(str(self.run_json), "weights"))

    def _process(self, arguments: list[str], variables: dict[str, str]) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as words:
            return subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=os.environ | variables
            )
