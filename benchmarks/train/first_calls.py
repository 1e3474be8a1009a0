"""How often does a first call of exp in many threads differ from the second, with and without `transformer.settle`?

    python -m benchmarks.train.first_calls 100

Each process is a fork of one that has imported torch and called nothing. The argument is seconds for each of the two.
"""

import os
import sys
import time

import torch

from headrace.train.model import transformer

THREADS = 16


def differs(values: torch.Tensor, settled: bool) -> bool:
    """Computes exp twice in a new process, and returns whether the results differ."""
    child = os.fork()
    if not child:
        if settled:
            transformer.settle()
        torch.set_num_threads(THREADS)
        os._exit(0 if torch.equal(values.exp(), values.exp()) else 1)
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    torch.set_num_threads(1)  # a pool of threads would not survive the forks
    values = torch.linspace(-5, 5, 2**20)
    for settled in (False, True):
        end = time.monotonic() + float(sys.argv[1])
        processes = differing = 0
        while time.monotonic() < end:
            differing += differs(values, settled)
            processes += 1
        print(f"settled={settled}: {differing} of {processes} processes got another result from the first call")


if __name__ == "__main__":
    main()
