"""The two inputs of attention besides queries, keys and values: who sees whom, and what is added to the logits.

Shapes: B rows, N query heads, T queries, S keys.

    documents_T   0 0 0 1 1 -1          visible_TT   1 . . . . .        causal, within documents
                                                     1 1 . . . .
    (-1 is padding: it sees only                     1 1 1 . . .
     padding, and nothing sees it)                   . . . 1 . .
                                                     . . . 1 1 .
                                                     . . . . . 1

Both are functions of four indices: row, head, query and key. This module lowers them to what computes attention: a
dense mask (also for the KV cache, whose queries begin later than its keys), or FlexAttention's mask of blocks and
function of scores. No other module knows the formulas.
"""

import dataclasses
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from headrace.train.model.compilation import compiled
from headrace.train.model_shape import ModelShape
from headrace.train.parts import AttentionName, StackName

OfIndices = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A function of row, head, query and key: int64 tensors that broadcast."""
Bias = OfIndices
"""The value that is added to each logit before the softmax."""


@dataclasses.dataclass(frozen=True)
class Visibility:
    """The keys that each query may see."""

    sees: OfIndices
    """True where the query sees the key."""
    looks_ahead: bool = False
    """Whether a query may see keys at higher indices than its own; a KV cache reads fewer keys otherwise."""
    by_head: bool = False
    """Whether heads differ in what they see. FlexAttention evaluates one mask for all heads otherwise."""


def _causal(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return key <= query


CAUSAL = Visibility(_causal)
"""A query sees the keys up to its own index (Radford et al. 2018)."""


def _all(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query >= 0) & (key >= 0)


BIDIRECTIONAL = Visibility(_all, looks_ahead=True)
"""A query sees all keys (Devlin et al. 2019)."""
OF_STACK: Mapping[StackName, Visibility] = {
    "decoder": CAUSAL,
    "encoder": BIDIRECTIONAL,
    "discriminator": BIDIRECTIONAL,
    "encoder_decoder": CAUSAL,
}
"""The visibility of each stack, unless the caller chooses another; of an encoder–decoder, that of its decoder."""


def with_prefixes(visibility: Visibility, prefix_BT: Tensor) -> Visibility:
    """Returns ``visibility`` extended by the keys where ``prefix_BT``, bool, is true: every query sees them."""
    sees_in_row = visibility.sees

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return sees_in_row(row, head, query, key) | prefix_BT[row, key]

    return dataclasses.replace(visibility, sees=sees, looks_ahead=True)


def within_documents(visibility: Visibility, documents_BT: Tensor) -> Visibility:
    """Returns ``visibility`` limited to keys of the query's own document."""
    sees_in_row = visibility.sees

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return sees_in_row(row, head, query, key) & (documents_BT[row, query] == documents_BT[row, key])

    return dataclasses.replace(visibility, sees=sees)


def of_own_source(documents_BT: Tensor, source_documents_BS: Tensor) -> Visibility:
    """Returns the visibility of an encoder's positions for a decoder's queries: those of the query's own document.

    Padding of the decoder sees all of them, because a row of the encoder may be without padding, and the softmax needs
    a key.
    """

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        document = documents_BT[row, query]
        return (document == source_documents_BS[row, key]) | (document < 0)

    return Visibility(sees, looks_ahead=True)


def in_layer(visibility: Visibility, attention: AttentionName, shape: ModelShape) -> Visibility:
    """Returns ``visibility`` in a layer of this ``attention``: one with a window sees only keys at distances below it,
    ``window`` tokens with a causal mask (Child et al. 2019; Beltagy et al. 2020)."""
    if attention == "full" or shape.window is None:
        return visibility
    sees_in_row, window = visibility.sees, shape.window

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return sees_in_row(row, head, query, key) & ((query - key).abs() < window)

    return dataclasses.replace(visibility, sees=sees)


def from_head(function: OfIndices, first: int) -> OfIndices:
    """Returns ``function`` with heads counted from ``first``."""
    return lambda row, head, query, key: function(row, head + first, query, key)


def capped(logits: Tensor, cap: float) -> Tensor:
    """Returns cap · tanh(logits / cap), which lies between -cap and cap (Gemma Team 2024, section 2)."""
    return cap * torch.tanh(logits / cap)


@dataclasses.dataclass(frozen=True)
class LogitMask:
    """A visibility and a bias, evaluated for all pairs of some queries and keys, and a cap of the logits."""

    visible_BNTS: Tensor
    """bool; dimensions of size 1 broadcast."""
    bias_BNTS: Tensor | None
    """fp32; None adds nothing."""
    cap: float | None = None
    """The bound of logits before the bias is added; None: there is none."""

    def applied(self, logits_BNTS: Tensor) -> Tensor:
        """Caps logits, adds the bias and sets -inf where a key is not visible; may change ``logits_BNTS`` in place."""
        if self.cap is not None:
            logits_BNTS = capped(logits_BNTS, self.cap)
        if self.bias_BNTS is not None:
            logits_BNTS = logits_BNTS + self.bias_BNTS.to(logits_BNTS.dtype)
        return logits_BNTS.masked_fill_(~self.visible_BNTS, -torch.inf)

    def for_sdpa(self, dtype: torch.dtype) -> Tensor:
        """Returns the ``attn_mask`` of PyTorch's scaled_dot_product_attention, which has no cap, for queries of
        ``dtype``."""
        if self.bias_BNTS is None:
            return self.visible_BNTS
        return self.bias_BNTS.to(dtype).masked_fill(~self.visible_BNTS, -torch.inf)


def logit_mask(
    visibility: Visibility,
    bias: Bias | None,
    rows: int,
    heads: int,
    queries_BT: Tensor,
    keys: int,
    cap: float | None = None,
) -> LogitMask:
    """Evaluates ``visibility`` and ``bias`` for the queries at the indices ``queries_BT`` and keys 0 to ``keys`` - 1.

    ``queries_BT`` has one row for each row of the batch, or one for all of them.
    """
    row_B111, head_N11, key_S = (torch.arange(n, device=queries_BT.device) for n in (rows, heads, keys))
    indices = (row_B111[:, None, None, None], head_N11[:, None, None], queries_BT[:, None, :, None], key_S)
    return LogitMask(visibility.sees(*indices), None if bias is None else bias(*indices), cap)


def block_mask(visibility: Visibility, rows: int, heads: int, positions: int, device: torch.device) -> BlockMask:
    """Returns which blocks of 128 x 128 pairs FlexAttention (Dong et al. 2024) has to compute: the empty ones are
    skipped. Tensors that ``visibility`` captures are inputs of its kernel: other documents need no other kernel."""
    mask_heads = heads if visibility.by_head else None
    return compiled(create_block_mask)(visibility.sees, rows, mask_heads, positions, positions, device=str(device))


def score_mod(
    bias: Bias | None, cap: float | None = None
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None:
    """Returns the function of scores with which FlexAttention caps logits and adds ``bias``."""
    if bias is None and cap is None:
        return None

    def changed(score: Tensor, row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if cap is not None:
            score = capped(score, cap)
        return score if bias is None else score + bias(row, head, query, key).to(score.dtype)

    return changed
