"""Starts several ranks of a distributed stage on this machine: each is a fork of this process.

python -m headrace.pipeline.run.forked_ranks STAGE_JSON RANKS

The ranks end with this process. When one fails, the others are asked to end, and killed if they do not.
"""

import contextlib
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.core.signals import exit_now
from headrace.pipeline.run import rank
from headrace.pipeline.run.planned_stage import load_stage
from headrace.train.distributed.forks import start, wait


def main(arguments: Sequence[str]) -> int:
    """Starts the ranks that ``arguments`` name, and is one of them in each fork. Returns the exit status."""
    stage_json, ranks = arguments
    with contextlib.suppress(HeadraceError, OSError):  # each rank reports it
        load_stage(Path(stage_json))  # the modules of the stage are loaded once for all ranks
    gc.freeze()
    children = start(int(ranks))
    return wait(children) if children else rank.main([stage_json])


if __name__ == "__main__":
    exit_now(main(sys.argv[1:]))
