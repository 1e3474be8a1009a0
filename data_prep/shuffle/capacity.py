"""Arrays that may be larger than memory: then a file is mapped, which the system pages in and out."""

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.shuffle.exchange import sorting_folder
from headrace.pipeline.core.artifact import TaskOutput


def room(out: TaskOutput, size: int, dtype: "np.dtype[Any] | type", memory_bytes: int) -> NDArray[Any]:
    """Room for ``size`` values, in memory if that takes ``memory_bytes`` at most, else in a nameless file: (size,)."""
    if size * np.dtype(dtype).itemsize <= memory_bytes:
        return np.empty(size, dtype)
    folder = sorting_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size * np.dtype(dtype).itemsize)  # a full disk kills who writes to a map
        return np.asarray(np.memmap(file, dtype, "w+", shape=(size,)))
