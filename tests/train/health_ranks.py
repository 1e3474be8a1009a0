"""Two ranks, each of which checks a folder and a setting of its own; started by loop/test_preflight.py.

    python -m tests.train.health_ranks CASES_JSON

A case gives each rank its folder and a value that all must share. At last rank 1 looks for a file that is not there.
Rank n writes its results to ``found-n.json``.
"""

import functools
import json
import sys
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError
from headrace.train.distributed.processes import Ranks, gather, on_each
from headrace.train.loop import preflight
from tests.train.forks import on_ranks


def outcome(folder: Path, value: str, ranks: Ranks) -> str:
    try:
        preflight.check_agreement(gather({"settings": value}))
        preflight.check_folder(folder, ranks)
    except HeadraceError as error:
        return str(error)
    return "healthy"


def absent(ranks: Ranks) -> str:
    try:
        on_each(lambda: Path("absent").stat() if ranks.rank == 1 else None)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return "found"


def check(cases: Path, ranks: Ranks) -> None:
    found = [outcome(Path(case[ranks.rank][0]), case[ranks.rank][1], ranks) for case in json.loads(cases.read_text())]
    found.append(absent(ranks))
    cases.with_name(f"found-{ranks.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    preflight.SHOWING_SECONDS = 0.5
    on_ranks(2, functools.partial(check, Path(sys.argv[1])))
