"""Multi-head self-attention, and the ways to compute it.

Shapes: B rows, T positions, M model width, N query heads, G key/value heads (N/G queries share one), D head width.

    softmax(q·kᵀ / sqrt(D) + bias) · v over the visible keys        (Vaswani et al. 2017, eq. 1)

    DenseAttention     PyTorch's own, with a mask over all pairs
    BlockAttention     FlexAttention, which skips blocks without a visible pair: on a GPU, in training
    WeightRecorder     plain matrix products whose weights can be read afterwards
    LayerCache         keys and values of the tokens so far (train/model/cache.py)

Cross-attention has its keys and values from an encoder's output: S positions. ``EncoderOutput`` computes them in each
call, and ``CachedEncoderOutput`` of cache.py keeps them.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, FlexKernelOptions, flex_attention

from headrace.train.config import ModelConfig
from headrace.train.model.compilation import compiled
from headrace.train.model.dropout import WEIGHTS, Dropping, dropped
from headrace.train.model.norms import build_norm
from headrace.train.model.positions import Rotation, rotate
from headrace.train.model.visibility import Bias, LogitMask, score_mod
from headrace.train.training_config import AttentionKernel

KERNEL_OPTIONS: Mapping[AttentionKernel, FlexKernelOptions | None] = {"auto": None, "flash": {"BACKEND": "FLASH"}}
"""FlexAttention's options."""


class Attending(Protocol):
    """Dense mask, FlexAttention block mask, KV cache, or attention-weight recorder."""

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, drop: Dropping | None) -> Tensor:
        """Returns what the queries read from the visible values, (B, N, T, D)."""
        ...


class DenseAttention:
    """PyTorch's scaled_dot_product_attention under a dense mask; with a cap of logits or dropout, plain products."""

    def __init__(self, mask: LogitMask, dtype: torch.dtype = torch.float32) -> None:
        """Takes queries of ``dtype``. The mask for all layers is made here, so no layer computes it again."""
        self.mask = mask
        self._for_sdpa = mask.for_sdpa(dtype) if mask.cap is None else None

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, drop: Dropping | None) -> Tensor:
        k_BNTD, v_BNTD = for_each_query_head(q_BNTD, k_BGTD, v_BGTD)
        if self._for_sdpa is None or drop is not None:
            logits_BNTT = self.mask.applied(attention_scores(q_BNTD, k_BNTD))
            weights_BNTT = dropped(drop, logits_BNTT.float().softmax(-1), WEIGHTS)
            return weights_BNTT.to(v_BNTD.dtype) @ v_BNTD
        return functional.scaled_dot_product_attention(q_BNTD, k_BNTD, v_BNTD, attn_mask=self._for_sdpa)


class BlockAttention:
    """FlexAttention, which drops nothing."""

    def __init__(
        self, blocks: BlockMask, bias: Bias | None, cap: float | None = None, kernel: AttentionKernel = "auto"
    ) -> None:
        self._blocks, self._score_mod, self._options = blocks, score_mod(bias, cap), KERNEL_OPTIONS[kernel]

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, drop: Dropping | None) -> Tensor:
        output = compiled(flex_attention)(
            q_BNTD,
            k_BGTD,
            v_BGTD,
            score_mod=self._score_mod,
            block_mask=self._blocks,
            enable_gqa=True,
            kernel_options=self._options,
        )
        assert isinstance(output, Tensor)  # no log-sum-exp was asked for
        return output


class WeightRecorder:
    """Attention whose weights can be read after ``attend``, as they are from its last call.

    scores_BNTT     q·kᵀ / sqrt(D) of each pair of positions
    masked_BNTT     the same with the cap and the bias of the logits, and -inf where a key is not visible
    weights_BNTT    row i: the share of the value at each position in the output of position i; a row sums to 1, fp32
    """

    def __init__(self, mask: LogitMask) -> None:
        self.mask = mask
        self.scores_BNTT = self.masked_BNTT = self.weights_BNTT = torch.empty(0)

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, drop: Dropping | None) -> Tensor:
        k_BNTD, v_BNTD = for_each_query_head(q_BNTD, k_BGTD, v_BGTD)
        self.scores_BNTT = attention_scores(q_BNTD, k_BNTD)
        self.masked_BNTT = self.mask.applied(self.scores_BNTT.clone())
        self.weights_BNTT = self.masked_BNTT.float().softmax(-1)
        return dropped(drop, self.weights_BNTT, WEIGHTS).to(v_BNTD.dtype) @ v_BNTD


