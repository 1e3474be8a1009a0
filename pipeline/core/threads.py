"""The way in which the threads of torch wait for each other."""

import os

PASSIVE_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads sleep while they wait for each other. OpenMP's default lets them spin. On a machine with other work, spinning
takes cores from the threads that they wait for. The number of threads does not follow the load, because results are
bitwise equal only with the same number of threads."""


def let_threads_sleep() -> None:
    """Sets ``PASSIVE_THREADS`` for this process, unless the user has chosen. It must come before torch is loaded."""
    os.environ.update(PASSIVE_THREADS | os.environ)
