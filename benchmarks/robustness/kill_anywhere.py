"""Kills a rank or a launcher at random moments of training and compares the weights. Prints one JSON line.

    python -m benchmarks.robustness.kill_anywhere [OVERRIDES] --kills 200 --seed 0 [--ranks 1 2]
    python -m benchmarks.robustness.kill_anywhere --kills 20 model=t5_demo objective=span_corruption …
    python -m benchmarks.robustness.kill_anywhere --kills 20 --branch optimizer.learning_rate=1e-4
    python -m benchmarks.robustness.kill_anywhere --kills 20 --extend schedule=wsd schedule.decay_fraction=0

``OVERRIDES`` change the settings of the trainings, to another objective, say. With --branch, each training is a branch
with these settings from step 20 of a trunk that has none of them. With --extend, each training but the undisturbed ones
goes on from one with the same settings that ended at step 20.

Undisturbed runs come first: ``headrace experiment=smoke until=weights``, 60 steps, a checkpoint every second one, on
one and on two ranks. Then the same trainings are run again and again on the same data, on one rank and on two in turn,
each run killed at a random moment and another started from what was left. When a training ends, its weights and its
curve (except times) are compared with those of the undisturbed run on the same number of ranks, and another begins,
until ``--kills`` kills have hit; the last one then runs to its end. Every process is a new one, started in one of the
ways in which trainings are started:

    command    the user's command: its main process, the parent of the ranks below it if there are several, the ranks
    parent     the command's child with the ranks below it, alone (pipeline/run/rank.py forked)
    srun       the ranks alone, with SLURM's variables, as in slurm/train.sbatch; this program acts like srun
               with --kill-on-bad-exit: when one fails, it ends the others
    fork       only with --forks: as srun, but each rank is a fork of this program, which has loaded its modules. A
               start takes a second instead of ten

A run in six is killed before its first step, the others a few steps later, more than half of them inside a save.
After each kill the counts so far are printed to stderr, so an interrupted run shows its results, too.

    victims       the killed processes, by way of starting
    moments       starting, training, saving (a checkpoint half written or half removed was left)
    resumes       runs that found a checkpoint and resumed from it
    trainings     finished trainings, each compared
    differences   finished trainings whose weights or curve differ: must be 0
    hangs         runs not over two minutes after a kill, or without a step after ten: must be 0
    errors        runs that ended with an error of their own: must be 0
The runs read what ``python -m headrace.documentation`` writes.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ |= {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}

from benchmarks.robustness.killed_training import SETTINGS, Running, Training
from tests.end_to_end.test_line import headrace
from tests.train import fork_server
from tests.train.curves import curve

WAYS = {"command": 1, "parent": 1, "srun": 3}
"""Ways of starting with their frequencies: a start with more processes takes longer."""
FORKS = {"fork": 1}
PATIENCE_SECONDS = 120
START_SECONDS = 600
TRUNK = 20
"""Steps of the training that others go on from."""


class HangError(Exception):
    """A run was not over when it had to be."""


def disturbed(training: Training, run: Running, chance: random.Random, start_seconds: float) -> str | None:
    """Kills a process of ``run`` and returns its role, or None if the run ended before.

    Raises:
        HangError: when it does not get to work, or does not end once somebody is dead.
    """
    if chance.random() < 1 / 6:
        wait(chance.uniform(0, start_seconds), run)
    else:
        before = training.metrics.stat().st_mtime_ns if training.metrics.exists() else 0
        until(lambda: run.over() or (training.metrics.exists() and training.metrics.stat().st_mtime_ns > before))
        last = training.rows() + chance.randrange(10)
        until(lambda: run.over() or training.rows() >= last)
        if chance.random() < 0.6:
            until(lambda: run.over() or training.underway)
        wait(chance.uniform(0, 0.04), run)
    there = run.everyone()
    if run.over():
        return None
    victim = chance.choice([*there, "all"])
    for name in there if victim == "all" else [victim]:
        os.kill(there[name], signal.SIGKILL)
    until(lambda: run.over() and not any(alive(process) for process in there.values()), PATIENCE_SECONDS)
    return f"{run.way}: {victim}"


def wait(seconds: float, run: Running) -> None:
    moment = time.monotonic() + seconds
    until(lambda: run.over() or time.monotonic() >= moment)


def until(condition: Callable[[], object], seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise HangError(f"waited {seconds} s")
        time.sleep(0.002)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def outcome(folder: Path) -> tuple[bytes, list[dict[str, float]]]:
    """The weights and the curve of a finished training, times aside."""
    return (folder / "hf/model.safetensors").read_bytes(), curve(folder)


def undisturbed(training: Training, way: str) -> float:
    """Runs ``training`` to its end; returns the seconds until its first row of metrics."""
    begun = time.monotonic()
    run = training.start(way)
    until(lambda: run.over() or training.rows())
    start_seconds = time.monotonic() - begun
    until(run.over)
    return start_seconds


def trunk_in(root: Path) -> str:
    """Trains a trunk below ``root`` and returns its last checkpoint, as ``training.branch_from`` has it."""
    headrace(root, *SETTINGS, f"training.steps={TRUNK}")
    (folder,) = root.glob("weights/*")
    return f"{folder.name}@{TRUNK}"


class Tally:
    """Counts of the kills and runs so far."""

    def __init__(self, seed: int, overrides: Sequence[str]) -> None:
        self.seed, self.overrides, self.begun = seed, overrides, time.monotonic()
        self.found, self.victims, self.moments = Counter[str](), Counter[str](), Counter[str]()

    def kill(self, victim: str, training: Training, rows_before: int) -> None:
        self.victims[victim] += 1
        rows = training.rows()
        moment = "saving" if training.underway else "training" if rows != rows_before else "starting"
        self.moments[moment] += 1
        print(f"{moment}, {victim} of {training.ranks} ranks, {rows} rows", self, file=sys.stderr, flush=True)

    def __str__(self) -> str:
        names = ("resumes", "trainings", "differences", "hangs", "errors")
        counts = {"benchmark": "kill_anywhere", "overrides": self.overrides, "seed": self.seed}
        counts |= {"kills": self.victims.total()}
        counts |= {"victims": dict(sorted(self.victims.items())), "moments": dict(self.moments)}
        seconds = round(time.monotonic() - self.begun)
        return json.dumps(counts | {name: self.found[name] for name in names} | {"seconds": seconds})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--branch", action="store_true", help="branch from a trunk without OVERRIDES")
    parser.add_argument("--extend", action="store_true", help="go on from a shorter training with the same settings")
    parser.add_argument("--forks", action="store_true", help="start every rank as a fork of this process")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDES")
    options = parser.parse_intermixed_args()
    ways = FORKS if options.forks else WAYS
    if options.forks:
        fork_server.load_modules()
    chance, tally = random.Random(options.seed), Tally(options.seed, options.overrides)
    with tempfile.TemporaryDirectory() as name:
        whole, expected, start_seconds = Path(name, "whole"), {}, {}
        trunks: dict[int, Path] = {}
        headrace(whole, *([] if options.branch else options.overrides), "until=packed")
        overrides = [*options.overrides, *([f"training.branch_from={trunk_in(whole)}"] if options.branch else [])]
        for ranks in options.ranks:
            way = "fork" if options.forks else "srun"
            first = Training(Path(name, f"undisturbed-{ranks}"), whole, ranks, overrides)
            start_seconds[ranks] = undisturbed(first, way)
            expected[ranks] = outcome(first.folder)
            if options.extend:
                trunk = Training(Path(name, f"trunk-{ranks}"), whole, ranks, [*overrides, f"training.steps={TRUNK}"])
                undisturbed(trunk, way)
                trunks[ranks] = trunk.root
        for number, ranks in enumerate(itertools.cycle(options.ranks)):
            training = Training(Path(name, str(number)), whole, ranks, overrides, trunks.get(ranks))
            while not training.is_over and tally.found["errors"] + tally.found["hangs"] < 5:
                tally.found["resumes"] += bool(list(training.checkpoints.glob("step_*")))
                rows_before = training.rows()
                run = training.start(chance.choices([*ways], [*ways.values()])[0])
                victim = None
                try:
                    if tally.victims.total() < options.kills:
                        victim = disturbed(training, run, chance, start_seconds[ranks])
                    until(run.over)
                except HangError as error:
                    tally.found["hangs"] += 1
                    print(f"hang: {error}", training.log.read_text()[-3000:], file=sys.stderr, flush=True)
                    for process in run.everyone().values():
                        with contextlib.suppress(ProcessLookupError):  # one that was killed before
                            os.kill(process, signal.SIGKILL)
                    continue
                if victim:
                    tally.kill(victim, training, rows_before)
                elif not training.is_over:
                    tally.found["errors"] += 1
                    print(training.log.read_text()[-3000:], file=sys.stderr, flush=True)
            tally.found["trainings"] += training.is_over
            if training.is_over and outcome(training.folder) != expected[ranks]:
                tally.found["differences"] += 1
                print(f"differs: {training.root}", file=sys.stderr, flush=True)
            if tally.victims.total() >= options.kills or not training.is_over:
                break
    print(tally)
    return 1 if tally.found["differences"] or tally.found["hangs"] or tally.found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
