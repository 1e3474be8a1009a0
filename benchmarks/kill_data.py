"""Do kills change a byte? SIGKILL at random moments over the data stages, by 1, 2 and 5 workers. Prints one JSON line.

    python benchmarks/kill_data.py --kills 50 --seed 0 [--workers 1,2,5] [OVERRIDE…]

An undisturbed run (``experiment=smoke until=packed``) comes first, after one that compiles and is not looked at. Then
the same is run again and again in a new root: each run is killed, the main process or one of the processes below it, at
a moment drawn evenly from the time that the undisturbed run took, and the next run goes on from what was left. When a
run comes to its end, every file but the logs is compared with the undisturbed run's, and another root is begun, until
``--kills`` kills have landed; the last root is then brought to its end. Kills are dealt out to the numbers of workers
in turn.

    lines        runs that came to their end, each compared
    landed       kills by the stage that was at work; ``hit`` counts them by the process that was hit
    differing    files that are not equal, missing or left over: must be 0
    unexpected   runs that did not end after a kill, or ended by themselves with another error than that a worker was
                 killed: must be 0
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.end_to_end.test_line import DATA_STAGES, command, headrace, written


def at_work(root: Path) -> str | None:
    """The data stage that is under way, or None before the first trace and after the last."""
    for stage in DATA_STAGES:
        if not list((root / stage).glob("*/manifest.json")):
            return stage if (root / stage).exists() else None
    return None


HANG_SECONDS = 300
"""A run that has not ended so long after a kill hangs."""


def below(pid: int) -> list[int]:
    """The processes that ``pid`` or one of its children started."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        children += map(int, path.read_text().split())
    return children + [deeper for child in children for deeper in below(child)]


def kind(pid: int, main: int) -> str:
    """What process ``pid`` below ``main`` is there for. The fork server's children have its command line."""
    if pid == main:
        return "main"
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    names = {"resource_tracker": "resource tracker", "forkserver": "fork server" if parent == main else "worker"}
    return next((name for word, name in names.items() if word in words), "other")


def disturbed(
    root: Path, workers: int, chance: random.Random, within_seconds: float, overrides: list[str]
) -> tuple[str, str] | None:
    """Run on in ``root`` and kill somebody; (stage at work, who) or None when the run came to its end first.

    Raises:
        RuntimeError: when it failed by itself, or hangs.
    """
    log = (root / "log").open("w+")
    run = [*command(root, "until=packed", f"workers={workers}"), *overrides]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=log)
    deadline = time.monotonic() + chance.uniform(0, within_seconds)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    stage = at_work(root) or "between stages"
    if process.poll() is None:
        others = below(process.pid)
        victim = process.pid if not others or chance.random() < 0.5 else chance.choice(others)
        try:
            who = kind(victim, process.pid)
            os.kill(victim, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            victim, who = process.pid, "main"
            process.kill()
        try:
            process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise RuntimeError(f"{root}: hangs in {stage} after a kill of {who} {victim}, {workers} workers") from None
        if victim == process.pid or process.returncode != 0:
            check(process.returncode, log)
            return stage, who
    process.wait()
    check(process.returncode, log)
    return None


def check(status: int, log: TextIO) -> None:
    """A run ends well, by our kill, or because a worker was killed."""
    log.seek(0)
    text = log.read()
    if status not in (0, -signal.SIGKILL) and "was killed" not in text:
        raise RuntimeError(text[-2000:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", default="1,2,5")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    workers = [int(number) for number in options.workers.split(",")]
    landed: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    lines, differing, unexpected = 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        headrace(Path(name, "compiled"), "until=packed", *options.overrides)
        start = time.monotonic()
        headrace(Path(name, "whole"), "until=packed", *options.overrides)
        seconds = time.monotonic() - start
        whole = written(Path(name, "whole"))
        root = Path(name, "0")
        root.mkdir()
        while landed.total() < options.kills or any((root / stage).exists() for stage in DATA_STAGES):
            kill = None
            if landed.total() < options.kills:
                try:
                    kill = disturbed(root, workers[landed.total() % len(workers)], chance, seconds, options.overrides)
                except RuntimeError as error:
                    unexpected += 1
                    print(error, file=sys.stderr)
            else:
                headrace(root, "until=packed", *options.overrides)
            if kill is not None:
                landed[kill[0]] += 1
                hit[kill[1]] += 1
                print(f"kill {landed.total()}: {' '.join(kill)}", file=sys.stderr, flush=True)
            elif (root / "packed").exists() and list((root / "packed").glob("*/manifest.json")):
                found = written(root)
                wrong = [path for path in found.keys() | whole.keys() if found.get(path) != whole.get(path)]
                for path in wrong[:5]:
                    print(f"differs: {path}", file=sys.stderr)
                lines, differing = lines + 1, differing + len(wrong)
                root = Path(name, str(lines))
                root.mkdir()
    summary = {"benchmark": "kill_data", "kills": landed.total(), "seed": options.seed, "workers": workers}
    summary |= {"lines": lines, "files": len(whole), "landed": dict(landed), "hit": dict(hit)}
    print(json.dumps(summary | {"differing": differing, "unexpected": unexpected}))
    return 1 if differing or unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
