"""Kills processes of the data stages at random moments, with 1, 2 and 5 workers, and compares the bytes. One JSON line.

    python -m benchmarks.robustness.kill_data --kills 50 --seed 0 [--commands 2] [--workers 1,2,5] [OVERRIDE…]
    python -m benchmarks.robustness.kill_data --kills 10 --stages column,selected columns=basic 'selection.rules=[…]'

An undisturbed run (``experiment=smoke until=packed``) comes first. Then ``--commands`` equal commands run at once in a
new root. Again and again one of them is killed, its main process or one of the processes below it, at a random moment
within the time of the undisturbed run, or within 0.1 s after one of ``--stages`` has begun. A new command replaces it.
When a command ends, the others must end, too; then every file except the logs is compared with the undisturbed run's,
and another root begins, until ``--kills`` kills have hit; the last root is then finished. Commands take the numbers of
workers in turn.

    lines        finished roots, each compared
    landed       kills by the running stage; ``hit`` counts them by the killed process
    differing    files that are not equal, missing or left over: must be 0
    unexpected   lines with a command that did not end, or that ended with an error without having been hit: must be 0
The runs read what ``python -m headrace.documentation`` writes.
"""

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.robustness.descendants import below
from tests.end_to_end.test_line import DATA_STAGES, command, headrace, written

STAGES = (*DATA_STAGES, "classifier", "repeats", "column", "selected")
"""The folders of data stages, with those that only some settings have."""


def at_work(root: Path) -> str | None:
    """The data stage that is under way, or None before the first trace and between two stages."""
    for stage in STAGES:
        if any(not (folder / "manifest.json").exists() for folder in (root / stage).glob("*")):
            return stage
    return None


HANG_SECONDS = 300
"""A run that has not ended so long after a kill hangs."""


def kind(pid: int, main: int) -> str:
    """Returns the role of process ``pid`` below ``main``. Its fork server and workers have its command line."""
    if pid == main:
        return "main"
    own, command_line = (Path(f"/proc/{process}/cmdline").read_bytes() for process in (pid, main))
    if own != command_line:
        return "resource tracker" if b"resource_tracker" in own else "other"
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return "fork server" if parent == main else "worker"


class Command:
    """One of the equal commands on a root."""

    def __init__(self, root: Path, workers: int, overrides: list[str]) -> None:
        run = [*command(root, "until=packed", f"workers={workers}"), *overrides]
        self.log = root.with_name(f"{root.name}-{time.monotonic_ns()}.log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=log)
        self.is_hit = False

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def kill(self, chance: random.Random) -> str:
        """Kills the main process or, equally often, one of its descendants, and returns the role of the killed one."""
        others = below(self.process.pid)
        victim = self.process.pid if not others or chance.random() < 0.5 else chance.choice(others)
        self.is_hit = True
        try:
            who = kind(victim, self.process.pid)
            os.kill(victim, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            who = "main"
            self.process.kill()
        return who

    def check(self) -> None:
        """Refuse an end that is no good one, and not that of a command of which a process was killed."""
        text = self.log.read_text()
        is_killed = self.process.returncode == -signal.SIGKILL or "was killed" in text
        if self.process.returncode != 0 and not (self.is_hit and is_killed):
            raise RuntimeError(f"exit status {self.process.returncode}: {text[-2000:]}")


def disturbed(
    root: Path,
    commands: int,
    kills: int,
    workers: Iterator[int],
    chance: random.Random,
    within: float,
    more: list[str],
    stages: Sequence[str] = (),
) -> Iterator[tuple[str, str]]:
    """Bring ``root`` to its end by ``commands`` at once; (stage at work, who) for each of at most ``kills`` kills.

    Raises:
        RuntimeError: when a command failed by itself, or hangs.
    """
    running: list[Command] = []
    is_over = False
    try:
        while running or not is_over:
            if not is_over:
                running += [Command(root, next(workers), more) for _ in range(commands - len(running))]
            if kills and not is_over and (kill := _strike(root, running, chance, within, stages)):
                kills -= 1
                yield kill
            ended = _ended(running, root, wait=is_over or not kills)
            is_over = is_over or any(command.process.returncode == 0 for command in ended)
            running = [command for command in running if command not in ended]
    finally:
        for command in running:
            command.process.kill()


def _strike(
    root: Path, running: list[Command], chance: random.Random, within: float, stages: Sequence[str]
) -> tuple[str, str] | None:
    """Kills a process at a moment in the next ``within`` seconds, or soon after one of ``stages`` has begun, unless a
    command ends before it."""
    aim, deadline = chance.choice(stages) if stages else None, time.monotonic() + chance.uniform(0, within)
    while all(command.runs for command in running):
        if aim is not None:
            has_begun = at_work(root) == aim
            deadline = time.monotonic() + (chance.uniform(0, 0.1) if has_begun else within)
            aim = None if has_begun else aim
        if time.monotonic() >= deadline:
            return at_work(root) or "between stages", chance.choice(running).kill(chance)
        time.sleep(0.005)
    return None


def _ended(running: list[Command], root: Path, wait: bool) -> list[Command]:
    """The commands that came to their end, at once or, to ``wait`` for one and for those that were hit, soon."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        ended = [command for command in running if not command.runs]
        if len(ended) == len(running) or (
            ended if wait else not any(command.is_hit for command in running if command.runs)
        ):
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"{root}: a command hangs in {at_work(root)}")
        time.sleep(0.005)
    for ended_command in ended:
        ended_command.check()
    return ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--commands", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", default="1,2,5")
    parser.add_argument("--stages", default="")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    workers = [int(number) for number in options.workers.split(",")]
    in_turn = itertools.cycle(workers)
    stages = options.stages.split(",") if options.stages else []
    landed: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    lines, differing, unexpected = 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        start = time.monotonic()
        headrace(Path(name, "whole"), "until=packed", *options.overrides)
        seconds = time.monotonic() - start
        whole = written(Path(name, "whole"), STAGES)
        while landed.total() < options.kills:
            root = Path(name, str(lines + unexpected))
            left = options.kills - landed.total()
            try:
                for stage, who in disturbed(
                    root, options.commands, left, in_turn, chance, seconds, options.overrides, stages
                ):
                    landed[stage] += 1
                    hit[who] += 1
                    print(f"kill {landed.total()}: {stage} {who}", file=sys.stderr, flush=True)
            except RuntimeError as error:
                unexpected += 1
                print(error, file=sys.stderr)
                continue
            files = written(root, STAGES)
            differing_paths = [path for path in files.keys() | whole.keys() if files.get(path) != whole.get(path)]
            for path in differing_paths[:5]:
                print(f"differs: {path}", file=sys.stderr)
            lines, differing = lines + 1, differing + len(differing_paths)
    summary = {"benchmark": "kill_data", "kills": landed.total(), "seed": options.seed}
    summary |= {
        "commands": options.commands,
        "workers": workers,
        "lines": lines,
        "files": len(whole),
        "landed": dict(landed),
        "hit": dict(hit),
    }
    print(json.dumps(summary | {"differing": differing, "unexpected": unexpected}))
    return 1 if differing or unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
