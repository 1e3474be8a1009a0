"""AdamW over two groups of parameters.

State, for every parameter θ with gradient g at step t (Kingma and Ba 2015; Loshchilov and Hutter 2019):

    m ← β1·m + (1-β1)·g         exp_avg
    v ← β2·v + (1-β2)·g²        exp_avg_sq
    θ ← θ·(1 - η·λ) - η · (m / (1-β1^t)) / (sqrt(v / (1-β2^t)) + ε)

that is two fp32 values beside the fp32 master weight: 12 bytes per parameter (16 with the gradient), which ZeRO splits
over the ranks. λ is the weight decay for matrices and embeddings, 0 for biases and norms (GPT-3's practice as nanoGPT
wrote it down).
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from headrace.train.config import AdamW


def build(model: nn.Module, config: AdamW) -> torch.optim.AdamW:
    """torch's own AdamW over the parameters of ``model``, one kernel for all of its steps on a GPU and on a CPU.

    DeepSpeed's variants would compile C++ at start-up.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Make ``learning_rate`` the rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


@contextlib.contextmanager
def held(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Have ``optimizer`` leave parameters and state as they are: its ``step`` does nothing."""
    vars(optimizer)["step"] = lambda: None
    try:
        yield
    finally:
        del vars(optimizer)["step"]


def state(adamw: torch.optim.AdamW, parameter: Tensor) -> dict[str, Any]:
    """The state that ``adamw`` keeps of ``parameter``; made as its first update would when there was none yet."""
    kept = adamw.state[parameter]
    if "step" not in kept:
        counts_there = adamw.defaults["fused"] or adamw.defaults["capturable"]
        kept["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device if counts_there else "cpu")
        kept["exp_avg"], kept["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    return kept
