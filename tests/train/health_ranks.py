"""One rank that checks a folder and a setting of its own; started by torchrun from a test.

    python -m torch.distributed.run --standalone --nproc-per-node 2 -m tests.train.health_ranks CASES_JSON

A case gives each rank its folder and a value that all must share. Rank n writes its result to ``found-n.json``.
"""

import json
import os
import sys
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks, gather
from headrace.train.loop import preflight


def outcome(folder: Path, value: str, ranks: Ranks) -> str:
    try:
        preflight.check_agreement(gather({"settings": value}))
        preflight.check_folder(folder, ranks)
    except HeadraceError as error:
        return str(error)
    return "healthy"


if __name__ == "__main__":
    cases, ranks = Path(sys.argv[1]), processes.start("cpu")
    preflight.SHOWING_SECONDS = 0.5
    found = [outcome(Path(case[ranks.rank][0]), case[ranks.rank][1], ranks) for case in json.loads(cases.read_text())]
    cases.with_name(f"found-{ranks.rank}.json").write_text(json.dumps(found))
    gather(None)
    os._exit(0)
