"""Position schemes: how a model knows where a token is.

Shapes: B rows, T positions, M model width, N heads, D head width, K half of a head's rotated width.

    learned       a vector for each position, added to the embedding (GPT-2)
    sinusoidal    the same with fixed vectors of sines and cosines (Vaswani et al. 2017)
    rope          a rotation of queries and keys (RoPE, Su et al. 2021)
    alibi         a bias of the logits that falls with the distance (Press et al. 2022)
    t5            a learned bias of the logits for each range of distances (Raffel et al. 2020)
    t5_by_layer   the same with other numbers in each layer (UMT5, Chung et al. 2023)
    none          nothing: a decoder learns the order from what its tokens cannot see (Haviv et al. 2022)

A scheme can change the embeddings, rotate queries and keys, and add a bias to the logits of attention.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.model.visibility import Bias
from headrace.train.model_shape import DynamicScaling, LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from headrace.train.parts import T5_BUCKETS, PositionsName


def frequencies(width: int, theta: float, scaling: RopeScaling | None, device: torch.device) -> Tensor:
    """Returns frequencies_K in fp32: θ^(-2k/``width``), changed by ``scaling``."""
    k_K = torch.arange(0, width, 2, dtype=torch.float32, device=device)
    frequencies_K = 1.0 / theta ** (k_K / width)
    match scaling:
        case None | DynamicScaling():
            return frequencies_K
        case LinearScaling():
            return frequencies_K / scaling.factor
        case YarnScaling():
            kept_K = _kept_by_yarn(scaling, width, theta, device)
            return frequencies_K / scaling.factor * (1 - kept_K) + frequencies_K * kept_K
        case Llama3Scaling():
            turns_K = scaling.original_context * frequencies_K / (2 * math.pi)
            low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
            kept_K = ((turns_K - low) / (high - low)).clamp(0, 1)
            return (1 - kept_K) * frequencies_K / scaling.factor + kept_K * frequencies_K


def attention_factor(scaling: RopeScaling | None) -> float:
    """Returns the factor of rotated queries and of keys (Peng et al. 2023, eq. 22; 1 without YaRN)."""
    if not isinstance(scaling, YarnScaling):
        return 1.0
    return 0.1 * math.log(scaling.factor) + 1 if scaling.attention_factor is None else scaling.attention_factor


def _kept_by_yarn(scaling: YarnScaling, width: int, theta: float, device: torch.device) -> Tensor:
    """Returns the share of each frequency that is kept, from 1 to 0 along a ramp of pairs (section 3.2 there)."""

    def pair(turns: float) -> float:
        return width * math.log(scaling.original_context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    ramp_K = torch.arange(width // 2, dtype=torch.float32, device=device) - first
    return 1 - (ramp_K / (last - first or 0.001)).clamp(0, 1)


Rotation = tuple[Tensor, Tensor]
"""cos_B1TK and sin_B1TK, fp32."""


class Positions(nn.Module):
    """Base of the position schemes; each overrides what it changes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        """Returns the embeddings with their positions, and the rotation of queries and keys."""
        return x_BTM, None

    def rotation(self, positions_BT: Tensor, theta: float) -> Rotation | None:
        """Returns the rotation of queries and keys at ``positions_BT``, with the base ``theta``."""
        return None

    def bias(self) -> Bias | None:
        """Returns what is added to the logits of attention; None adds nothing."""
        return None

    def biases(self) -> Sequence[Bias | None]:
        """Returns the bias of each layer, the same one unless a scheme has others."""
        return [self.bias()] * self.config.layers


