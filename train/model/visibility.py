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
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from headrace.train.model.compilation import compiled

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


def within_documents(visibility: Visibility, documents_BT: Tensor) -> Visibility:
    """Returns ``visibility`` limited to keys of the query's own document."""
    sees_in_row = visibility.sees

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return sees_in_row(row, head, query, key) & (documents_BT[row, query] == documents_BT[row, key])

    return dataclasses.replace(visibility, sees=sees)


@dataclasses.dataclass(frozen=True)
class LogitMask:
    """A visibility and a bias, evaluated for all pairs of some queries and keys."""

    visible_BNTS: Tensor
    """bool; dimensions of size 1 broadcast."""
    bias_BNTS: Tensor | None
    """fp32; None adds nothing."""

    def applied(self, logits_BNTS: Tensor) -> Tensor:
        """Adds the bias and sets -inf where a key is not visible; may change ``logits_BNTS`` in place."""
        if self.bias_BNTS is not None:
            logits_BNTS = logits_BNTS + self.bias_BNTS.to(logits_BNTS.dtype)
        return logits_BNTS.masked_fill_(~self.visible_BNTS, -torch.inf)

    def for_sdpa(self, dtype: torch.dtype) -> Tensor:
        """Returns the ``attn_mask`` of PyTorch's scaled_dot_product_attention for queries of ``dtype``."""
        if self.bias_BNTS is None:
            return self.visible_BNTS
        return self.bias_BNTS.to(dtype).masked_fill(~self.visible_BNTS, -torch.inf)


def logit_mask(
    visibility: Visibility, bias: Bias | None, rows: int, heads: int, queries_BT: Tensor, keys: int
) -> LogitMask:
    """Evaluates ``visibility`` and ``bias`` for the queries at the indices ``queries_BT`` and keys 0 to ``keys`` - 1.

    ``queries_BT`` has one row for each row of the batch, or one for all of them.
    """
    row_B111, head_N11, key_S = (torch.arange(n, device=queries_BT.device) for n in (rows, heads, keys))
    indices = (row_B111[:, None, None, None], head_N11[:, None, None], queries_BT[:, None, :, None], key_S)
    return LogitMask(visibility.sees(*indices), None if bias is None else bias(*indices))


def block_mask(visibility: Visibility, rows: int, heads: int, positions: int, device: torch.device) -> BlockMask:
    """Returns which blocks of 128 x 128 pairs FlexAttention (Dong et al. 2024) has to compute: the empty ones are
    skipped. Tensors that ``visibility`` captures are inputs of its kernel: other documents need no other kernel."""
    mask_heads = heads if visibility.by_head else None
    return compiled(create_block_mask)(visibility.sees, rows, mask_heads, positions, positions, device=str(device))


def score_mod(bias: Bias | None) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None:
    """Returns the function of scores with which FlexAttention adds ``bias``."""
    if bias is None:
        return None
    return lambda score, row, head, query, key: score + bias(row, head, query, key).to(score.dtype)
