"""One stack of layers: from the vectors of tokens to those that an output layer, or a decoder, reads.

Shapes: B rows, T positions, P new tokens of all rows, M model width, N query heads.

    x_BTM ── positions ── norm of the embedding ── dropout
        x + mixer(norm(x))           documents do not see each other      │ layers
        x + cross(norm(x))           only in the decoder of two stacks    │ times
        x + mlp(norm(x))             post-norm: norm(x + mlp(x))          │
    norm(x), which ``attended`` leaves to ``normed``
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.model.attention import Attending, BlockAttention, CrossAttending, DenseAttention, WeightRecorder
from headrace.train.model.cache import NewTokens
from headrace.train.model.dropout import EMBEDDING, LAST, Dropping, dropped, of_sequences
from headrace.train.model.layers import Block
from headrace.train.model.norms import build_norm
from headrace.train.model.positions import POSITIONS, Rotation
from headrace.train.model.recurrence import DecoderCache, Past, RowPast
from headrace.train.model.row_parts import ExchangedAttention, RowPart
from headrace.train.model.visibility import (
    OF_STACK,
    Bias,
    LogitMask,
    Visibility,
    block_mask,
    from_head,
    in_layer,
    logit_mask,
    with_prefixes,
    within_documents,
)
from headrace.train.parts import NORM_PLACES, AttentionName
from headrace.train.parts import POSITIONS as POSITION_FACTS
from headrace.train.training_config import AttentionKernel


class Stack(nn.Module):
    """Positions, blocks and the last norm."""

    reads_packed_rows = False
    """True in a training and its validation, whose rows have one length: FlexAttention compiles for each length."""
    attention_kernel: AttentionKernel = "auto"
    """The kernel of FlexAttention."""
    row_part: RowPart | None = None
    """The part of each row that it gets, if several ranks compute a row together."""
    row_keys_B: Tensor | None = None
    """The keys of the rows of the next calls in a training with dropout (dropout.py)."""
    keeps_last = False
    """True where the next calls keep ``last_BTM``, which distillation compares."""
    last_BTM: Tensor | None = None
    """The normalized vectors of the last layer."""

    def __init__(self, config: ModelConfig, embedding: nn.Embedding | None = None) -> None:
        """``embedding`` is the stack's own one; None: it has the vectors of another stack's."""
        super().__init__()
        self.config = config
        if embedding is not None:
            self.embedding = embedding  # the first weight: ``initialize`` draws the weights in this order
        embedding_width = config.embedding_width or config.width
        self.positions = POSITIONS[config.positions](config)
        self.segments = nn.Embedding(config.segments, embedding_width) if config.segments else nn.Identity()
        self.embedding_norm = build_norm(config, embedding_width) if config.embedding_norm else nn.Identity()
        is_narrow = embedding_width != config.width
        self.projection = nn.Linear(embedding_width, config.width) if is_narrow else nn.Identity()
        self.blocks = nn.ModuleList(Block(config, number) for number in range(config.blocks))
        self.norm = build_norm(config) if NORM_PLACES[config.norm_place].at_end else nn.Identity()

    def take_weights(self, other: "Stack") -> None:
        """Makes the weights of the blocks those of ``other``, whose blocks have the same parts, and maybe more."""
        for name, _ in list(self.blocks.named_parameters()):
            module, leaf = name.rsplit(".", 1)
            setattr(self.blocks.get_submodule(module), leaf, other.blocks.get_parameter(name))

    @property
    def layers(self) -> Iterator[nn.Module]:
        """The block of each layer; shared layers have the same one."""
        return itertools.islice(itertools.cycle(self.blocks), self.config.layers)

    def drop(self, x_BTM: Tensor) -> Dropping | None:
        """Returns what is dropped of values like x_BTM; None: nothing."""
        if not (self.training and self.config.dropout):
            return None
        assert self.row_keys_B is not None  # the engine gives them
        first = 0 if self.row_part is None else self.row_part.index * x_BTM.shape[1]
        return Dropping(self.config.dropout, of_sequences(self.row_keys_B, len(x_BTM)), first)

    def embedded(
        self, x_BTM: Tensor, positions_BT: Tensor, segments_BT: Tensor | None = None
    ) -> tuple[Tensor, Mapping[AttentionName, Rotation | None]]:
        """Returns the vectors of tokens at positions, and the rotations of queries and keys by a layer's attention."""
        if self.config.scaled_embedding:
            x_BTM = x_BTM * math.sqrt(self.config.width)
        if self.config.segments:
            x_BTM = x_BTM + self.segments(torch.zeros_like(positions_BT) if segments_BT is None else segments_BT)
        x_BTM, rotation = self.positions(x_BTM, positions_BT)
        thetas = {"full": None, "window": self.config.window_theta}
        rotations = {
            attention: rotation if theta is None else self.positions.rotation(positions_BT, theta)
            for attention, theta in thetas.items()
            if attention in self.config.layer_attention
        }
        x_BTM = self.embedding_norm(x_BTM)
        return self.projection(dropped(self.drop(x_BTM), x_BTM, EMBEDDING)), rotations

    def attended(
        self,
        x_BTM: Tensor,
        positions_BT: Tensor,
        documents_BT: Tensor,
        visibility: Visibility | None = None,
        prefix_BT: Tensor | None = None,
        memory: CrossAttending | None = None,
        segments_BT: Tensor | None = None,
    ) -> Tensor:
        """Returns x_BTM after the blocks.

        Args:
            x_BTM: the vectors of the tokens.
            positions_BT: int64, counted from 0 in each document, below ``config.context``.
            documents_BT: int64 number of the document that a position belongs to, -1 for padding.
            visibility: what positions see in their own document; None: that of ``config.stack``.
            prefix_BT: bool, positions that every position of their document sees in addition.
            memory: the encoder's output, for the decoder of two stacks.
            segments_BT: int64 number of the part of a pair of texts, below ``config.segments``; None: 0.
        """
        x_BTM, rotations = self.embedded(x_BTM, positions_BT, segments_BT)
        seen = visibility or OF_STACK[self.config.stack]
        if prefix_BT is not None:
            seen = with_prefixes(seen, prefix_BT)
        seen = within_documents(seen, documents_BT)
        attendings = self._attendings(seen, documents_BT, x_BTM.dtype)
        parts = zip(self.layers, self.config.layer_attention, attendings, strict=True)
        drop = self.drop(x_BTM)
        for layer, (block, attention, attending) in enumerate(parts, 1):
            drop_of_layer = drop and drop.in_layer(layer)
            x_BTM = block(x_BTM, rotations[attention], attending, memory, drop_of_layer)
        if self.keeps_last:
            self.last_BTM = self.norm(x_BTM)
        return x_BTM

    def recorded(
        self, x_BTM: Tensor, visibility: Visibility, memory: CrossAttending | None = None
    ) -> Iterator[WeightRecorder]:
        """Yields the attention of each layer once it has attended, for rows x_BTM of one document each.

        See ``attended``; ``memory`` may have a recorder of its own, for the attention to an encoder's output.

        Raises:
            ConfigError: for a model without attention.
        """
        if self.config.mixer != "attention":
            problem = f"is {self.config.mixer}, which computes no weights of attention"
            raise ConfigError("model.mixer", problem, "give a model with mixer attention")
        places_BT = x_BTM[:, :, 0]
        x_BTM, rotations = self.embedded(x_BTM, torch.arange(x_BTM.shape[1], device=x_BTM.device)[None])
        layers = zip(self.layers, self.config.layer_attention, self.positions.biases(), strict=True)
        for block, attention, bias in layers:
            recorder = WeightRecorder(self.dense_mask(in_layer(visibility, attention, self.config), bias, places_BT))
            x_BTM = block(x_BTM, rotations[attention], recorder, memory)
            yield recorder

    def extended(
        self, x_PM: Tensor, new: NewTokens, cache: DecoderCache, visibility: Visibility | None = None
    ) -> Tensor:
        """Adds ``new`` tokens with the vectors ``x_PM`` to ``cache`` and returns their normalized x_1PM.

        After the P tokens it has rows of padding, ``new.padding``.
        """
        positions_1P = functional.pad(new.positions_P, new.padding)[None]
        x_1PM, rotations = self.embedded(functional.pad(x_PM, (0, 0, *new.padding))[None], positions_1P)
        layers = cache.layers(new, visibility or OF_STACK[self.config.stack], self.positions.biases())
        parts = zip(self.layers, self.config.layer_attention, layers, cache.memories(new), strict=True)
        for block, attention, layer, memory in parts:
            x_1PM = block(x_1PM, rotations[attention], layer, memory)
        cache.lengths_B = new.lengths_B
        return self.normed(x_1PM)

    def normed(self, x_BTM: Tensor) -> Tensor:
        """Returns the vectors of the last block as an output layer, or a decoder, reads them."""
        drop = self.drop(x_BTM) if "last" in self.config.dropout_places else None
        return dropped(drop, self.norm(x_BTM), LAST)

    def dense_mask(self, visibility: Visibility, bias: Bias | None, tokens_BT: Tensor) -> LogitMask:
        """Returns the mask of all pairs of the positions of ``tokens_BT``."""
        rows, positions = tokens_BT.shape
        queries_1T = torch.arange(positions, device=tokens_BT.device)[None]
        visibility, bias, heads = self._of_own_heads(visibility, bias)
        return logit_mask(visibility, bias, rows, heads, queries_1T, positions, self.config.attention_cap)

    def _attendings(
        self, visibility: Visibility, documents_BT: Tensor, dtype: torch.dtype
    ) -> Iterator[Attending | Past]:
        """Yields how each layer computes attention, or the past of a layer without attention: one for all layers with
        the same mask and bias. A layer's own bias is computed when it is needed and not kept."""
        if self.config.mixer != "attention":
            yield from itertools.repeat(RowPast(documents_BT), self.config.layers)
            return
        made: dict[AttentionName, Attending] = {}
        made_with: Bias | None = None
        for attention, bias in zip(self.config.layer_attention, self.positions.biases(), strict=True):
            if bias is not made_with:
                made, made_with = {}, bias
            if attention not in made:
                seen = in_layer(visibility, attention, self.config)
                made[attention] = self._attending(seen, bias, documents_BT, dtype)
            yield made[attention]

    def _attending(self, visibility: Visibility, bias: Bias | None, tokens_BT: Tensor, dtype: torch.dtype) -> Attending:
        """Chooses how to compute attention of queries of ``dtype``: FlexAttention for packed rows on a GPU, where there
        is no dropout to apply and no bias to learn."""
        learns_bias = POSITION_FACTS[self.config.positions].biases_per_head > 0
        drops = self.training and self.config.dropout
        attending: Attending
        if not (tokens_BT.is_cuda and self.reads_packed_rows) or drops or learns_bias:
            attending = DenseAttention(self.dense_mask(visibility, bias, tokens_BT), dtype)
        else:
            visibility, bias, heads = self._of_own_heads(visibility, bias)
            rows, positions = tokens_BT.shape
            blocks = block_mask(visibility, rows, heads, positions, tokens_BT.device)
            attending = BlockAttention(blocks, bias, self.config.attention_cap, self.attention_kernel)
        return attending if self.row_part is None else ExchangedAttention(attending, self.row_part)

    def _of_own_heads(self, visibility: Visibility, bias: Bias | None) -> tuple[Visibility, Bias | None, int]:
        """Returns visibility, bias and number of the heads that this rank computes."""
        part, heads = self.row_part, self.config.heads
        if part is None:
            return visibility, bias, heads
        number = heads // part.parts
        first = part.index * number
        visibility = dataclasses.replace(visibility, sees=from_head(visibility.sees, first))
        return visibility, None if bias is None else from_head(bias, first), number
