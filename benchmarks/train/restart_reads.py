"""Counts what each rank reads when a training on many ranks starts again. Prints one JSON line.

    python -m benchmarks.train.restart_reads [--saved 64] [--restarted 64 32 16]

``--saved`` real processes (gloo, CPU) write a checkpoint of a made-up state, divided as ZeRO stage 1 divides it: the
parameters one after the other, cut into equal parts. Then each number of ``--restarted`` processes finds and loads it,
as a training does: they verify it together, and each reads its own part.

    opened      files that a rank opens to load its part: the most of any rank
    hashed      files that a rank compares with their checksums: the most of any rank
    seconds     from the search for the checkpoint to the last rank's last value
    wrong       ranks that loaded another value than was saved: must be 0
"""

import argparse
import functools
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.train.checkpoint import store
from headrace.train.checkpoint.saver import Saver, newest_jointly
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping
from headrace.train.distributed.processes import Ranks, gather
from headrace.train.engine import fragments
from headrace.train.engine.fragments import MASTER, Fragment, HostCopy
from tests.train import forks

LAYERS = 24
SIZES = [50_000, *[3_072, 64, 12_288] * LAYERS]
"""The numbers of values of the parameters: a small model, divided like a large one."""
KINDS = (MASTER, "exp_avg", "exp_avg_sq")


def part_of(ranks: Ranks) -> list[Fragment]:
    """Returns the pieces of parameters that this rank holds, each value equal to its position."""
    total = sum(SIZES)
    begin, end = total * ranks.rank // ranks.world, total * (ranks.rank + 1) // ranks.world
    parts, offset = [], 0
    for number, size in enumerate(SIZES):
        first, last = max(begin, offset), min(end, offset + size)
        if first < last:
            values = torch.arange(first, last, dtype=torch.float32)
            parts.append(Fragment(f"p{number}", first - offset, {kind: values.clone() for kind in KINDS}))
        offset += size
    return parts


class Held:
    """The state of this rank, as a saver takes it."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def snapshot(self) -> HostCopy:
        held = {
            fragments.key(fragment, kind): fragment.values[kind] for fragment in part_of(self.ranks) for kind in KINDS
        }
        return HostCopy(held, updates=1)


def save(folder: Path, ranks: Ranks) -> None:
    with Saver(folder, ranks, Keeping(1)) as saver:
        saver.begin(State(1, 1, 1, "", {}), Held(ranks))


def restart(folder: Path, ranks: Ranks) -> None:
    counts = Counter[str]()
    opener, measured = vars(fragments)["safe_open"], FileRecord.of

    def opened(*arguments: Any) -> Any:
        counts["opened"] += 1
        return opener(*arguments)

    def hashed(path: Path) -> FileRecord:
        counts["hashed"] += 1
        return measured(path)

    vars(fragments)["safe_open"] = opened
    FileRecord.of = hashed  # type: ignore[assignment, method-assign]
    expected, mine = part_of(ranks), part_of(ranks)
    for fragment in mine:
        for values in fragment.values.values():
            values.zero_()
    begun = time.monotonic()
    checkpoint = newest_jointly(folder / "checkpoints", None, ranks)
    assert checkpoint is not None
    files = store.state_files(checkpoint.path)
    fragments.read(files, mine, ranks.rank * len(files) // ranks.world)
    seconds = time.monotonic() - begun
    pairs = zip(mine, expected, strict=True)
    is_wrong = not all(
        torch.equal(fragment.values[kind], other.values[kind]) for fragment, other in pairs for kind in KINDS
    )
    every = gather({**counts, "seconds": seconds, "wrong": is_wrong})
    if ranks.first:
        most = {name: max(of_rank[name] for of_rank in every) for name in ("opened", "hashed")}
        last = round(max(of_rank["seconds"] for of_rank in every), 2)
        result = {**most, "seconds": last, "wrong": sum(of_rank["wrong"] for of_rank in every)}
        (folder / f"{ranks.world}.json").write_text(json.dumps(result))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saved", type=int, default=64)
    parser.add_argument("--restarted", type=int, nargs="+", default=[64, 32, 16])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if status := forks.status_of_ranks(options.saved, functools.partial(save, folder / "checkpoints")):
            return status
        results = {}
        for world in options.restarted:
            if status := forks.status_of_ranks(world, functools.partial(restart, folder)):
                return status
            results[world] = json.loads((folder / f"{world}.json").read_text())
    print(json.dumps({"benchmark": "restart_reads", "saved": options.saved, "restarted": results}))
    return int(any(result["wrong"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
