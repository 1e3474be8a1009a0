"""The decoder-only Transformer, in the order of the papers: embed, L times (attend, transform), normalize, predict.

Shapes: B rows, T positions, M model width, V vocabulary.

    tokens_BT ── embedding ─(+ learned positions)─> x_BTM
        x + attention(norm(x))       documents do not see each other      │ layers
        x + mlp(norm(x))             post-norm: norm(x + mlp(x))          │ times
    norm(x) ── head (the embedding again when tied) ──> logits_BTV

GPT-2 (Radford et al. 2019): learned positions, LayerNorm, GELU, biases, tied. LLaMA (Touvron et al. 2023): RoPE,
RMSNorm, SwiGLU, no biases. GPT-1 (Radford et al. 2018): as GPT-2, but post-norm and without a last norm.
The vocabulary is taken as it is, without padding rows: a multiple of 64 tokens is faster on a GPU.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.model.attention import Attention, Mask, block_mask, document_mask
from headrace.train.model.attention_weights import KeptWeights
from headrace.train.model.cache import ROW_MULTIPLE, Cache, NewTokens, rounded_up
from headrace.train.model.head import Head
from headrace.train.model.positions import Rotation, rotation

INITIAL_STD = 0.02
"""Standard deviation of the first weights (Radford et al. 2018, section 4.1)."""


class Mlp(nn.Module):
    """down(gelu(up(x))), or SwiGLU's down(silu(gate(x)) · value(x)), gate and value in one matrix (Shazeer 2020)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gated = config.activation == "swiglu"
        self.up = nn.Linear(config.width, config.mlp_width * (1 + self.gated), bias=config.bias)
        self.down = nn.Linear(config.mlp_width, config.width, bias=config.bias)

    def forward(self, x_BTM: Tensor) -> Tensor:
        inner = self.up(x_BTM)
        if self.gated:
            gate, value = inner.chunk(2, dim=-1)
            return self.down(functional.silu(gate) * value)
        return self.down(functional.gelu(inner, approximate="tanh"))


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + ε) · weight, normalized in fp32 (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x_BTM: Tensor) -> Tensor:
        wide = x_BTM.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * scaled.to(x_BTM.dtype)


def build_norm(config: ModelConfig) -> nn.Module:
    if config.norm == "layernorm":
        return nn.LayerNorm(config.width, eps=config.norm_epsilon)
    return RmsNorm(config.width, config.norm_epsilon)


