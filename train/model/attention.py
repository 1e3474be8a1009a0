"""Causal self-attention that never crosses a document boundary.

Shapes: B rows, T positions, M model width, N query heads, G key/value heads (N/G queries share one), D head width.

    documents_T   0 0 0 1 1 -1          mask_TT   1 . . . . .
                                                  1 1 . . . .
    (-1 is padding: it sees only padding,         1 1 1 . . .
     and nothing sees it)                         . . . 1 . .
                                                  . . . 1 1 .
                                                  . . . . . 1

On a GPU in training, FlexAttention (Dong et al. 2024) reads of this mask only which blocks of 128 x 128 are empty,
whole or mixed, and skips the empty ones. The documents are an input of its kernel: new ones need no new kernel.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from headrace.train.config import ModelConfig
from headrace.train.model.attention_weights import KeptWeights
from headrace.train.model.cache import LayerCache
from headrace.train.model.compilation import compiled
from headrace.train.model.positions import Rotation, rotate

Mask = Tensor | BlockMask | LayerCache | KeptWeights
"""mask_B1TT, or which of its blocks to compute, or what is known of the tokens before, or what is to be looked at."""


def document_mask(documents_BT: Tensor) -> Tensor:
    """mask_B1TT, bool: True where query i may see key j, that is j <= i and both in one document."""
    positions = documents_BT.shape[1]
    causal_TT = torch.ones(positions, positions, dtype=torch.bool, device=documents_BT.device).tril()
    return (causal_TT & (documents_BT[:, :, None] == documents_BT[:, None, :]))[:, None]


def block_mask(documents_BT: Tensor) -> BlockMask:
    """The same as ``document_mask``, for FlexAttention."""

    def sees(b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (documents_BT[b, query] == documents_BT[b, key])

    rows, positions = documents_BT.shape
    return compiled(create_block_mask)(sees, rows, None, positions, positions, device=str(documents_BT.device))


def attend(q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, mask: Mask, dropout: float) -> Tensor:
    """softmax(q·kᵀ / sqrt(D)) · v under the mask (Vaswani et al. 2017, eq. 1) -> (B, N, T, D).

    The one place that knows how attention is computed: a mask in blocks is FlexAttention's, which has no dropout; a
    cache has keys and values of its own, and weights that are kept are not hidden in a kernel.
    """
    if isinstance(mask, (LayerCache, KeptWeights)):
        return mask.attend(q_BNTD, k_BGTD, v_BGTD)
    if isinstance(mask, BlockMask):
        return compiled(flex_attention)(q_BNTD, k_BGTD, v_BGTD, block_mask=mask, enable_gqa=True)
    groups = q_BNTD.shape[1] // k_BGTD.shape[1]
    if groups > 1:
        k_BGTD, v_BGTD = k_BGTD.repeat_interleave(groups, dim=1), v_BGTD.repeat_interleave(groups, dim=1)
    return functional.scaled_dot_product_attention(q_BNTD, k_BGTD, v_BGTD, attn_mask=mask, dropout_p=dropout)


class Attention(nn.Module):
    """Multi-head attention with shared key and value heads (GQA, Ainslie et al. 2023); MHA when kv_heads = heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        outputs = (config.heads + 2 * config.kv_heads) * config.head_width
        self.qkv = nn.Linear(config.width, outputs, bias=config.bias)
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor, turn: Rotation | None, mask: Mask) -> Tensor:
        heads, kv_heads, width = self.config.heads, self.config.kv_heads, self.config.head_width
        qkv_BNTD = self.qkv(x_BTM).unflatten(-1, (-1, width)).transpose(1, 2)
        q_BNTD, k_BGTD, v_BGTD = qkv_BNTD.split((heads, kv_heads, kv_heads), dim=1)
        if turn is not None:
            q_BNTD, k_BGTD = rotate(q_BNTD, turn), rotate(k_BGTD, turn)
        mixed_BNTD = attend(q_BNTD, k_BGTD, v_BGTD, mask, self.config.dropout if self.training else 0.0)
        return self.output(mixed_BNTD.transpose(1, 2).flatten(2))
