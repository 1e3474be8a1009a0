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