class Block(nn.Module):
    """One layer, normalized before each part (pre-norm) or after each is added (post-norm: Vaswani et al. 2017)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_post_norm = config.norm_place == "post"
        self.attention_norm, self.attention = build_norm(config), Attention(config)
        self.mlp_norm, self.mlp = build_norm(config), Mlp(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_BTM: Tensor, turn: Rotation | None, mask: Mask) -> Tensor:
        if self.is_post_norm:
            x_BTM = self.attention_norm(x_BTM + self.dropout(self.attention(x_BTM, turn, mask)))
            return self.mlp_norm(x_BTM + self.dropout(self.mlp(x_BTM)))
        x_BTM = x_BTM + self.dropout(self.attention(self.attention_norm(x_BTM), turn, mask))
        return x_BTM + self.dropout(self.mlp(self.mlp_norm(x_BTM)))


class Transformer(nn.Module):
    """Predicts the next token of every position from the ones before it in its document."""

    keeps_prefixes = True
    """Whether what is known of a beginning spares its computation (train/model/recomputing.py: no)."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.embedding = nn.Embedding(vocabulary, config.width)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = build_norm(config) if config.norm_place == "pre" else nn.Identity()
        self.head = Head(config.width, vocabulary)
        if config.tied:
            self.head.weight = self.embedding.weight

    def forward(
        self, tokens_BT: Tensor, positions_BT: Tensor, documents_BT: Tensor, targets_BT: Tensor | None = None
    ) -> Tensor:
        """logits_BTV in the dtype of the weights; with targets the sum of their -ln p in fp32 nats, a scalar.

        Args:
            tokens_BT: int64 token ids.
            positions_BT: int64, counted from 0 in each document, below ``config.context``.
            documents_BT: int64 number of the document that a position belongs to, -1 for padding.
            targets_BT: int64 token that each position is to predict, -100 where nothing is.
        """
        x_BTM, turn = self._embed(tokens_BT, positions_BT)
        in_blocks = documents_BT.is_cuda and self.training and not self.config.dropout
        mask = block_mask(documents_BT) if in_blocks else document_mask(documents_BT)
        x_BTM = self.dropout(x_BTM)
        for block in self.blocks:
            x_BTM = block(x_BTM, turn, mask)
        return self.head(self.norm(x_BTM), targets_BT)

    def new_cache(self, rows: int) -> Cache:
        """A cache of as many sequences, all empty."""
        weight = self.embedding.weight
        return Cache(self.config, rows, weight.dtype, weight.device)

    @torch.inference_mode()
    def extend(self, cache: Cache, tokens_P: Tensor, sizes_B: Tensor) -> Tensor:
        """x_PM, of which ``logits`` are those after each new token; the cache then holds these tokens too.

        Args:
            cache: what is known of each row.
            tokens_P: int64 token ids that follow, those of one row after those of the other.
            sizes_B: int64, how many each row has.

        Raises:
            ValueError: when a row gets longer than ``config.context``.
        """
        new = NewTokens(cache.lengths_B, sizes_B)
        longest = int(new.lengths_B.max())
        if longest > self.config.context:
            raise ValueError(f"{longest} tokens do not fit a context of {self.config.context}")
        filling = (0, rounded_up(len(tokens_P), ROW_MULTIPLE) - len(tokens_P))
        tokens_1P, positions_1P = (functional.pad(ids_P, filling)[None] for ids_P in (tokens_P, new.positions_P))
        x_1PM, turn = self._embed(tokens_1P, positions_1P)
        for block, layer in zip(self.blocks, cache.layers(new), strict=True):
            x_1PM = block(x_1PM, turn, layer)
        cache.lengths_B = new.lengths_B
        return self.norm(x_1PM)[0, : len(tokens_P)]

    @torch.inference_mode()
    def logits(self, x_NM: Tensor) -> Tensor:
        """logits_NV of positions of ``extend``."""
        missing = rounded_up(len(x_NM), ROW_MULTIPLE) - len(x_NM)
        return self.head(functional.pad(x_NM, (0, 0, 0, missing)))[: len(x_NM)]

    @torch.inference_mode()
    def attention_weights(self, tokens_BT: Tensor) -> Iterator[Tensor]:
        """weights_BNTT of each layer, in fp32, for rows of one document each (train/model/attention_weights.py)."""
        x_BTM, turn = self._embed(tokens_BT, torch.arange(tokens_BT.shape[1], device=tokens_BT.device)[None])
        for block in self.blocks:
            kept = KeptWeights()
            x_BTM = block(x_BTM, turn, kept)
            yield kept.weights_BNTT

    def _embed(self, tokens_BT: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        x_BTM = self.embedding(tokens_BT)
        if self.config.positions == "learned":
            return x_BTM + self.positions(positions_BT), None
        return x_BTM, rotation(positions_BT, self.config.head_width, self.config.rope_theta)


def compile_blocks(model: Transformer) -> None:
    """Have torch compile one graph for all layers, at their first call; names and weights stay as they are."""
    for block in model.blocks:
        block.compile()


def initialize(model: Transformer, seed: int) -> None:
    """Set the first weights as GPT-1 and GPT-2 do, the same on every machine and for every number of ranks.

    Matrices and embeddings are normal with standard deviation 0.02; in a pre-norm model those that end in the residual
    stream are scaled by 1/sqrt(2·layers), for the number of additions to it (Radford et al. 2019, section 2.3), which a
    post-norm model normalizes each (2018: 0.02 everywhere). Biases are 0, norms 1. To be called on the CPU, before the
    weights are spread over ranks.
    """
    generator = torch.Generator().manual_seed(seed)
    additions = 2 * model.config.layers if model.config.norm_place == "pre" else 1
    residual = INITIAL_STD / math.sqrt(additions)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                std = residual if name.endswith(("attention.output.weight", "mlp.down.weight")) else INITIAL_STD
                parameter.normal_(0.0, std, generator=generator)
            elif name.endswith("bias"):
                parameter.zero_()
