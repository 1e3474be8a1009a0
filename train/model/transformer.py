"""The Transformer stack, in the order of the papers: embed, L times (attend, transform), normalize, predict.

Shapes: B rows, T positions, P new tokens of all rows, M model width, N query heads or positions, V vocabulary.

    tokens_BT ── embedding ── positions ──> x_BTM
        x + attention(norm(x))       documents do not see each other      │ layers
        x + mlp(norm(x))             post-norm: norm(x + mlp(x))          │ times
    norm(x) ── head (the embedding again when tied) ──> logits_BTV

GPT-2 (Radford et al. 2019): learned positions, LayerNorm, GELU, biases, tied. LLaMA (Touvron et al. 2023): RoPE,
RMSNorm, SwiGLU, no biases. GPT-1 (Radford et al. 2018): as GPT-2, but post-norm and without a last norm.
The vocabulary gets no padding rows: a multiple of 64 tokens is faster on a GPU.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.model.attention import Attending, BlockAttention, DenseAttention, WeightRecorder
from headrace.train.model.cache import ROW_MULTIPLE, Cache, NewTokens, rounded_up
from headrace.train.model.head import Head
from headrace.train.model.layers import Block, build_norm
from headrace.train.model.positions import POSITIONS
from headrace.train.model.visibility import (
    CAUSAL,
    LogitMask,
    Visibility,
    block_mask,
    logit_mask,
    within_documents,
)

INITIAL_STD = 0.02
"""Standard deviation of the first weights (Radford et al. 2018, section 4.1)."""


class Transformer(nn.Module):
    """One stack of Transformer layers between an embedding and an output layer."""

    keeps_prefixes = True
    """A cache of a prefix saves its computation. A model without a cache has False here (recomputing.py)."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.positions = POSITIONS[config.positions](config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = build_norm(config) if config.norm_place == "pre" else nn.Identity()
        self.head = Head(config.width, vocabulary)
        if config.tied:
            self.head.weight = self.embedding.weight

    def forward(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        documents_BT: Tensor,
        targets_BT: Tensor | None = None,
        visibility: Visibility = CAUSAL,
    ) -> Tensor:
        """Returns logits_BTV in the dtype of the weights; with targets the sum of their -ln p in fp32 nats, a scalar.

        Args:
            tokens_BT: int64 token ids.
            positions_BT: int64, counted from 0 in each document, below ``config.context``.
            documents_BT: int64 number of the document that a position belongs to, -1 for padding.
            targets_BT: int64 token that each position has to predict, -100 for none.
            visibility: what positions see in their own document.
        """
        x_BTM, rotation = self.positions(self.embedding(tokens_BT), positions_BT)
        attending = self._attending(within_documents(visibility, documents_BT), documents_BT)
        x_BTM = self.dropout(x_BTM)
        for block in self.blocks:
            x_BTM = block(x_BTM, rotation, attending)
        output: Tensor = self.head(self.norm(x_BTM), targets_BT)
        return output

    def new_cache(self, rows: int) -> Cache:
        """Returns a cache of ``rows`` sequences, all empty."""
        weight = self.embedding.weight
        return Cache(self.config, rows, weight.dtype, weight.device)

    @torch.inference_mode()
    def extend(self, cache: Cache, tokens_P: Tensor, sizes_B: Tensor, visibility: Visibility = CAUSAL) -> Tensor:
        """Adds tokens to ``cache`` and returns x_PM, from which ``logits`` computes the logits after each new token.

        Args:
            cache: keys and values of each row so far.
            tokens_P: int64 ids of the new tokens, those of one row after those of the other.
            sizes_B: int64, how many new tokens each row has.
            visibility: what tokens see in their own row. One that looks ahead sees only tokens that the cache holds.

        Raises:
            ValueError: when a row gets longer than ``config.context``.
        """
        new = NewTokens(cache.lengths_B, sizes_B)
        longest = int(new.lengths_B.max())
        if longest > self.config.context:
            raise ValueError(f"{longest} tokens do not fit a context of {self.config.context}")
        filling = (0, rounded_up(len(tokens_P), ROW_MULTIPLE) - len(tokens_P))
        tokens_1P, positions_1P = (functional.pad(ids_P, filling)[None] for ids_P in (tokens_P, new.positions_P))
        x_1PM, rotation = self.positions(self.embedding(tokens_1P), positions_1P)
        layers = cache.layers(new, visibility, self.positions.bias())
        for block, layer in zip(self.blocks, layers, strict=True):
            x_1PM = block(x_1PM, rotation, layer)
        cache.lengths_B = new.lengths_B
        normed_1PM: Tensor = self.norm(x_1PM)
        return normed_1PM[0, : len(tokens_P)]

    @torch.inference_mode()
    def logits(self, x_NM: Tensor) -> Tensor:
        """Returns logits_NV of positions of ``extend``."""
        missing = rounded_up(len(x_NM), ROW_MULTIPLE) - len(x_NM)
        logits_NV: Tensor = self.head(functional.pad(x_NM, (0, 0, 0, missing)))
        return logits_NV[: len(x_NM)]

    @torch.inference_mode()
    def attention_weights(self, tokens_BT: Tensor, visibility: Visibility = CAUSAL) -> Iterator[Tensor]:
        """Yields weights_BNTT of each layer, in fp32, for rows of one document each."""
        positions_1T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)[None]
        x_BTM, rotation = self.positions(self.embedding(tokens_BT), positions_1T)
        mask = self._dense_mask(visibility, tokens_BT)
        for block in self.blocks:
            recorder = WeightRecorder(mask)
            x_BTM = block(x_BTM, rotation, recorder)
            yield recorder.weights_BNTT

    def _attending(self, visibility: Visibility, tokens_BT: Tensor) -> Attending:
        """Chooses how to compute attention: FlexAttention on a GPU in training, where it has no dropout to apply."""
        if not (tokens_BT.is_cuda and self.training and not self.config.dropout):
            return DenseAttention(self._dense_mask(visibility, tokens_BT))
        (rows, positions), heads = tokens_BT.shape, self.config.heads
        return BlockAttention(block_mask(visibility, rows, heads, positions, tokens_BT.device), self.positions.bias())

    def _dense_mask(self, visibility: Visibility, tokens_BT: Tensor) -> LogitMask:
        rows, positions = tokens_BT.shape
        queries_1T = torch.arange(positions, device=tokens_BT.device)[None]
        return logit_mask(visibility, self.positions.bias(), rows, self.config.heads, queries_1T, positions)


def compile_blocks(model: Transformer) -> None:
    """Compiles one graph for all layers with torch.compile at their first call. Names and weights do not change."""
    for block in model.blocks:
        block.compile()


def initialize(model: Transformer, seed: int) -> None:
    """Sets the first weights as GPT-1 and GPT-2 do, the same on every machine and for every number of ranks.

    Matrices and embeddings are normal with standard deviation 0.02. In a pre-norm model the matrices that end in the
    residual stream are scaled by 1/sqrt(2·layers), for the number of additions to it (Radford et al. 2019, section
    2.3). A post-norm model normalizes each addition and has 0.02 everywhere (2018). Biases are 0, norms 1. Call it on
    the CPU, before the weights are spread over ranks.
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
