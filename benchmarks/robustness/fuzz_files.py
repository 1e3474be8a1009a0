"""Tests whether damaged marks, classifiers and settings crash, hang or are misread. Prints one JSON line.

    python -m benchmarks.robustness.fuzz_files --inputs 20000 --seed 0 [--kinds marks classifier]

Each input is made from the seed, damaged or with odd values, and given to its reader in a process of its own:

    marks        an audit        refused, or known pages with words of ours
    classifier   a model         refused, or probabilities that sum to 1; half have odd values below a right checksum
    settings     columns and selection   refused, or copies of documents with odd values

Refused is an error of headrace (``HeadraceError``). ``failures``: another error or result; ``crashes``: the process
died; ``hangs``: no answer for HANG_SECONDS. Exit status 1 when one of them is not 0.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from headrace.pipeline.core.errors import HeadraceError
from tests.odd_inputs import KINDS, TRIALS

HANG_SECONDS = 60


def serve(pipe: Connection, kinds: tuple[str, ...], numbers: range, seed: int) -> None:
    """Tries the inputs ``numbers`` and reports each: kind, outcome, seconds."""
    with tempfile.TemporaryDirectory() as name:
        for number in numbers:
            start, kind = time.perf_counter(), kinds[number % len(kinds)]
            outcome = tried(kind, Path(name), Random(f"{seed}:{number}:{kind}"))
            pipe.send((kind, outcome, time.perf_counter() - start))
    pipe.close()


def tried(kind: str, folder: Path, chance: Random) -> str:
    """Returns "read" or "refused", or the traceback of a failure."""
    try:
        TRIALS[kind](folder, chance)
    except HeadraceError:
        return "refused"
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        return traceback.format_exc(limit=-4)
    return "read"


def outcomes(kinds: tuple[str, ...], numbers: range, seed: int, totals: dict[str, Any]) -> None:
    """Adds the outcomes of the inputs ``numbers`` to ``totals``; goes on after one that ends the process."""
    while numbers:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, kinds, numbers, seed))
        process.start()
        theirs.close()
        done, is_hung = 0, True
        try:
            while ours.poll(HANG_SECONDS):
                answer = ours.recv()
                add(totals, numbers[done], *answer)
                done += 1
        except EOFError:
            is_hung = False
        process.kill() if is_hung else process.join()
        numbers = numbers[done:]
        if numbers:
            what = "hangs" if is_hung else "crashes"
            totals[what] += 1
            print(f"{what}: input {numbers[0]}, exit status {process.exitcode}", file=sys.stderr, flush=True)
            numbers = numbers[1:]


def add(totals: dict[str, Any], number: int, kind: str, outcome: str, seconds: float) -> None:
    totals["longest_seconds"] = max(totals["longest_seconds"], round(seconds, 2))
    is_failure = outcome not in ("read", "refused")
    totals["outcomes"][f"{kind}: {'failed' if is_failure else outcome}"] += 1
    totals["failures"] += is_failure
    if is_failure:
        print(f"failure: input {number}, {kind}: {outcome}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    totals: dict[str, Any] = {"benchmark": "fuzz_files", "inputs": options.inputs, "seed": options.seed}
    totals |= {"outcomes": Counter(), "failures": 0, "crashes": 0, "hangs": 0, "longest_seconds": 0.0}
    outcomes(tuple(options.kinds), range(options.inputs), options.seed, totals)
    print(json.dumps(totals | {"outcomes": dict(sorted(totals["outcomes"].items()))}))
    return 1 if totals["failures"] or totals["crashes"] or totals["hangs"] else 0


if __name__ == "__main__":
    sys.exit(main())
