"""Tests whether the extractor survives broken pages and decides alike on every machine. Prints one JSON line.

    python -m benchmarks.robustness.fuzz_extraction [--inputs 100000] [--seed 0] [PAGES.jsonl.zst]

Pages are pieces of made pages, and of the labelled pages if a file of them is named, with markup that is cut, doubled,
moved, broken and invented. Each goes twice through reading, facts, features, choice and both forms of text: with the
kernels as this processor gets them, and compiled for any processor, without optimization, each index checked.
``crashes``: a process that died or raised. ``hangs``: no page for HANG_SECONDS. ``differing``: batches whose results
differ between the two. Exit status 1 when one of them is not 0.
"""

import argparse
import hashlib
import itertools
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.markdown import markdown
from headrace.data_prep.extraction.model import judged, load
from headrace.data_prep.extraction.page import read_page
from headrace.pipeline.core.text_files import read_lines
from tests.data_prep.extraction.hostile import FRAGMENTS
from tests.data_prep.extraction.labelled import labelled_page

KERNELS = {
    "native": {},
    "any processor": {"NUMBA_OPT": "0", "NUMBA_CPU_NAME": "generic", "NUMBA_BOUNDSCHECK": "1"},
}  # fmt: skip
BATCH = 1000
MOST_CHARACTERS = 8_000
HANG_SECONDS = 900
"""For a batch, and the compilation before the first."""


def mutated(number: int, seed: int, pages: list[str]) -> str:
    """Returns the page ``number``, the same for the same seed."""
    chance = random.Random(f"{seed}:{number}")
    page = chance.choice(pages) if pages and chance.random() < 0.7 else labelled_page(number)["html"]
    start = chance.randrange(max(len(page) - MOST_CHARACTERS, 1))
    page = page[start : start + chance.randint(1, MOST_CHARACTERS)]
    for _ in range(chance.randint(1, 30)):
        begin, end = sorted((chance.randint(0, len(page)), chance.randint(0, len(page))))
        piece = page[begin : min(end, begin + chance.choice((1, 5, 50, 500)))]
        page = chance.choice(
            (
                page[:begin] + page[begin + len(piece) :],
                page[:begin] + piece * chance.randint(2, 9) + page[begin:],
                page[:begin] + chance.choice(FRAGMENTS) * chance.choice((1, 1, 1, 30)) + page[begin:],
                page[:begin] + chr(chance.choice((0, 9, 38, 60, 62, 0xA0, 0x3042, 0x1F600))) + page[begin:],
                page[:end] + piece + page[end:],
            )
        )
    return page


def result(html: str, number: int) -> bytes:
    """Returns all that extraction decides on a page."""
    page = read_page(html, is_xml=number % 7 == 0, with_alt=number % 3 == 0)
    if isinstance(page, Drop):
        return page.rule.encode()
    probability, keep = judged(page, load())
    texts = (page.text(np.ones_like(keep)), page.text(keep), markdown(page.scan, page.order, keep, True, True))
    return probability.tobytes() + keep.tobytes() + repr((texts, page.facts)).encode()


def work(inputs: int, seed: int, pages: list[str]) -> None:
    """Prints a line for each batch: its digest, and the seconds of its slowest page."""
    result("<table><tr><td>compiles<td>10<sup>8</sup>", 0)
    for first in range(0, inputs, BATCH):
        digest, slowest = hashlib.sha256(), 0.0
        for number in range(first, min(first + BATCH, inputs)):
            html = mutated(number, seed, pages)
            start = time.perf_counter()
            digest.update(result(html, number))
            slowest = max(slowest, time.perf_counter() - start)
        print(digest.hexdigest(), slowest, flush=True)


def lines_of(options: dict[str, str], arguments: list[str], totals: dict[str, int]) -> Iterator[str]:
    """Yields what a process that works prints; counts if it dies, or hangs."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache} | options
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.robustness.fuzz_extraction", *arguments, "--work"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=lambda: [lines.put(line) for line in (*process.stdout, "")], daemon=True).start()
        try:
            yield from iter(lambda: lines.get(timeout=HANG_SECONDS), "")
        except queue.Empty:
            totals["hangs"] += 1
            process.kill()
        totals["crashes"] += process.wait() not in (0, -9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        lines = itertools.islice(read_lines(options.path), 0, None, 5) if options.path else ()
        work(options.inputs, options.seed, [json.loads(line)["html"] for line in lines])
        return
    totals = {"crashes": 0, "hangs": 0, "differing": 0}
    both = [lines_of(some, sys.argv[1:], totals) for some in KERNELS.values()]
    slowest, batches = 0.0, 0
    for native, generic in itertools.zip_longest(*both, fillvalue=""):
        batches += 1
        totals["differing"] += native.split()[:1] != generic.split()[:1]
        slowest = max(slowest, float(native.split()[1]) if native else 0.0)
    result = {"benchmark": "fuzz_extraction", "inputs": options.inputs, "seed": options.seed, "batches": batches}
    print(json.dumps(result | totals | {"slowest_ms": round(slowest * 1000, 1)}))
    sys.exit(any(totals.values()))


if __name__ == "__main__":
    main()
