"""The interchangeable parts of a model: their names, and what each one costs. Free of torch.

    part          names                  classes
    positions     learned, rope          train/model/positions.py
    norm          layernorm, rmsnorm     train/model/layers.py
    activation    gelu, swiglu           train/model/layers.py

The number of parameters (train/config.py) and the memory of a training (train/cost/memory.py) are computed from these
facts, before any model exists.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

PositionsName = Literal["learned", "rope"]
NormName = Literal["layernorm", "rmsnorm"]
ActivationName = Literal["gelu", "swiglu"]

FP32 = 4
"""Bytes of one fp32 value."""


@dataclasses.dataclass(frozen=True)
class PositionsFacts:
    """The cost of a position scheme."""

    vectors_per_position: int
    """Parameters: vectors of the model's width for each position of the context."""
    rotates: bool
    """Whether queries and keys are rotated; then the backward pass keeps both versions, and a head's width is even."""


@dataclasses.dataclass(frozen=True)
class NormFacts:
    """The cost of a normalization."""

    vectors: int
    """Parameters: vectors of the model's width."""
    kept_vectors: int
    """Vectors of the model's width that the backward pass keeps for each position, in the precision of the model."""
    computes_in_fp32: bool
    """Whether a model in a narrower precision also keeps its input in fp32."""

    def kept_bytes(self, width: int, value_bytes: int) -> int:
        """Returns the bytes that the backward pass keeps of one position."""
        return width * (value_bytes * self.kept_vectors + FP32 * (self.computes_in_fp32 and value_bytes < FP32))


@dataclasses.dataclass(frozen=True)
class ActivationFacts:
    """The cost of an activation, for each inner unit of the feed-forward layer."""

    inputs: int
    """Outputs of the first matrix that it combines into one: 2 for a gated activation."""
    kept_values: int
    """Values that the backward pass keeps for each position; it holds as many gradients at once."""


POSITIONS: Mapping[PositionsName, PositionsFacts] = {
    "learned": PositionsFacts(vectors_per_position=1, rotates=False),
    "rope": PositionsFacts(vectors_per_position=0, rotates=True),
}
NORMS: Mapping[NormName, NormFacts] = {
    "layernorm": NormFacts(vectors=2, kept_vectors=1, computes_in_fp32=False),
    "rmsnorm": NormFacts(vectors=1, kept_vectors=2, computes_in_fp32=True),
}
ACTIVATIONS: Mapping[ActivationName, ActivationFacts] = {
    "gelu": ActivationFacts(inputs=1, kept_values=2),
    "swiglu": ActivationFacts(inputs=2, kept_values=4),
}
