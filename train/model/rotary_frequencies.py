"""Frequencies of rotary positions, also of models for longer texts (train/rope_scaling.py).

Shapes: K half of a head's rotated width.
"""

import math

import torch
from torch import Tensor

from headrace.train.rope_scaling import DynamicScaling, LinearScaling, Llama3Scaling, RopeScaling, YarnScaling


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
