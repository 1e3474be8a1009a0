"""The layers of a Transformer: normalization, feed-forward layer, and the block of both with attention.

Shapes: B rows, T positions, M model width, F inner width of the feed-forward layer.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train import parts
from headrace.train.config import ModelConfig
from headrace.train.model.attention import Attending, Attention
from headrace.train.model.positions import Rotation
from headrace.train.parts import ActivationName, NormName


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + ε) · weight, normalized in fp32 (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x_BTM: Tensor) -> Tensor:
        wide = x_BTM.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * scaled.to(x_BTM.dtype)


NORMS: Mapping[NormName, Callable[[int, float], nn.Module]] = {"layernorm": nn.LayerNorm, "rmsnorm": RmsNorm}
"""The norm layer of each name, made from width and ε."""


def gelu(inner_BTF: Tensor) -> Tensor:
    """GELU in GPT-2's tanh form (Hendrycks and Gimpel 2016)."""
    return functional.gelu(inner_BTF, approximate="tanh")


def swiglu(inner_BTG: Tensor) -> Tensor:
    """silu(gate) · value, with gate and value side by side (Shazeer 2020)."""
    gate, value = inner_BTG.chunk(2, dim=-1)
    return functional.silu(gate) * value


ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {"gelu": gelu, "swiglu": swiglu}


def build_norm(config: ModelConfig) -> nn.Module:
    """Returns a normalization of the model's width."""
    return NORMS[config.norm](config.width, config.norm_epsilon)


class Mlp(nn.Module):
    """down(activation(up(x))); a gated activation has gate and value in one matrix ``up``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        inputs = parts.ACTIVATIONS[config.activation].inputs
        self.activation = ACTIVATIONS[config.activation]
        self.up = nn.Linear(config.width, config.mlp_width * inputs, bias=config.bias)
        self.down = nn.Linear(config.mlp_width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor) -> Tensor:
        output_BTM: Tensor = self.down(self.activation(self.up(x_BTM)))
        return output_BTM


class Block(nn.Module):
    """Attention and feed-forward layer, each added to its input. The normalization comes before each (pre-norm) or
    after each sum (post-norm: Vaswani et al. 2017)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_post_norm = config.norm_place == "post"
        self.attention_norm, self.attention = build_norm(config), Attention(config)
        self.mlp_norm, self.mlp = build_norm(config), Mlp(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTM: Tensor, rotation: Rotation | None, attending: Attending) -> Tensor:
        if self.is_post_norm:
            x_BTM = self.attention_norm(x_BTM + self.dropout(self.attention(x_BTM, rotation, attending)))
            output_BTM: Tensor = self.mlp_norm(x_BTM + self.dropout(self.mlp(x_BTM)))
            return output_BTM
        x_BTM = x_BTM + self.dropout(self.attention(self.attention_norm(x_BTM), rotation, attending))
        output_BTM = x_BTM + self.dropout(self.mlp(self.mlp_norm(x_BTM)))
        return output_BTM