class LearnedPositions(Positions):
    """A table of ``context`` vectors, after ``position_offset`` rows that no position uses."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width = config.embedding_width or config.width
        self.weight = nn.Parameter(torch.empty(config.position_offset + config.context, width))
        nn.init.normal_(self.weight)

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        return x_BTM + functional.embedding(positions_BT + self.config.position_offset, self.weight), None


class SinusoidalPositions(Positions):
    """PE(t, 2k) = sin(t / 10,000^(2k/M)), PE(t, 2k+1) = cos of the same (Vaswani et al. 2017, section 3.5).

    Sines and cosines alternate. Marian and Pegasus at Hugging Face have all sines before all cosines instead.
    """

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        """Computes the vectors in each call, in fp32: a table in the module would be rounded with its weights."""
        width = self.config.width
        even = torch.arange(0, width, 2, dtype=torch.float32, device=positions_BT.device)
        angles = positions_BT[:, :, None].float() / 10_000.0 ** (even / width)
        vectors_BTM = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(2)
        return x_BTM + vectors_BTM.to(x_BTM.dtype), None


class RotaryPositions(Positions):
    """RoPE: pair k of a head's values is rotated by the angle position · θ^(-k/K).

    Each head's vector is cut into halves (a_K, b_K), and pair k is (a_k, b_k):

        (a, b) -> (a cos - b sin, b cos + a sin)

    This is the layout of GPT-NeoX and of LLaMA's Hugging Face weights. The paper pairs neighbours, which is the same up
    to a permutation of the columns of the projections. With ``rotary_fraction`` below 1, a head's values after the
    first 2K are not rotated (GPT-NeoX).
    """

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        return x_BTM, self.rotation(positions_BT, self.config.rope_theta)

    def rotation(self, positions_BT: Tensor, theta: float) -> Rotation:
        """Computes the angles from the positions in each call, in fp32.

        A table in the module would be rounded to bf16 together with its weights.
        """
        scaling = self.config.rope_scaling
        frequencies_K = frequencies(self.config.rotated_width, theta, scaling, positions_BT.device)
        angles_B1TK = positions_BT[:, None, :, None].float() * frequencies_K
        cos_B1TK, sin_B1TK = angles_B1TK.cos(), angles_B1TK.sin()
        factor = attention_factor(scaling)
        return (cos_B1TK, sin_B1TK) if factor == 1 else (cos_B1TK * factor, sin_B1TK * factor)


class AlibiPositions(Positions):
    """Head h adds -rate_h · |query - key| to its logits (Press et al. 2022); embeddings stay as they are."""

    def bias(self) -> Bias | None:
        """Returns the bias. With n heads, n a power of two, the rates are 2^(-8h/n) for h from 1 to n. For another n
        they are those of the next lower power p, then every second one of 2p, from its first."""
        power = 2 ** (self.config.heads.bit_length() - 1)

        def bias(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            exponents = torch.where(head < power, 8 * (head + 1), 4 * (2 * (head - power) + 1)) / power
            return torch.exp2(-exponents) * -(query - key).abs()

        return bias


T5_FURTHEST = 128
"""Larger distances share the bias of the last bucket."""


class T5Positions(Positions):
    """A learned number for each head and each bucket of distances, which all layers of a stack share.

    In an encoder, and with ``two_sided_bias``, half of the buckets are for keys after the query: T5's code has them for
    each model that is not fully autoregressive. Elsewhere such keys have the bucket of distance 0.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.table = nn.Embedding(T5_BUCKETS, config.heads)

    def bias(self) -> Bias | None:
        """Returns the bias. The table is read by a module's call, without which ZeRO's stage 3 has no values in it."""
        table_KN = self.table(torch.arange(T5_BUCKETS, device=self.table.weight.device))
        is_two_sided = self.config.stack == "encoder" or bool(self.config.two_sided_bias)

        def bias(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            values: Tensor = table_KN[distance_buckets(query, key, is_two_sided), head]
            return values

        return bias


class T5PositionsByLayer(Positions):
    """T5's scheme with a table for each layer."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(T5Positions(config) for _ in range(config.layers))

    def biases(self) -> Sequence[Bias | None]:
        return [layer.bias() for layer in self.layers if isinstance(layer, T5Positions)]


def distance_buckets(query: Tensor, key: Tensor, looks_ahead: bool) -> Tensor:
    """Returns the bucket of each distance, an int64 tensor from 0 to T5_BUCKETS - 1.

    Of B buckets the first E = B/2 are for the distances 0 to E - 1. The others divide those up to T5_FURTHEST evenly by
    their logarithms. With ``looks_ahead`` B is half of all buckets, and the other half is for keys after the query.
    """
    buckets = T5_BUCKETS // 2 if looks_ahead else T5_BUCKETS
    exact, distance = buckets // 2, query - key
    first = torch.where(distance < 0, buckets, 0) if looks_ahead else 0
    far = distance.abs() if looks_ahead else distance.clamp(min=0)
    steps = torch.log(far.clamp(min=1).float() / exact) / math.log(T5_FURTHEST / exact) * (buckets - exact)
    return first + torch.where(far < exact, far, (exact + steps.long()).clamp(max=buckets - 1))


POSITIONS: Mapping[PositionsName, Callable[[ModelConfig], Positions]] = {
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "rope": RotaryPositions,
    "alibi": AlibiPositions,
    "t5": T5Positions,
    "t5_by_layer": T5PositionsByLayer,
    "none": Positions,
}


def rotate(x_BNTD: Tensor, rotation: Rotation) -> Tensor:
    """Returns queries or keys, rotated."""
    cos_B1TK, sin_B1TK = (part.to(x_BNTD.dtype) for part in rotation)
    half = cos_B1TK.shape[-1]
    a_BNTK, b_BNTK, rest_BNTR = x_BNTD.tensor_split((half, 2 * half), dim=-1)
    rotated = a_BNTK * cos_B1TK - b_BNTK * sin_B1TK, b_BNTK * cos_B1TK + a_BNTK * sin_B1TK
    return torch.cat((*rotated, rest_BNTR), dim=-1)
