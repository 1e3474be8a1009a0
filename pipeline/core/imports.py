"""Faster imports of large packages: torch, DeepSpeed, numba, plotly."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Turns the garbage collector off inside the block.

    It would search all objects again and again while their number grows: a quarter of the time of the imports.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Turns the garbage collector off while modules are loaded inside the block, and keeps it from them later.

    They are never garbage, and each search of all objects would take a tenth of a second longer.
    """
    with uncollected():
        yield
        gc.freeze()
