"""Measures how much of training's speed remains when other processes use the same cores. Prints one JSON line.

    python -m benchmarks.train.competing_load [--busy 0 1 2] [--rounds 3] [--steps 20] [--model demo]

With ``busy`` other processes, each a loop that never waits, ``train_step.py`` runs alternately with the launcher's
environment (``OMP_WAIT_POLICY=PASSIVE``: a thread without work sleeps) and with torch's default (it spins). The rates
are medians of the rounds, in tokens per second.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

POLICIES = {"passive": {"OMP_WAIT_POLICY": "PASSIVE"}, "spinning": {}}


@contextlib.contextmanager
def competitors(number: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def tokens_per_second(model: str, steps: int, variables: dict[str, str]) -> int:
    command = [sys.executable, "-m", "benchmarks.train.train_step", "--model", model, "--steps", str(steps)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(command, env=inherited | variables, stdout=subprocess.PIPE, check=True)
    return int(json.loads(done.stdout.splitlines()[-1])["tokens_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--model", default="demo")
    asked = parser.parse_args()
    rates: dict[tuple[int, str], list[int]] = {(busy, name): [] for busy in asked.busy for name in POLICIES}
    for _ in range(asked.rounds):
        for busy, name in rates:
            with competitors(busy):
                rates[busy, name].append(tokens_per_second(asked.model, asked.steps, POLICIES[name]))
    medians = {
        f"{name}, {busy} busy": statistics.median(rates_of_case) for (busy, name), rates_of_case in rates.items()
    }
    cores = len(os.sched_getaffinity(0))
    print(json.dumps({"model": asked.model, "cores": cores, "tokens_per_second": medians, "rounds": asked.rounds}))


if __name__ == "__main__":
    main()
