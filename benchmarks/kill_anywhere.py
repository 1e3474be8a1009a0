"""Do kills change the weights? SIGKILL of a rank or the launcher at random moments of training. Prints one JSON line.

    python benchmarks/kill_anywhere.py --kills 200 --seed 0 [--command-every 10]

An undisturbed run comes first: ``headrace experiment=smoke ranks=2``, 60 steps, a checkpoint every second one. Then the
same training is run again and again on the same data, killed at a random moment, and run again from what was left. When
it comes to its end, its weights and its curve (times aside) are compared with the undisturbed run's, and another is
begun, until ``--kills`` kills have landed; the last one is then brought to its end.

Loading torch and DeepSpeed takes far longer than the training. So the launcher and its two ranks are forks of this
process, which has them loaded: the launcher does to its ranks what torchrun's agent does (starts them with its
variables, ends all with the first that fails), and a rank runs what it always runs, ``pipeline.worker``. Every
``--command-every``-th kill is of the real thing: the command line, torchrun below it, and the ranks below that.

    victims       who was hit: rank 0, rank 1, the launcher (for the command: the main process or torchrun)
    inside_saves  kills that left a checkpoint half written or half removed behind
    resumes       runs that found a checkpoint and went on from it
    differences   finished trainings whose weights or curve differ: must be 0
    hangs         runs not over a minute after a kill, or without a step after five: must be 0
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ |= {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "SLURM_CPUS_PER_TASK": "1"}
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.kill_data import below
from pipeline import worker
from pipeline.__main__ import compose, decoded
from pipeline.core.tracker import read_metrics
from pipeline.runner import plan, save
from tests.end_to_end.test_line import DATA_STAGES, command, headrace

RANKS = 2
PATIENCE_SECONDS = 60
START_SECONDS = 300
MEAN_SECONDS = 0.7
"""Between the first step of a run and its kill, on average; kills that wait for a save come when one is under way."""
SETTINGS = ("until=weights", f"ranks={RANKS}", "training.steps=60", "training.save_every=2", "training.keep_last=2")
TIMES = ("seconds", "per_second", "mfu")


class HangError(Exception):
    """A run was not over when it had to be."""


def launcher(run_json: Path) -> None:
    """Start the ranks and end all with the first that fails, as torchrun's agent does; ends the process."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = [forked(lambda rank=rank: one_rank(run_json, rank, address)) for rank in range(RANKS)]
    while ranks:
        process, status = os.wait()
        ranks.remove(process)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGTERM)
            for other in ranks:
                os.waitpid(other, 0)
            os._exit(1)
    os._exit(0)


def one_rank(run_json: Path, rank: int, address: dict[str, str]) -> None:
    os.environ |= address | {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(RANKS), "TORCHELASTIC_RUN_ID": "kill_anywhere"}
    worker.leave(worker.main([str(run_json), "weights"]))


def forked(work: Callable[[], None]) -> int:
    """The number of a fork that does ``work``, which must end it."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:  # a fork must not go on as its parent
        os._exit(70)


def logged(run_json: Path, log: Path) -> None:
    """``launcher`` with its words and its ranks' in ``log``."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(target, stream)
    launcher(run_json)


class Training:
    """A training in a root of its own that reads the data of ``whole``."""

    def __init__(self, root: Path, whole: Path) -> None:
        root.mkdir()
        for stage in DATA_STAGES:
            (root / stage).symlink_to(whole / stage)
        values = compose(["experiment=smoke", f"root={root}", "tracking=file", *SETTINGS])
        steps = plan(decoded(values))
        self.root, self.step, self.run_json = root, steps[-1], save(decoded(values), values, steps)
        self.metrics, self.checkpoints = self.step.folder / "metrics.jsonl", self.step.folder / "checkpoints"

    @property
    def underway(self) -> list[Path]:
        """Checkpoints half written or half removed."""
        return [*self.checkpoints.glob("writing-*"), *self.checkpoints.glob("removing-*")]

    def start(self, by_command: bool) -> int:
        """Run on; the launcher's process number, or the main process's."""
        log = self.root / "log"
        if not by_command:
            self.step.folder.mkdir(parents=True, exist_ok=True)
            return forked(lambda: logged(self.run_json, log))
        with log.open("ab") as words:
            return subprocess.Popen(
                command(self.root, *SETTINGS), stdout=words, stderr=words, start_new_session=True
            ).pid


