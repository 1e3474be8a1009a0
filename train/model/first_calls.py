"""Calls PyTorch's elementwise functions once in one thread, because a first call in several threads may be wrong.

On a CPU, PyTorch computes exp, sqrt and the like with Intel's oneMKL, which chooses the kernel of each function during
its first call. When several threads make this call at once, one of them may compute its part with a kernel of low
accuracy (torch 2.13 with oneMKL 2024.2, github.com/pytorch/pytorch/issues/188792). Then the first gradient of a
training differs from that of another process. benchmarks/train/first_calls.py counts it: 11 of 12,112 processes.
"""

import functools

import torch

FUNCTIONS = (torch.cos, torch.erf, torch.exp, torch.expm1, torch.log, torch.log1p, torch.sin, torch.sqrt, torch.tanh)
"""Functions that models, objectives and optimizers may use; each takes 1."""


@functools.cache
def settle() -> None:
    """Makes the first call of each function. Only the first ``settle`` of a process does something."""
    for dtype in (torch.float32, torch.float64):
        element = torch.ones(1, dtype=dtype, device="cpu")  # a single element is computed in the calling thread
        for function in FUNCTIONS:
            function(element)
