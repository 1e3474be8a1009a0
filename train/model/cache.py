"""The KV cache: keys and values of the tokens so far, so that the next tokens need not compute them again.

Shapes: B rows, P new tokens of all rows, T at most of one row, S slots, L layers, N query heads, G key/value heads, Q
queries of one such head, D head width.

    slot     0 1 2 3 4 5 6 7       token t of a row is in slot t, whatever the other rows hold
    row 0    k k k k k n n .       k known, n new, . free
    row 1    k k n n n n . .

New tokens go through the layers one row after the other, without padding (n n | n n n n); only attention arranges
them by rows. A token takes 2 · L · G · D values: its keys and its values.

On a CPU the result at a position is the same to the last bit whatever tokens and rows are computed with it, and however
the sequence is divided into known and new tokens. This requires that a row of a matrix product does not depend on the
other rows. With MKL it does not when their number is a multiple of 4 (measured with AVX-512); hence ``ROW_MULTIPLE``.
And a sum must not be split differently when there are more slots; hence ``SLOTS_AT_ONCE``. It does not hold with 3
threads or more, nor in a feed-forward layer whose width is not a multiple of 8: torch computes the ends of a thread's
part with other instructions.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.model.attention import KeysAndValues
from headrace.train.model.dropout import Dropping
from headrace.train.model.visibility import Bias, LogitMask, Visibility, in_layer, logit_mask

ROW_MULTIPLE = 4
"""The number of rows of every matrix product is a multiple of this."""
SLOT_MULTIPLE = 16
"""The number of slots is a multiple of this: the lanes of an fp32 vector, which a softmax sums side by side."""
SLOTS_AT_ONCE = 128
"""Slots that one product sums values over; MKL splits a sum over more than 192 by its length."""
QUERIES_AT_ONCE = 128
"""Queries of a row computed at once: slots after the last of them are not read, and their logits stay in the CPU's
cache."""


def rounded_up(number: int, step: int) -> int:
    """Returns the smallest multiple of ``step`` that is at least ``number``."""
    return -(-number // step) * step


class NewTokens:
    """The positions of new tokens, which are given one row after the other."""

    def __init__(self, lengths_B: Tensor, sizes_B: Tensor) -> None:
        """``lengths_B``: known tokens of each row; ``sizes_B``: its new ones."""
        self.sizes_B = sizes_B
        self.lengths_B = lengths_B + sizes_B
        self.rows_P = torch.repeat_interleave(sizes_B)
        before_P = (sizes_B.cumsum(0) - sizes_B)[self.rows_P]
        self.offsets_P = torch.arange(len(self.rows_P), device=sizes_B.device) - before_P
        self.positions_P = lengths_B[self.rows_P] + self.offsets_P
        self.positions_BT = lengths_B[:, None] + torch.arange(int(sizes_B.max()), device=sizes_B.device)

    @property
    def padding(self) -> tuple[int, int]:
        """The positions before and after the new tokens that make their number a multiple of ``ROW_MULTIPLE``."""
        return 0, rounded_up(len(self.rows_P), ROW_MULTIPLE) - len(self.rows_P)

    def attended(self, q_1NPD: Tensor, mixed: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Returns ``mixed`` of the queries, (1, N, P, D), which it gets arranged by rows, with their positions.

        Positions after the new tokens are padding, and their result is zero.
        """
        rows, longest = self.positions_BT.shape
        q_PND = q_1NPD.transpose(1, 2)[0, : len(self.rows_P)]
        q_BNTD = q_PND.new_zeros(rows, q_PND.shape[1], longest, q_PND.shape[2])
        q_BNTD[self.rows_P, :, self.offsets_P] = q_PND
        mixed_BNTD = torch.empty_like(q_BNTD)
        for start in range(0, longest, QUERIES_AT_ONCE):
            piece = slice(start, start + QUERIES_AT_ONCE)
            mixed_BNTD[:, :, piece] = mixed(q_BNTD[:, :, piece], self.positions_BT[:, piece])
        mixed_NPD = mixed_BNTD[self.rows_P, :, self.offsets_P].transpose(0, 1)
        return functional.pad(mixed_NPD, (0, 0, *self.padding))[None]

    def store(self, slots_BGSD: Tensor, x_1GPD: Tensor) -> None:
        """Writes the keys or values of the new tokens, without padding, to their slots."""
        slots_BGSD[self.rows_P, :, self.positions_P] = x_1GPD.transpose(1, 2)[0, : len(self.rows_P)]