def disturbed(training: Training, chance: random.Random, by_command: bool) -> str | None:
    """Run on in ``training`` and kill somebody: who, or None when it came to its end before.

    Raises:
        HangError: when it does not get to work, or does not end once somebody is dead.
    """
    before = training.metrics.stat().st_mtime_ns if training.metrics.exists() else 0
    main = training.start(by_command)

    def at_work() -> bool:
        return training.metrics.exists() and training.metrics.stat().st_mtime_ns != before

    until(lambda: at_work() or ended(main), START_SECONDS)
    moment = time.monotonic() + chance.expovariate(1 / MEAN_SECONDS)
    until(lambda: time.monotonic() >= moment or ended(main), PATIENCE_SECONDS)
    if chance.random() < 0.6:
        until(lambda: training.underway or ended(main), PATIENCE_SECONDS)
        time.sleep(chance.uniform(0, 0.03))
    if ended(main):
        return None
    victims = [main, *below(main)] if not by_command else [main, *descent(main)]
    victim = chance.choice(victims)
    names = dict(zip(victims, ("launcher", "rank 0", "rank 1") if not by_command else COMMAND_NAMES, strict=False))
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    until(lambda: ended(main) and not any(alive(process) for process in victims), PATIENCE_SECONDS)
    return ("command: " if by_command else "") + names[victim]


COMMAND_NAMES = ("main", "torchrun", "rank 0", "rank 1")


def descent(main: int) -> list[int]:
    """torchrun and its ranks below the command's main process, in this order."""
    return below(main)[: len(COMMAND_NAMES) - 1]


def ended(process: int) -> bool:
    """Whether ``process``, a child of ours, is over; its status stays to be asked again."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise HangError(f"waited {seconds} s")
        time.sleep(0.002)


def outcome(folder: Path) -> tuple[bytes, list[dict[str, float]]]:
    """The weights and the curve of a finished training, times aside."""
    rows = read_metrics(folder / "metrics.jsonl")
    curve = [{name: value for name, value in row.items() if not name.endswith(TIMES)} for row in rows]
    return (folder / "hf/model.safetensors").read_bytes(), curve


@contextlib.contextmanager
def counted(found: Counter[str], name: str) -> Iterator[None]:
    """Count a ``HangError`` in the block under ``name``, and end every process that it left."""
    try:
        yield
    except HangError as error:
        found[name] += 1
        print(f"hang: {error}", file=sys.stderr, flush=True)
        for process in below(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command-every", type=int, default=10)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    found, victims = Counter[str](), Counter[str]()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name, "whole")
        headrace(whole, *SETTINGS)
        (undisturbed,) = (whole / "weights").iterdir()
        root = 0
        training = Training(Path(name, str(root)), whole)
        expected = outcome(undisturbed)
        while victims.total() < options.kills or training.metrics.exists():
            by_command = (
                options.command_every > 0 and victims.total() % options.command_every == options.command_every - 1
            )
            victim = None
            found["resumes"] += bool(list(training.checkpoints.glob("step_*")))
            with counted(found, "hangs"):
                if victims.total() < options.kills:
                    victim = disturbed(training, chance, by_command)
                else:
                    process = training.start(by_command=False)
                    until(lambda process=process: ended(process), START_SECONDS)
            if victim:
                victims[victim] += 1
                inside = " inside a save" if training.underway else ""
                found["inside_saves"] += bool(inside)
                steps = len(read_metrics(training.metrics)) if training.metrics.exists() else 0
                print(f"kill {victims.total()}: {victim}{inside}, after {steps} rows", file=sys.stderr, flush=True)
            elif (training.step.folder / "manifest.json").exists():
                found["trainings"] += 1
                if outcome(training.step.folder) != expected:
                    found["differences"] += 1
                    print(f"differs: {training.root}", file=sys.stderr, flush=True)
                root += 1
                training = Training(Path(name, str(root)), whole)
            else:
                found["errors"] += 1
                print((training.root / "log").read_text()[-2000:], file=sys.stderr, flush=True)
                if found["errors"] > 5:
                    break
    names = ("inside_saves", "resumes", "trainings", "differences", "hangs", "errors")
    summary = {"benchmark": "kill_anywhere", "kills": victims.total(), "seed": options.seed, "victims": dict(victims)}
    summary |= {name: found[name] for name in names} | {"seconds": round(time.monotonic() - begun)}
    print(json.dumps(summary))
    return 1 if found["differences"] or found["hangs"] or found["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
