"""KV-cache interface for models without a cache: recomputes every sequence from its start.

Shapes: B rows, T positions, P new tokens of all rows, V vocabulary.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.model.cache import NewTokens
from headrace.train.model.recurrence import DecoderCache
from headrace.train.model.transformer import Transformer


class Model(Protocol):
    """A causal language model: int64 tokens, positions from 0 and document numbers (-1 = padding) → logits_BTV."""

    def __call__(self, tokens_BT: Tensor, positions_BT: Tensor, documents_BT: Tensor) -> Tensor: ...

    def attention_weights(self, tokens_BT: Tensor) -> Iterable[Tensor]:
        """Returns weights_BNTT of each layer: the attention of the query at each position to each key."""
        ...


class Sequences:
    """The cache of a ``Recomputing``: the tokens of each row so far."""

    bytes_per_row = 0

    def __init__(self, tokens_BT: Tensor, lengths_B: Tensor) -> None:
        self.tokens_BT, self.lengths_B = tokens_BT, lengths_B

    def of_rows(self, rows_B: Tensor, tokens: int = 0) -> "Sequences":
        """Returns a cache whose row i continues row ``rows_B[i]`` of this one."""
        return Sequences(self.tokens_BT[rows_B], self.lengths_B[rows_B])


class Recomputing:
    """Gives ``model`` the methods with which a Transformer uses its cache."""

    keeps_prefixes = False
    has_encoder = False

    def __init__(self, model: Model, device: torch.device) -> None:
        self.model, self.device = model, device
        self.context_form = LEFT_TO_RIGHT

    def new_cache(self, rows: int) -> Sequences:
        nothing_BT = torch.zeros((rows, 0), dtype=torch.int64, device=self.device)
        return Sequences(nothing_BT, torch.zeros(rows, dtype=torch.int64, device=self.device))

    @torch.inference_mode()
    def extend(self, cache: Sequences, tokens_P: Tensor, sizes_B: Tensor) -> Tensor:
        """Returns logits_PV after each new token, in the order of the rows."""
        new = NewTokens(cache.lengths_B, sizes_B)
        length = int(new.lengths_B.max())
        tokens_BT = functional.pad(cache.tokens_BT, (0, length - cache.tokens_BT.shape[1]))
        tokens_BT[new.rows_P, new.positions_P] = tokens_P
        positions_T = torch.arange(length, device=self.device)
        documents_BT = torch.where(positions_T < new.lengths_B[:, None], 0, -1)
        logits_BTV = self.model(tokens_BT, positions_T.expand_as(tokens_BT), documents_BT)
        cache.tokens_BT, cache.lengths_B = tokens_BT, new.lengths_B
        return logits_BTV[new.rows_P, new.positions_P]

    read_contexts = extend
    """A model without a cache is causal: a context is read as any other tokens."""

    def logits(self, x_NV: Tensor) -> Tensor:
        return x_NV


Extendable = Transformer | Recomputing
AnyCache = DecoderCache | Sequences


def extendable(model: Model, device: torch.device) -> Extendable:
    """Returns ``model`` itself if it has a KV cache, else a ``Recomputing`` of it."""
    return model if isinstance(model, Transformer) else Recomputing(model, device)
