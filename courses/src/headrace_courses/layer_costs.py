"""Costs of a layer by its type, counted on masks of this program and on layers of torch (exact.py).

Shapes: B rows, C channels, T positions.
"""

import itertools

import torch
from torch import nn

from headrace_courses.model_properties import visible_pairs


def attention_multiplications(tokens: int, width: int, window: int | None) -> int:
    """Returns the multiplications of queries and keys that see each other in an encoder; ``window`` None: all do."""
    return visible_pairs("encoder", "full" if window is None else "window", window, tokens) * width


def recurrent_multiplications(tokens: int, width: int) -> int:
    """Returns the multiplications of the state of a recurrent layer, one position after the other."""
    return tokens * dict(nn.RNN(width, width, device="meta").named_parameters())["weight_hh_l0"].numel()


def convolutional_multiplications(tokens: int, width: int, kernel: int) -> int:
    """Returns the multiplications of a convolution of ``kernel`` positions."""
    return tokens * nn.Conv1d(width, width, kernel, device="meta").weight.numel()


def window_layers(tokens: int, window: int) -> int:
    """Returns the layers of attention in a window until the last position depends on the first."""
    distance = torch.arange(tokens)
    first = distance == 0
    for layer in itertools.count(1):
        reached = int(first.nonzero().max())
        first |= (distance - reached).abs() < window
        if first[-1]:
            return layer
    raise AssertionError


def dilated_layers(tokens: int, kernel: int) -> int:
    """Returns the convolutions, each ``kernel`` times as dilated as that before, until the last position depends on the
    first: an impulse is sent through layers with weights of 1."""
    impulse_BCT = torch.zeros(1, 1, tokens)
    impulse_BCT[0, 0, 0] = 1.0
    for layer in itertools.count(1):
        dilation = kernel ** (layer - 1)
        padded_BCT = nn.functional.pad(impulse_BCT, ((kernel - 1) * dilation, 0))
        impulse_BCT = nn.functional.conv1d(padded_BCT, torch.ones(1, 1, kernel), dilation=dilation)
        if impulse_BCT[0, 0, -1] > 0:
            return layer
    raise AssertionError
