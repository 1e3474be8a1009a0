"""Causal self-attention that never crosses a document boundary.

Shapes: B rows, T positions, M model width, N query heads, G key/value heads (N/G queries share one), D head width.

    documents_T   0 0 0 1 1 -1          mask_TT   1 . . . . .
                                                  1 1 . . . .
    (-1 is padding: it sees only padding,         1 1 1 . . .
     and nothing sees it)                         . . . 1 . .
                                                  . . . 1 1 .
                                                  . . . . . 1
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from train.config import ModelConfig
from train.model.positions import Rotation, rotate


def document_mask(documents_BT: Tensor) -> Tensor:
    """mask_B1TT, bool: True where query i may see key j, that is j <= i and both in one document."""
    positions = documents_BT.shape[1]
    causal_TT = torch.ones(positions, positions, dtype=torch.bool, device=documents_BT.device).tril()
    return (causal_TT & (documents_BT[:, :, None] == documents_BT[:, None, :]))[:, None]


def attend(q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, mask_B1TT: Tensor, dropout: float) -> Tensor:
    """softmax(q·kᵀ / sqrt(D)) · v under the mask (Vaswani et al. 2017, eq. 1) -> (B, N, T, D).

    The one place that knows how attention is computed: a kernel that skips masked blocks takes this function's place.
    """
    groups = q_BNTD.shape[1] // k_BGTD.shape[1]
    if groups > 1:
        k_BGTD, v_BGTD = k_BGTD.repeat_interleave(groups, dim=1), v_BGTD.repeat_interleave(groups, dim=1)
    return functional.scaled_dot_product_attention(q_BNTD, k_BGTD, v_BGTD, attn_mask=mask_B1TT, dropout_p=dropout)


class Attention(nn.Module):
    """Multi-head attention with shared key and value heads (GQA, Ainslie et al. 2023); MHA when kv_heads = heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        outputs = (config.heads + 2 * config.kv_heads) * config.head_width
        self.qkv = nn.Linear(config.width, outputs, bias=config.bias)
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor, turn: Rotation | None, mask_B1TT: Tensor) -> Tensor:
        heads, kv_heads, width = self.config.heads, self.config.kv_heads, self.config.head_width
        qkv_BNTD = self.qkv(x_BTM).unflatten(-1, (-1, width)).transpose(1, 2)
        q_BNTD, k_BGTD, v_BGTD = qkv_BNTD.split((heads, kv_heads, kv_heads), dim=1)
        if turn is not None:
            q_BNTD, k_BGTD = rotate(q_BNTD, turn), rotate(k_BGTD, turn)
        mixed_BNTD = attend(q_BNTD, k_BGTD, v_BGTD, mask_B1TT, self.config.dropout if self.training else 0.0)
        return self.output(mixed_BNTD.transpose(1, 2).flatten(2))
