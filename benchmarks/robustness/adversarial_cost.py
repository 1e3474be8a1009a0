"""Measures whether a filter, extractor or decoder costs more than linear time. Prints a table and one JSON line.

    python -m benchmarks.robustness.adversarial_cost [--only NAME] [--seconds 0.03] [--largest 32768]

Each function of tests/data_prep/measured.py gets each text of tests/data_prep/adversarial.py (readers get its bytes),
doubled again and again until a call takes ``--seconds`` of CPU time or the input has ``--largest`` characters.
If it takes that long, growth is measured: CPU time for twice the input divided by that for the input. If no input
takes that long for a function, the COSTLIEST inputs are made longer, up to LONGEST characters. A growth above the bar
is measured again, with medians of RUNS calls, up to ATTEMPTS times; the least counts, because other work on the machine
only adds time. Shorter calls are not judged; their time is in the table.

    growth     the greatest of all inputs, and the input
    µs/char    the greatest CPU time a character (or byte), and the input

Filters, rules, extractors and codecs are those of the project's own unions and tables, so a new one is measured without
a change here. Exit status 1 when a growth is above 2.5.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.data_prep.adversarial import JUNK, TEXTS
from tests.data_prep.measured import extractors, filters, readers, rules, settings_of, texts
from tests.train.finetune.files.hostile import readers_of_texts

BAR = 2.5
"""The greatest growth: 2 is linear, the rest is for caches, n log n and other work on the machine."""
RUNS = 3
ATTEMPTS = 5
COSTLIEST = 3
LONGEST = 1 << 22
SMALLEST = 1 << 12
NUMBERS = itertools.count()
PACKAGES = ("nltk", "resiliparse", "tokenizers", "gigatoken", "phonenumbers", "datatrove", "numpy", "numba")


@dataclass(frozen=True)
class Measured:
    """One function on one input of ``size`` characters or bytes; ``growth`` is 0 where the call was too short."""

    name: str
    size: int
    seconds: float
    growth: float

    @property
    def microseconds(self) -> float:
        """CPU time a character."""
        return 1e6 * self.seconds / self.size


def cpu_seconds(function: Callable[[Any], object], value: Any) -> float:
    """CPU time of one call, with a value that no cache has seen."""
    end = f" {next(NUMBERS)}"
    value = value + (end if isinstance(value, str) else end.encode())
    start = time.process_time()
    function(value)
    return time.process_time() - start


def measured(
    name: str, function: Callable[[Any], object], make: Callable[[int], Any], seconds: float, largest: int
) -> Measured:
    """``function`` at the size at which it takes ``seconds``, or at the largest size."""
    size = SMALLEST
    function(make(SMALLEST))  # what it loads and compiles is not its cost
    while (used := cpu_seconds(function, make(size))) < seconds and size < largest:
        size *= 2
    if used < seconds:
        return Measured(name, size, used, 0.0)
    small, large = make(size), make(2 * size)
    least = cpu_seconds(function, large) / used
    for _ in range(ATTEMPTS):
        if least <= BAR:
            break
        least = min(least, growth(function, small, large))
    return Measured(name, size, used, least)


def growth(function: Callable[[Any], object], small: Any, large: Any) -> float:
    """Returns the median CPU time of ``large`` divided by that of ``small``."""
    times = [[cpu_seconds(function, value) for value in (small, large)] for _ in range(RUNS)]
    first, second = (statistics.median(column) for column in zip(*times, strict=True))
    return second / first


def tables(only: str, seconds: float, largest: int) -> Iterator[tuple[str, list[Measured]]]:
    """Each function with what was measured of it, one entry for each input."""
    with tempfile.TemporaryDirectory() as name:
        settings = settings_of(Path(name))
        folder = Path(name)
        of_text = itertools.chain(filters(settings), rules(settings), extractors(), texts(), readers_of_texts(folder))
        for functions, inputs in ((of_text, TEXTS), (readers(folder), JUNK)):
            for title, function in functions:
                if only in title:
                    yield title, row(function, inputs, seconds, largest)


def row(
    function: Callable[[Any], object], inputs: Mapping[str, Callable[[int], Any]], seconds: float, largest: int
) -> list[Measured]:
    """Measures ``function`` on all ``inputs``, and the costliest on longer ones if no input was long enough."""
    costs = [measured(name, function, make, seconds, largest) for name, make in inputs.items()]
    if any(cost.growth for cost in costs):
        return costs
    costliest = sorted(costs, key=lambda cost: cost.microseconds, reverse=True)[:COSTLIEST]
    return costs + [measured(cost.name, function, inputs[cost.name], seconds, LONGEST) for cost in costliest]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions whose name holds this")
    parser.add_argument("--seconds", type=float, default=0.03)
    parser.add_argument("--largest", type=int, default=1 << 15)
    options = parser.parse_args()
    start, load = time.process_time(), os.getloadavg()[0]
    rows: dict[str, list[Any]] = {}
    print("| function | growth | input | µs/char | input |\n|---|---|---|---|---|", file=sys.stderr)
    for title, made in tables(options.only, options.seconds, options.largest):
        grown, slowest = max(made, key=lambda cost: cost.growth), max(made, key=lambda cost: cost.microseconds)
        judged = f"{grown.growth:.2f} | {grown.name}" if grown.growth else "too short | "
        print(f"| {title} | {judged} | {slowest.microseconds:.2f} | {slowest.name} |", file=sys.stderr, flush=True)
        rows[title] = [round(grown.growth, 2), grown.name, round(slowest.microseconds, 3), slowest.name]
    over = {title: row for title, row in rows.items() if row[0] > BAR}
    summary = {
        "benchmark": "adversarial_cost",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "functions": len(rows),
        "inputs": {"texts": len(TEXTS), "bytes": len(JUNK)},
        "greatest_growth": max(row[0] for row in rows.values()),
        "over_the_bar": over,
        "cpu_seconds": round(time.process_time() - start),
        "load_before_and_after": [load, os.getloadavg()[0]],
    }
    print(json.dumps(summary))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
