"""Attention that shows where it looks.

Shapes: B rows, T positions, N query heads, G key/value heads (N/G queries share one), D head width.

    weights_BNTT    row i: how much of the values at positions 0 … i makes up what position i gets; it sums to 1
"""

import torch
from torch import Tensor


class KeptWeights:
    """What attention has instead of a mask where its weights are wanted: each row is one document."""

    def __init__(self) -> None:
        self.weights_BNTT = torch.empty(0)
        """fp32, from the last call of ``attend``."""

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor) -> Tensor:
        """softmax(q·kᵀ / sqrt(D)) · v under the causal mask (Vaswani et al. 2017, eq. 1) -> (B, N, T, D)."""
        positions, width = q_BNTD.shape[2:]
        groups = q_BNTD.shape[1] // k_BGTD.shape[1]
        k_BNTD, v_BNTD = (part.repeat_interleave(groups, dim=1) for part in (k_BGTD, v_BGTD))
        hidden_TT = torch.ones(positions, positions, dtype=torch.bool, device=q_BNTD.device).triu(1)
        scores_BNTT = (q_BNTD @ k_BNTD.transpose(2, 3) * width**-0.5).masked_fill(hidden_TT, -torch.inf)
        self.weights_BNTT = scores_BNTT.float().softmax(-1)
        return self.weights_BNTT.to(v_BNTD.dtype) @ v_BNTD
