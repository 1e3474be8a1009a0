"""Multi-head self-attention, and the ways to compute it.

Shapes: B rows, T positions, M model width, N query heads, G key/value heads (N/G queries share one), D head width.

    softmax(q·kᵀ / sqrt(D) + bias) · v over the visible keys        (Vaswani et al. 2017, eq. 1)

    DenseAttention     PyTorch's own, with a mask over all pairs
    BlockAttention     FlexAttention, which skips blocks without a visible pair: on a GPU, in training
    WeightRecorder     plain matrix products whose weights can be read afterwards
    LayerCache         keys and values of the tokens so far (train/model/cache.py)
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from headrace.train.config import ModelConfig
from headrace.train.model.compilation import compiled
from headrace.train.model.positions import Rotation, rotate
from headrace.train.model.visibility import Bias, LogitMask, score_mod


class Attending(Protocol):
    """Dense mask, FlexAttention block mask, KV cache, or attention-weight recorder."""

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, dropout: float) -> Tensor:
        """Returns what the queries read from the visible values, (B, N, T, D)."""
        ...


class DenseAttention:
    """PyTorch's scaled_dot_product_attention under a dense mask."""

    def __init__(self, mask: LogitMask) -> None:
        self._mask = mask

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, dropout: float) -> Tensor:
        k_BNTD, v_BNTD = for_each_query_head(q_BNTD, k_BGTD, v_BGTD)
        mask_BNTT = self._mask.for_sdpa(q_BNTD.dtype)
        return functional.scaled_dot_product_attention(q_BNTD, k_BNTD, v_BNTD, attn_mask=mask_BNTT, dropout_p=dropout)


class BlockAttention:
    """FlexAttention. It has no dropout, so ``attend`` ignores it."""

    def __init__(self, blocks: BlockMask, bias: Bias | None) -> None:
        self._blocks, self._score_mod = blocks, score_mod(bias)

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, dropout: float) -> Tensor:
        output = compiled(flex_attention)(
            q_BNTD, k_BGTD, v_BGTD, score_mod=self._score_mod, block_mask=self._blocks, enable_gqa=True
        )
        assert isinstance(output, Tensor)  # no log-sum-exp was asked for
        return output


class WeightRecorder:
    """Attention whose weights can be read after ``attend``.

    weights_BNTT    row i: the share of the value at each position in the output of position i; a row sums to 1
    """

    def __init__(self, mask: LogitMask) -> None:
        self._mask = mask
        self.weights_BNTT = torch.empty(0)
        """fp32, from the last call of ``attend``."""

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, dropout: float) -> Tensor:
        k_BNTD, v_BNTD = for_each_query_head(q_BNTD, k_BGTD, v_BGTD)
        logits_BNTT = q_BNTD @ k_BNTD.transpose(2, 3) * q_BNTD.shape[3] ** -0.5
        self.weights_BNTT = self._mask.applied(logits_BNTT).float().softmax(-1)
        return self.weights_BNTT.to(v_BNTD.dtype) @ v_BNTD


def for_each_query_head(q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor) -> tuple[Tensor, Tensor]:
    """Returns keys and values repeated for the query heads that share them."""
    groups = q_BNTD.shape[1] // k_BGTD.shape[1]
    if groups == 1:
        return k_BGTD, v_BGTD
    return k_BGTD.repeat_interleave(groups, dim=1), v_BGTD.repeat_interleave(groups, dim=1)


class Attention(nn.Module):
    """Multi-head attention with shared key and value heads (GQA, Ainslie et al. 2023); MHA when kv_heads = heads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        outputs = (config.heads + 2 * config.kv_heads) * config.head_width
        self.qkv = nn.Linear(config.width, outputs, bias=config.bias)
        self.output = nn.Linear(config.width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor, rotation: Rotation | None, attending: Attending) -> Tensor:
        heads, kv_heads, width = self.config.heads, self.config.kv_heads, self.config.head_width
        qkv_BNTD = self.qkv(x_BTM).unflatten(-1, (-1, width)).transpose(1, 2)
        q_BNTD, k_BGTD, v_BGTD = qkv_BNTD.split((heads, kv_heads, kv_heads), dim=1)
        if rotation is not None:
            q_BNTD, k_BGTD = rotate(q_BNTD, rotation), rotate(k_BGTD, rotation)
        mixed_BNTD = attending.attend(q_BNTD, k_BGTD, v_BGTD, self.config.dropout if self.training else 0.0)
        output_BTM: Tensor = self.output(mixed_BNTD.transpose(1, 2).flatten(2))
        return output_BTM
