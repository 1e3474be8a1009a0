"""Compares planned with measured memory on several ranks, each a fork of this process.

python -m tests.train.memory_ranks RANKS CASE        a case of benchmarks/train/plan_memory.py, which prints the line
"""

import functools
import sys

from benchmarks.train import plan_memory
from tests.train import forks

if __name__ == "__main__":
    plan_memory.prepare()
    forks.on_ranks(int(sys.argv[1]), functools.partial(plan_memory.compare, sys.argv[2]))
