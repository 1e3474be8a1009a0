"""Trainings of two real ranks, with and without benchmarks in the loop; started by loop/test_validation.py.

    python -m tests.train.in_loop_evaluation_ranks SPEC_JSON

The specification has the folders of the inputs, and the settings of each training by its output folder.
"""

import functools
import json
import sys
from pathlib import Path

from headrace.train.distributed.processes import Ranks
from tests.train.forks import on_ranks
from tests.train.training import run


def train(inputs: dict, stage: dict, folder: str, ranks: Ranks) -> None:
    run({"name": "weights", "inputs": inputs, "stage": stage}, folder, None)


if __name__ == "__main__":
    spec = json.loads(Path(sys.argv[1]).read_text())
    for folder, stage in spec["trainings"].items():
        on_ranks(2, functools.partial(train, spec["inputs"], stage, folder))
