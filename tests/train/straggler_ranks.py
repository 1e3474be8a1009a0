"""A training of two real ranks, of which the second one computes slowly; started by loop/test_speed.py.

    python -m tests.train.straggler_ranks SPEC_JSON

The specification is that of tests/train/training.py, with one run.
"""

import json
import sys
import time
from pathlib import Path

from headrace.train.distributed.processes import Ranks
from headrace.train.model.layers import Block
from tests.train.forks import on_ranks
from tests.train.training import run

SLEEP_SECONDS = 0.2


def train(ranks: Ranks) -> None:
    if ranks.rank == 1:
        forward = Block.forward

        def slowly(*arguments, **named):
            time.sleep(SLEEP_SECONDS)
            return forward(*arguments, **named)

        Block.forward = slowly
    spec = json.loads(Path(sys.argv[1]).read_text())
    run(spec, *spec["runs"][0])


if __name__ == "__main__":
    on_ranks(2, train)