@dataclasses.dataclass(frozen=True)
class LayerCache:
    """One layer's keys and values, with the positions of the new tokens and what they see."""

    keys_BGSD: Tensor
    values_BGSD: Tensor
    new: NewTokens
    visibility: Visibility
    bias: Bias | None
    cap: float | None = None

    def attend(self, q_1NPD: Tensor, k_1GPD: Tensor, v_1GPD: Tensor, drop: Dropping | None) -> Tensor:
        """Stores the new keys and values, and returns what the queries read from all visible ones, (1, N, P, D).

        A cache is for inference and drops nothing.
        """
        self.new.store(self.keys_BGSD, k_1GPD)
        self.new.store(self.values_BGSD, v_1GPD)
        return self.new.attended(q_1NPD, self._mixed)

    def _mixed(self, q_BNTD: Tensor, positions_BT: Tensor) -> Tensor:
        """Returns what the queries at ``positions_BT`` read from the slots that they see."""
        end = self.new.lengths_B.max() if self.visibility.looks_ahead else positions_BT.max() + 1
        slots = min(rounded_up(int(end), SLOT_MULTIPLE), self.keys_BGSD.shape[2])
        keys_BGSD, values_BGSD = self.keys_BGSD[:, :, :slots], self.values_BGSD[:, :, :slots]
        rows, heads = q_BNTD.shape[:2]
        mask = logit_mask(self.visibility, self.bias, rows, heads, positions_BT, slots, self.cap)
        if self.visibility.looks_ahead:  # slots after a row's last token are empty
            filled_B11S = torch.arange(slots, device=q_BNTD.device) < self.new.lengths_B[:, None, None, None]
            mask = dataclasses.replace(mask, visible_BNTS=mask.visible_BNTS & filled_B11S)
        return attended(q_BNTD, keys_BGSD, values_BGSD, mask)


@dataclasses.dataclass(frozen=True)
class CachedEncoderOutput:
    """One layer's keys and values of an encoder's output, which new tokens of the decoder read."""

    keys_BGSD: Tensor
    values_BGSD: Tensor
    lengths_B: Tensor
    """Tokens of each row that the encoder read."""
    new: NewTokens
    cap: float | None = None

    def read(self, q_1NPD: Tensor, keys_and_values: KeysAndValues, drop: Dropping | None) -> Tensor:
        """Returns what the queries read from all tokens of the encoder, (1, N, P, D)."""
        return self.new.attended(q_1NPD, self._mixed)

    def _mixed(self, q_BNTD: Tensor, positions_BT: Tensor) -> Tensor:
        slots = torch.arange(self.keys_BGSD.shape[2], device=q_BNTD.device)
        filled_B11S = slots < self.lengths_B[:, None, None, None]
        return attended(q_BNTD, self.keys_BGSD, self.values_BGSD, LogitMask(filled_B11S, None, self.cap))


def attended(q_BNTD: Tensor, keys_BGSD: Tensor, values_BGSD: Tensor, mask: LogitMask) -> Tensor:
    """Returns what queries read from the slots that ``mask`` shows them."""
    if q_BNTD.is_cuda and mask.cap is None:
        return functional.scaled_dot_product_attention(
            q_BNTD, keys_BGSD, values_BGSD, attn_mask=mask.for_sdpa(q_BNTD.dtype), enable_gqa=True
        )
    return attend_in_order(q_BNTD, keys_BGSD, values_BGSD, mask)


def attend_in_order(q_BNTD: Tensor, keys_BGSD: Tensor, values_BGSD: Tensor, mask: LogitMask) -> Tensor:
    """Returns softmax(q·kᵀ / sqrt(D) + bias) · v, (B, N, T, D); more slots do not change the order of sums."""
    rows, heads, new, width = q_BNTD.shape
    groups, slots = keys_BGSD.shape[1:3]
    q_BGQD = (q_BNTD * width**-0.5).reshape(rows, groups, -1, width)
    queries = q_BGQD.shape[2]
    missing = rounded_up(queries, ROW_MULTIPLE) - queries
    q_BGQD = functional.pad(q_BGQD, (0, 0, 0, missing))
    logits_BGQS = (q_BGQD @ keys_BGSD.transpose(2, 3))[:, :, :queries]
    logits_BNTS = mask.applied(logits_BGQS.reshape(rows, heads, new, slots))
    weights_BGQS = logits_BNTS.softmax(-1).reshape(rows, groups, queries, slots)
    weights_BGQS = functional.pad(weights_BGQS, (0, 0, 0, missing))
    mixed_BGQD = torch.zeros_like(q_BGQD)
    for start in range(0, slots, SLOTS_AT_ONCE):
        piece = slice(start, start + SLOTS_AT_ONCE)
        mixed_BGQD += weights_BGQS[..., piece] @ values_BGSD[:, :, piece]
    return mixed_BGQD[:, :, :queries].reshape(rows, heads, new, width)


