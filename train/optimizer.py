"""AdamW over two groups of parameters.

State, for every parameter θ with gradient g at step t (Kingma and Ba 2015; Loshchilov and Hutter 2019):

    m ← β1·m + (1-β1)·g         exp_avg
    v ← β2·v + (1-β2)·g²        exp_avg_sq
    θ ← θ·(1 - η·λ) - η · (m / (1-β1^t)) / (sqrt(v / (1-β2^t)) + ε)

that is two fp32 values beside the fp32 master weight: 12 bytes per parameter (16 with the gradient), which ZeRO splits
over the ranks. λ is the weight decay for matrices and embeddings, 0 for biases and norms (GPT-3's practice as nanoGPT
wrote it down).
"""

import torch
from torch import nn

from train.config import AdamW


def build(model: nn.Module, config: AdamW) -> torch.optim.AdamW:
    """torch's own AdamW over the parameters of ``model``: DeepSpeed's variants would compile C++ at start-up."""
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
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Make ``learning_rate`` the rate of the next update."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
