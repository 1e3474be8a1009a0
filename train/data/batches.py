"""Rows stacked into batches: arrays by name, as NumPy arrays and as tensors on a device; and reading them ahead.

An objective (train/objectives) chooses the names and shapes. In every array the first dimension is the row.

    loop      take(0) ──── update ──── take(16) ──── update ──── take(32) ...
    thread       read 16 ────────┘        read 32 ────────┘

The rows are a function of the position alone, so reading ahead (``Prefetch``) changes no result, and there is nothing
to save.
"""

import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor


Arrays = Mapping[str, NDArray[Any]]
Tensors = Mapping[str, "Tensor"]

IGNORED = -100
"""The target of a position that predicts nothing; cross-entropy leaves it out."""
DRAW_BITS = 53
"""Bits of a random number in a row: the integer divided by 2^53 is uniform in [0, 1)."""


@dataclasses.dataclass(frozen=True)
class EncoderTokens:
    """The tokens that the encoder of an encoder–decoder reads, with their positions: int64, (B, S)."""

    tokens_BS: "Tensor"
    positions_BS: "Tensor"
    """Counted from 0 in each document."""
    documents_BS: "Tensor"
    """The decoder's positions of a document see the encoder's positions of the same number; -1 is padding."""


@dataclasses.dataclass(frozen=True)
class Pairs:
    """The pairs of texts of rows whose labels are predicted: int64, (B, P)."""

    first_BP: "Tensor"
    """The position of the first token of each pair, which the head reads; 0 after the last pair of a row."""
    labels_BP: "Tensor"
    """0: the second text follows the first one; 1: it does not; -100: there is nothing to predict."""


def stacked(rows: Sequence[Arrays]) -> Arrays:
    """Stacks the arrays of each row, whose names and shapes are the same in all rows."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def to_device(batch: Arrays, device: "torch.device") -> Tensors:
    """Copies ``batch`` to ``device``, through pinned memory to a GPU; may return before the copy is done."""
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    if device.type == "cuda":
        with torch.cuda.device(device):  # in a new thread the current device is 0
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
    return {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}


P = TypeVar("P", bound=Hashable)
T = TypeVar("T")


class Prefetch(Generic[P, T]):
    """Calls ``read`` in a thread of its own, at most one position ahead; the thread ends with the object."""

    def __init__(self, read: Callable[[P], T]) -> None:
        self._read = read
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._ahead: dict[P, Future[T]] = {}
        self.waited_seconds = 0.0
        """The duration of the last ``take``."""

    def take(self, position: P, following: P | None) -> T:
        """Returns the result of ``read(position)``, or raises its error; begins to read ``following`` unless None."""
        started = time.perf_counter()
        ready = self._ahead.pop(position, None) or self._thread.submit(self._read, position)
        self._ahead = {} if following is None else {following: self._thread.submit(self._read, following)}
        try:
            return ready.result()
        finally:
            self.waited_seconds = time.perf_counter() - started
