"""The interchangeable parts of a model: their names, and what each one costs. Free of torch.

    part          names                                                classes
    positions     learned, sinusoidal, rope, alibi, t5, t5_by_layer,   train/model/positions.py
                  none
    norm          layernorm, layernorm_no_bias, layernorm_plain,       train/model/norms.py
                  rmsnorm, rmsnorm_1p
    norm place    pre, post, sandwich, after, parallel                 train/model/layers.py
    activation    relu, gelu, gelu_exact, reglu, geglu, geglu_exact,   train/model/layers.py
                  swiglu
    mixer         attention, lstm, rnn, window_mlp                     train/model/attention.py, layers.py
    attention     full, window                                         train/model/visibility.py
    stack         decoder, encoder, discriminator, encoder_decoder     train/model/transformer.py

The number of parameters (train/config.py) and the memory of a training (train/cost/memory.py) are computed from these
facts, before any model exists.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

PositionsName = Literal["learned", "sinusoidal", "rope", "alibi", "t5", "t5_by_layer", "none"]
NormName = Literal["layernorm", "layernorm_no_bias", "layernorm_plain", "rmsnorm", "rmsnorm_1p"]
NormPlaceName = Literal["pre", "post", "sandwich", "after", "parallel"]
ActivationName = Literal["relu", "gelu", "gelu_exact", "reglu", "geglu", "geglu_exact", "swiglu"]
MixerName = Literal["attention", "lstm", "rnn", "window_mlp"]
AttentionName = Literal["full", "window"]
InitializationName = Literal["gpt", "t5"]
StackName = Literal["decoder", "encoder", "discriminator", "encoder_decoder"]
DropoutPlaceName = Literal["feed_forward", "last"]
HeadActivation = Literal["none", "tanh", "gelu_exact"]
RoleName = Literal["embedding", "head", "matrix", "vector"]
"""The role of a parameter, by which an optimizer distinguishes: train/model/roles.py."""
WRITING: tuple[StackName, ...] = ("decoder", "encoder_decoder")
"""The stacks that write a text from left to right."""

T5_BUCKETS = 32
"""Distances that T5's positions distinguish: numbers for each head (Raffel et al. 2020, section 2.1)."""
FP32 = 4
"""Bytes of one fp32 value."""


@dataclasses.dataclass(frozen=True)
class PositionsFacts:
    """The cost of a position scheme."""

    vectors_per_position: int
    """Parameters: vectors of the model's width for each position of the context."""
    rotates: bool = False
    """Whether queries and keys are rotated; then the backward pass keeps both versions, and a head's width is even."""
    biases_logits: bool = False
    """Whether each head adds a number to each logit of attention; then a CPU has a mask of numbers for each head."""
    biases_per_head: int = 0
    """Parameters: the numbers for each head, in one table. A gradient reaches them through the mask."""
    has_table_per_layer: bool = False
    """Whether each layer has a table, and so a mask, of its own; else the stack's layers share one."""

    def tables(self, layers: int) -> int:
        """Returns the number of tables of ``biases_per_head`` in a stack of that many layers."""
        return (layers if self.has_table_per_layer else 1) if self.biases_per_head else 0


@dataclasses.dataclass(frozen=True)
class NormFacts:
    """The cost of a normalization, and its first weights."""

    vectors: int
    """Parameters: vectors of the model's width."""
    kept_vectors: int
    """Vectors of the model's width that the backward pass keeps for each position, in the precision of the model."""
    computes_in_fp32: bool
    """Whether a model in a narrower precision also keeps its input in fp32."""
    first_weight: float = 1.0
    """The value that each of its weights begins with."""

    def kept_bytes(self, width: int, value_bytes: int) -> int:
        """Returns the bytes that the backward pass keeps of one position."""
        return width * (value_bytes * self.kept_vectors + FP32 * (self.computes_in_fp32 and value_bytes < FP32))