class Cache:
    """Keys and values of ``rows`` sequences in a model of shape ``config``; at first there are none."""

    def __init__(self, config: ModelConfig, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.lengths_B = torch.zeros(rows, dtype=torch.int64, device=device)
        shape = (config.layers, 2, rows, config.kv_heads, 0, config.head_width)
        self._slots_L2BGSD = torch.empty(shape, dtype=dtype, device=device)
        self.source: Cache | None = None
        """Keys and values of an encoder's output, for cross-attention."""

    @property
    def capacity_tokens(self) -> int:
        """Slots of each row; the cache grows when more are needed."""
        return self._slots_L2BGSD.shape[4]

    @property
    def bytes_per_row(self) -> int:
        """2 · layers · key/value heads · head width · bytes of a value · slots, and those of the source."""
        size = self._slots_L2BGSD[:, :, 0].numel() * self._slots_L2BGSD.element_size()
        return size if self.source is None else size + self.source.bytes_per_row

    def reserve(self, tokens: int) -> None:
        """Grows to at least ``tokens`` slots in each row."""
        slots = rounded_up(tokens, SLOT_MULTIPLE)
        if slots > self.capacity_tokens:
            self._slots_L2BGSD = functional.pad(self._slots_L2BGSD, (0, 0, 0, slots - self.capacity_tokens))

    def layers(self, new: NewTokens, visibility: Visibility, biases: Sequence[Bias | None]) -> list[LayerCache]:
        """Returns each layer's part, for ``new`` tokens, what they see and each layer's bias."""
        used = int(new.lengths_B.max())
        self.reserve(used)
        slots = rounded_up(used, SLOT_MULTIPLE)
        parts = self._slots_L2BGSD[:, :, :, :, :slots]
        config = self.config
        seen = [in_layer(visibility, attention, config) for attention in config.layer_attention]
        return [
            LayerCache(keys, values, new, seen_in_layer, bias, config.attention_cap)
            for (keys, values), seen_in_layer, bias in zip(parts, seen, biases, strict=True)
        ]

    def read_source(self, new: NewTokens, keys_and_values: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Takes each layer's k_1GPD and v_1GPD of the encoder's output for ``new`` tokens of the encoder."""
        like = self._slots_L2BGSD
        self.source = Cache(self.config, like.shape[2], like.dtype, like.device)
        self.source.reserve(int(new.lengths_B.max()))
        self.source.lengths_B = new.lengths_B
        for (keys_BGSD, values_BGSD), (k_1GPD, v_1GPD) in zip(self.source._slots_L2BGSD, keys_and_values, strict=True):
            new.store(keys_BGSD, k_1GPD)
            new.store(values_BGSD, v_1GPD)

    def memories(self, new: NewTokens) -> Sequence[CachedEncoderOutput | None]:
        """Returns what each layer's cross-attention reads for ``new`` tokens of the decoder; None without a source."""
        source, cap = self.source, self.config.attention_cap
        if source is None:
            return [None] * self.config.layers
        return [CachedEncoderOutput(keys, values, source.lengths_B, new, cap) for keys, values in source._slots_L2BGSD]

    def of_rows(self, rows_B: Tensor, tokens: int = 0) -> "Cache":
        """Returns a cache whose row i continues row ``rows_B[i]`` of this one and has at least ``tokens`` slots."""
        chosen = Cache(self.config, len(rows_B), self._slots_L2BGSD.dtype, self._slots_L2BGSD.device)
        chosen.lengths_B = self.lengths_B[rows_B]
        known = rounded_up(int(chosen.lengths_B.max()), SLOT_MULTIPLE)
        layers, _, _, groups, _, width = self._slots_L2BGSD.shape
        slots = max(known, rounded_up(tokens, SLOT_MULTIPLE))
        slots_L2BGSD = self._slots_L2BGSD.new_empty(layers, 2, len(rows_B), groups, slots, width)
        torch.index_select(self._slots_L2BGSD[..., :known, :], 2, rows_B, out=slots_L2BGSD[..., :known, :])
        slots_L2BGSD[..., known:, :] = 0
        chosen._slots_L2BGSD = slots_L2BGSD
        chosen.source = None if self.source is None else self.source.of_rows(rows_B)
        return chosen


def cache_bytes(config: ModelConfig, tokens: int, value_bytes: int) -> int:
    """Returns the bytes of one sequence's keys and values, or of its state."""
    return config.cache_values(tokens) * value_bytes
