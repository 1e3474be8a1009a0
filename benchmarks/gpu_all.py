"""All that needs a GPU, in three parts of at most eight minutes. Started by gpu_all.sh.

    python benchmarks/gpu_all.py right|ledger|scale [--device cpu --tiny] [--out .] [--inputs FOLDER] [--only ITEM]

    right     is it right? versions, ceilings of the hardware, kernels against slow computations, ZeRO stages without a
              graph break, a training that is stopped and resumed, heaviest kernels          (gpu_right.py)
    ledger    124M parameters: the speed of one change each                                  (gpu_ledger.py)
    scale     350M and 1.3B parameters, recomputation, planned and measured memory, snapshots  (gpu_scale.py)

One JSON line an item goes to the output and to ``<out>/gpu_<part>.jsonl`` at once: its seconds, and its result or its
error. An item that fails, or takes longer than its limit, does not stop the others; one for which no time is left is
skipped. The exit status is 1 when one failed. ``--tiny`` takes tiny models and few updates; it shows that all runs.
``right`` trains on tokens and rows; ``--inputs`` is the folder that they are in, or are made in.
"""

import argparse
import dataclasses
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from headrace.pipeline.core.errors import HeadraceError
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks

PART_SECONDS = 480.0
FAILURES = (
    *(HeadraceError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    ZeroDivisionError,
)
"""What a failing item raises; errors of torch are RuntimeErrors, and its time limit an OSError."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the items of a part are given."""

    ranks: Ranks
    is_tiny: bool
    inputs: Path
    out: Path

    @property
    def device(self) -> torch.device:
        return self.ranks.device


Item = Callable[[Setting], Mapping[str, Any]]
"""A measurement or a check: returns what its line holds. A check that fails raises an AssertionError."""


def run(name: str, item: Item, setting: Setting, limit_seconds: float) -> dict[str, Any]:
    """Returns the line of an item."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {limit_seconds:.0f} s")

    begun = time.monotonic()
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_seconds)
    try:
        line: dict[str, Any] = {"passed": True, **item(setting)}
    except FAILURES as error:
        line = {"passed": False, "error": f"{type(error).__name__}: {error}"[:2000]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    gc.collect()
    if setting.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return {"item": name, "seconds": round(time.monotonic() - begun, 1), **line}


def lines(items: Mapping[str, Item], setting: Setting, deadline: float) -> Iterator[dict[str, Any]]:
    for name, item in items.items():
        left = deadline - time.monotonic()
        yield run(name, item, setting, left) if left > 1 else {"item": name, "passed": False, "error": "no time left"}


def items_of(part: str) -> Mapping[str, Item]:
    from benchmarks import gpu_ledger, gpu_right, gpu_scale

    return {"right": gpu_right.ITEMS, "ledger": gpu_ledger.ITEMS, "scale": gpu_scale.ITEMS}[part]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("right", "ledger", "scale"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--only")
    asked = parser.parse_args()
    deadline = time.monotonic() + PART_SECONDS
    asked.out.mkdir(parents=True, exist_ok=True)
    setting = Setting(processes.start(asked.device), asked.tiny, asked.inputs or asked.out / "gpu_inputs", asked.out)
    items = {name: item for name, item in items_of(asked.part).items() if asked.only in (None, name)}
    failures = 0
    with (asked.out / f"gpu_{asked.part}.jsonl").open("a") as stream:
        for line in lines(items, setting, deadline):
            failures += not line["passed"]
            text = json.dumps({"part": asked.part, **line})
            print(text, file=stream, flush=True)
            print(text, flush=True)
    sys.stdout.flush()
    os._exit(min(failures, 1))


if __name__ == "__main__":
    main()