@dataclasses.dataclass(frozen=True)
class NormPlaceFacts:
    """The cost of a norm place."""

    per_part: int
    """Normalizations of each part of a block: attention, feed-forward layer, and attention to an encoder if any."""
    at_end: int
    """Normalizations after the last block."""
    kept_inputs: int = 2
    """Vectors of the model's width that the parts of a block, or their norms, read and the backward pass keeps."""


@dataclasses.dataclass(frozen=True)
class ActivationFacts:
    """The cost of an activation, for each inner unit of the feed-forward layer."""

    inputs: int
    """Outputs of the first matrix that it combines into one: 2 for a gated activation."""
    kept_values: int
    """Values that the backward pass keeps for each position; it holds as many gradients at once."""


@dataclasses.dataclass(frozen=True)
class MixerFacts:
    """The cost of a recurrent mixer of positions; of the others it follows from heads or from the window."""

    gates: int = 0
    """Parameters: pairs of square matrices of the model's width, which read the input and the state."""
    states: int = 0
    """Vectors of the model's width that a state consists of."""
    kept_vectors: int = 0
    """Vectors of the model's width that the backward pass keeps for each position besides the input. That of an LSTM is
    measured on a CPU (benchmarks/train/plan_memory.py)."""


MIXERS: Mapping[MixerName, MixerFacts] = {
    "attention": MixerFacts(),
    "lstm": MixerFacts(gates=4, states=2, kept_vectors=8),
    "rnn": MixerFacts(gates=1, states=1, kept_vectors=1),
    "window_mlp": MixerFacts(),
}
POSITIONS: Mapping[PositionsName, PositionsFacts] = {
    "learned": PositionsFacts(vectors_per_position=1),
    "sinusoidal": PositionsFacts(vectors_per_position=0),
    "rope": PositionsFacts(vectors_per_position=0, rotates=True),
    "alibi": PositionsFacts(vectors_per_position=0, biases_logits=True),
    "t5": PositionsFacts(vectors_per_position=0, biases_logits=True, biases_per_head=T5_BUCKETS),
    "t5_by_layer": PositionsFacts(
        vectors_per_position=0, biases_logits=True, biases_per_head=T5_BUCKETS, has_table_per_layer=True
    ),
    "none": PositionsFacts(vectors_per_position=0),
}
NORMS: Mapping[NormName, NormFacts] = {
    "layernorm": NormFacts(vectors=2, kept_vectors=1, computes_in_fp32=False),
    "layernorm_no_bias": NormFacts(vectors=1, kept_vectors=1, computes_in_fp32=False),
    "layernorm_plain": NormFacts(vectors=0, kept_vectors=1, computes_in_fp32=False),
    "rmsnorm": NormFacts(vectors=1, kept_vectors=2, computes_in_fp32=True),
    "rmsnorm_1p": NormFacts(vectors=1, kept_vectors=2, computes_in_fp32=True, first_weight=0.0),
}
NORM_PLACES: Mapping[NormPlaceName, NormPlaceFacts] = {
    "pre": NormPlaceFacts(per_part=1, at_end=1),
    "post": NormPlaceFacts(per_part=1, at_end=0),
    "sandwich": NormPlaceFacts(per_part=2, at_end=1),
    "after": NormPlaceFacts(per_part=1, at_end=1),
    "parallel": NormPlaceFacts(per_part=1, at_end=1, kept_inputs=1),
}
ACTIVATIONS: Mapping[ActivationName, ActivationFacts] = {
    "relu": ActivationFacts(inputs=1, kept_values=1),
    "gelu": ActivationFacts(inputs=1, kept_values=2),
    "gelu_exact": ActivationFacts(inputs=1, kept_values=2),
    "reglu": ActivationFacts(inputs=2, kept_values=4),
    "geglu": ActivationFacts(inputs=2, kept_values=4),
    "geglu_exact": ActivationFacts(inputs=2, kept_values=4),
    "swiglu": ActivationFacts(inputs=2, kept_values=4),
}