def attention_scores(q_BNTD: Tensor, k_BNTD: Tensor) -> Tensor:
    """Returns q·kᵀ / sqrt(D), (B, N, T, T)."""
    scores_BNTT: Tensor = q_BNTD @ k_BNTD.transpose(2, 3) * q_BNTD.shape[3] ** -0.5
    return scores_BNTT


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
        query_width, key_width = config.heads * config.head_width, config.kv_heads * config.head_width
        self.qkv = nn.Linear(config.width, query_width + 2 * key_width, bias=config.has_qkv_bias)
        self.query_norm, self.key_norm = _qk_norms(config)
        self.output = nn.Linear(query_width, config.width, bias=config.bias)

    def forward(
        self, x_BTM: Tensor, rotation: Rotation | None, attending: Attending, drop: Dropping | None = None
    ) -> Tensor:
        heads, kv_heads, width = self.config.heads, self.config.kv_heads, self.config.head_width
        qkv_BNTD = self.qkv(x_BTM).unflatten(-1, (-1, width)).transpose(1, 2)
        q_BNTD, k_BGTD, v_BGTD = qkv_BNTD.split((heads, kv_heads, kv_heads), dim=1)
        q_BNTD = _normalized(q_BNTD, self.query_norm, self.config)
        k_BGTD = _normalized(k_BGTD, self.key_norm, self.config)
        if rotation is not None:
            q_BNTD, k_BGTD = rotate(q_BNTD, rotation), rotate(k_BGTD, rotation)
        q_BNTD = _scaled(q_BNTD, self.config)
        mixed_BNTD = attending.attend(q_BNTD, k_BGTD, v_BGTD, drop)
        output_BTM: Tensor = self.output(mixed_BNTD.transpose(1, 2).flatten(2))
        return output_BTM


def _normalized(x_BNTD: Tensor, norm: nn.Module, config: ModelConfig) -> Tensor:
    """Returns queries or keys after ``qk_norm``, which takes each head alone or all heads of a token together."""
    if config.qk_norm == "width":
        x_BTND = x_BNTD.transpose(1, 2)
        normed_BTH: Tensor = norm(x_BTND.flatten(2))
        return normed_BTH.view(x_BTND.shape).transpose(1, 2)
    normed_BNTD: Tensor = norm(x_BNTD)
    return normed_BNTD


def _scaled(q_BNTD: Tensor, config: ModelConfig) -> Tensor:
    """Returns queries times what turns 1/sqrt(D) of the logits into the scale of ``config``."""
    if config.attention_scale_width is None:
        return q_BNTD
    return q_BNTD * math.sqrt(config.head_width / config.attention_scale_width)


KeysAndValues = Callable[[Tensor], tuple[Tensor, Tensor]]
"""The function from an encoder's output, x_BSM, to k_BGSD and v_BGSD."""


class CrossAttending(Protocol):
    """An encoder's output that cross-attention reads: EncoderOutput, or CachedEncoderOutput."""

    def read(self, q_BNTD: Tensor, keys_and_values: KeysAndValues, drop: Dropping | None) -> Tensor:
        """Returns what the queries read from the visible values, (B, N, T, D)."""
        ...


@dataclasses.dataclass(frozen=True)
class EncoderOutput:
    """The output of an encoder, and the way to compute attention to it."""

    x_BSM: Tensor
    attending: Attending

    def read(self, q_BNTD: Tensor, keys_and_values: KeysAndValues, drop: Dropping | None) -> Tensor:
        return self.attending.attend(q_BNTD, *keys_and_values(self.x_BSM), drop and drop.of_cross)


class CrossAttention(nn.Module):
    """Attention of a decoder's positions to an encoder's output (Vaswani et al. 2017, section 3.2.3)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        query_width, key_width = config.heads * config.head_width, config.kv_heads * config.head_width
        self.query = nn.Linear(config.width, query_width, bias=config.has_qkv_bias)
        self.key_value = nn.Linear(config.width, 2 * key_width, bias=config.has_qkv_bias)
        self.query_norm, self.key_norm = _qk_norms(config)
        self.output = nn.Linear(query_width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor, memory: CrossAttending, drop: Dropping | None = None) -> Tensor:
        q_BNTD = _normalized(self._by_heads(self.query(x_BTM)), self.query_norm, self.config)
        q_BNTD = _scaled(q_BNTD, self.config)
        mixed_BNTD = memory.read(q_BNTD, self.keys_and_values, drop)
        output_BTM: Tensor = self.output(mixed_BNTD.transpose(1, 2).flatten(2))
        return output_BTM

    def keys_and_values(self, x_BSM: Tensor) -> tuple[Tensor, Tensor]:
        """Returns k_BGSD and v_BGSD of an encoder's output."""
        k_BGSD, v_BGSD = self._by_heads(self.key_value(x_BSM)).chunk(2, dim=1)
        return _normalized(k_BGSD, self.key_norm, self.config), v_BGSD

    def _by_heads(self, x_BTH: Tensor) -> Tensor:
        rows, positions, _ = x_BTH.shape
        return x_BTH.view(rows, positions, -1, self.config.head_width).transpose(1, 2)


def _qk_norms(config: ModelConfig) -> tuple[nn.Module, nn.Module]:
    """Returns the normalizations of queries and keys."""
    if config.qk_norm == "none":
        return nn.Identity(), nn.Identity()
    heads = (config.heads, config.kv_heads) if config.qk_norm == "width" else (1, 1)
    queries, keys = (build_norm(config, number * config.head_width) for number in heads)
    return queries, keys
