"""Dropout that depends on the seed, the position of a row in the training and the place in the model alone.

    keys_B of the rows ── stack, layer, place ──> keys_B ── index of a position or head, then of each value ──> kept?

So micro-batches, ranks, padding and activations that are computed again change nothing of what is dropped, and no state
of a random generator has to be saved. The bits are a hash of the indices: a 32-bit integer hash of Wellons (lowbias32,
https://github.com/skeeto/hash-prospector), in the int32 arithmetic that all devices have.
"""

import dataclasses
import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

EMBEDDING, LAST, HEAD_INPUT, HEAD_OUTPUT = range(4)
WEIGHTS, MIXED, CROSS_WEIGHTS, CROSS_MIXED, FEED_FORWARD_INNER, FEED_FORWARD = range(4, 10)
"""The places where a model drops values."""
PLACES = 16
"""More than there are."""
STEP = 0x9E3779B9 - (1 << 32)
"""The factor of an index before it is hashed: 2³² divided by the golden ratio."""


@dataclasses.dataclass(frozen=True)
class Dropping:
    """The values of each row that one call of a stack, or of one of its layers, drops."""

    probability: float
    keys_B: Tensor
    """int32."""
    first: int = 0
    """The index of the first position, or head, of those that this rank computes."""

    def in_layer(self, layer: int) -> "Dropping":
        return dataclasses.replace(self, keys_B=hashed(self.keys_B[:, None], PLACES + layer)[:, 0])

    @property
    def of_cross(self) -> "Dropping":
        """The same for the weights of attention to the output of an encoder."""
        return dataclasses.replace(self, keys_B=hashed(self.keys_B, CROSS_WEIGHTS))

    def of(self, x: Tensor, place: int) -> Tensor:
        """Returns ``x`` without the values that are dropped, and the others divided by the probability of being kept.

        The dimensions of ``x`` are the row, positions or heads, counted from ``first``, and one or two others.
        """
        kept = hashed(self.keys_B, place)
        for dimension in range(1, x.dim()):
            first = self.first if dimension == 1 else 0
            indices = torch.arange(first, first + x.shape[dimension], dtype=torch.int32, device=x.device)
            kept = hashed(kept[..., None], indices)
        least = round(self.probability * (1 << 32)) - (1 << 31)
        return x * (kept >= least) / (1 - self.probability)


def dropped(drop: Dropping | None, x: Tensor, place: int) -> Tensor:
    """Returns ``drop.of(x, place)``; ``x`` where nothing is dropped."""
    return x if drop is None else drop.of(x, place)


def hashed(keys: Tensor, indices: Tensor | int) -> Tensor:
    """Returns a hash of ``keys`` and ``indices``, int32, broadcast."""
    x = keys + indices * STEP
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x21F0AAAD
    x = (x ^ ((x >> 15) & 0x1FFFF)) * (0xD35A2D97 - (1 << 32))
    return x ^ ((x >> 15) & 0x1FFFF)


def row_keys(seed: int, positions: Iterable[int], device: torch.device) -> Tensor:
    """Returns keys_B, int32, of rows by their ``positions`` in the training."""
    digests = (hashlib.sha256(f"{seed}:{position}".encode()).digest() for position in positions)
    keys = [int.from_bytes(digest[:4], "big", signed=True) for digest in digests]
    return torch.tensor(keys, dtype=torch.int32, device=device)


def of_sequences(keys_B: Tensor, sequences: int) -> Tensor:
    """Returns the keys of so many ``sequences``: of each row the same number, one after the other."""
    number, rest = divmod(sequences, len(keys_B))
    assert rest == 0, (sequences, len(keys_B))
    return hashed(keys_B[:, None], torch.arange(number, dtype=torch.int32, device=keys_B.device)).flatten()
