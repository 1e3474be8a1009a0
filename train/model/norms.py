"""Normalizations, by their names in parts.py.

Shapes: B rows, T positions, M width of the normalized vectors (the last dimension).
"""

import functools
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from headrace.train.config import ModelConfig
from headrace.train.parts import NormName


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


class RmsNormFromOne(RmsNorm):
    """x / sqrt(mean(x²) + ε) · (1 + weight), all of it in fp32: the weights begin at 0 (Gemma Team 2024)."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__(width, epsilon)
        nn.init.zeros_(self.weight)

    def forward(self, x_BTM: Tensor) -> Tensor:
        wide = x_BTM.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (scaled * (1.0 + self.weight.float())).to(x_BTM.dtype)


NORMS: Mapping[NormName, Callable[[int, float], nn.Module]] = {
    "layernorm": nn.LayerNorm,
    "layernorm_no_bias": functools.partial(nn.LayerNorm, bias=False),
    "layernorm_plain": functools.partial(nn.LayerNorm, elementwise_affine=False),
    "rmsnorm": RmsNorm,
    "rmsnorm_1p": RmsNormFromOne,
}
"""The norm layer of each name, made from width and ε."""


def build_norm(config: ModelConfig, width: int | None = None) -> nn.Module:
    """Returns a normalization of vectors of ``width`` values; None: the model's width."""
    return NORMS[config.norm](width or config.width, config.norm_epsilon)
