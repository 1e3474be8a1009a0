"""Keys and values of the tokens so far, so that the next tokens need not compute them again (KV cache).

Shapes: B rows, P new tokens of all rows, T at most of one row, S slots, L layers, N query heads, G key/value heads, Q
queries of one such head, D head width.

    slot     0 1 2 3 4 5 6 7       token t of a row lies in slot t, whatever the other rows hold
    row 0    k k k k k n n .       k known, n new, . free
    row 1    k k n n n n . .

New tokens go through the layers one row after the other, without padding (n n | n n n n); attention alone takes them
by rows. A token takes 2 · L · G · D values: its keys and its values. A query sees the slots up to its own position.

What a position computes does not depend, to the last bit on a CPU, on the tokens beside it, on the rows beside it,
nor on what was known and what is new. This holds as far as a row of a matrix product does not depend on the other rows:
with MKL it does not where their number is a multiple of 4 (measured with AVX-512), and a sum must not be split
otherwise when more slots are there; hence ``ROW_MULTIPLE`` and ``SLOTS_AT_ONCE``. Not so from 3 threads on, nor in a
feed-forward layer whose width is no multiple of 8: torch computes the ends of what a thread gets by other instructions.
"""

import torch
from torch import Tensor
from torch.nn import functional

from headrace.train.config import ModelConfig

ROW_MULTIPLE = 4
"""Every matrix product gets a multiple of so many rows."""
SLOT_MULTIPLE = 16
"""Slots are added by so many: the lanes of a vector of fp32, which a softmax sums side by side."""
SLOTS_AT_ONCE = 128
"""Values are summed over so many slots in one product; MKL splits a sum over more than 192 by its length."""
QUERIES_AT_ONCE = 128
"""So many queries of a row at once: slots behind them need not be looked at, and their scores stay near the core."""


def rounded_up(number: int, step: int) -> int:
    """The multiple of ``step`` from ``number`` on."""
    return -(-number // step) * step


class NewTokens:
    """Where new tokens belong, those of one row after those of the other."""

    def __init__(self, lengths_B: Tensor, sizes_B: Tensor) -> None:
        """``lengths_B``: tokens known of each row; ``sizes_B``: new ones."""
        self.lengths_B = lengths_B + sizes_B
        self.rows_P = torch.repeat_interleave(sizes_B)
        before_P = (sizes_B.cumsum(0) - sizes_B)[self.rows_P]
        self.offsets_P = torch.arange(len(self.rows_P), device=sizes_B.device) - before_P
        self.positions_P = lengths_B[self.rows_P] + self.offsets_P
        self.positions_BT = lengths_B[:, None] + torch.arange(int(sizes_B.max()), device=sizes_B.device)


class LayerCache:
    """One layer's keys and values, and where the new ones belong: what attention has instead of a mask."""

    def __init__(self, keys_BGSD: Tensor, values_BGSD: Tensor, new: NewTokens) -> None:
        self.keys_BGSD, self.values_BGSD, self.new = keys_BGSD, values_BGSD, new

    def attend(self, q_1NPD: Tensor, k_1GPD: Tensor, v_1GPD: Tensor) -> Tensor:
        """Keep the new keys and values -> what the queries make of all up to their positions (1, N, P, D).

        What lies behind the new tokens fills up to ``ROW_MULTIPLE``: it is kept nowhere and becomes zeros.
        """
        new, tokens = self.new, len(self.new.rows_P)
        q_PND, k_PGD, v_PGD = (x.transpose(1, 2)[0, :tokens] for x in (q_1NPD, k_1GPD, v_1GPD))
        self.keys_BGSD[new.rows_P, :, new.positions_P] = k_PGD
        self.values_BGSD[new.rows_P, :, new.positions_P] = v_PGD
        rows, longest = new.positions_BT.shape
        q_BNTD = q_PND.new_zeros(rows, q_PND.shape[1], longest, q_PND.shape[2])
        q_BNTD[new.rows_P, :, new.offsets_P] = q_PND
        mixed_BNTD = torch.empty_like(q_BNTD)
        for start in range(0, longest, QUERIES_AT_ONCE):
            here = slice(start, start + QUERIES_AT_ONCE)
            mixed_BNTD[:, :, here] = self._mixed(q_BNTD[:, :, here], new.positions_BT[:, here])
        mixed_NPD = mixed_BNTD[new.rows_P, :, new.offsets_P].transpose(0, 1)
        return functional.pad(mixed_NPD, (0, 0, 0, q_1NPD.shape[2] - tokens))[None]

    def _mixed(self, q_BNTD: Tensor, positions_BT: Tensor) -> Tensor:
        """What queries at ``positions_BT`` make of the slots that they see."""
        seen = rounded_up(int(positions_BT.max()) + 1, SLOT_MULTIPLE)
        keys_BGSD, values_BGSD = self.keys_BGSD[:, :, :seen], self.values_BGSD[:, :, :seen]
        sees_BTS = torch.arange(keys_BGSD.shape[2], device=q_BNTD.device) <= positions_BT[:, :, None]
        if q_BNTD.is_cuda:
            return functional.scaled_dot_product_attention(
                q_BNTD, keys_BGSD, values_BGSD, attn_mask=sees_BTS[:, None], enable_gqa=True
            )
        return attend_in_order(q_BNTD, keys_BGSD, values_BGSD, sees_BTS)


def attend_in_order(q_BNTD: Tensor, keys_BGSD: Tensor, values_BGSD: Tensor, sees_BTS: Tensor) -> Tensor:
    """softmax(q·kᵀ / sqrt(D)) · v -> (B, N, T, D), summed over slots in an order that their number does not change."""
    rows, heads, new, width = q_BNTD.shape
    groups, slots = keys_BGSD.shape[1:3]
    q_BGQD = (q_BNTD * width**-0.5).reshape(rows, groups, -1, width)
    queries = q_BGQD.shape[2]
    missing = rounded_up(queries, ROW_MULTIPLE) - queries
    q_BGQD = functional.pad(q_BGQD, (0, 0, 0, missing))
    scores_BGQS = (q_BGQD @ keys_BGSD.transpose(2, 3))[:, :, :queries]
    scores_BNTS = scores_BGQS.reshape(rows, heads, new, slots).masked_fill_(~sees_BTS[:, None], -torch.inf)
    weights_BGQS = scores_BNTS.softmax(-1).reshape(rows, groups, queries, slots)
    weights_BGQS = functional.pad(weights_BGQS, (0, 0, 0, missing))
    mixed_BGQD = torch.zeros_like(q_BGQD)
    for start in range(0, slots, SLOTS_AT_ONCE):
        here = slice(start, start + SLOTS_AT_ONCE)
        mixed_BGQD += weights_BGQS[..., here] @ values_BGSD[:, :, here]
    return mixed_BGQD[:, :, :queries].reshape(rows, heads, new, width)


class Cache:
    """What a model of shape ``config`` knows of ``rows`` sequences, at first nothing."""

    def __init__(self, config: ModelConfig, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.lengths_B = torch.zeros(rows, dtype=torch.int64, device=device)
        shape = (config.layers, 2, rows, config.kv_heads, 0, config.head_width)
        self._held_L2BGSD = torch.empty(shape, dtype=dtype, device=device)

    @property
    def room_tokens(self) -> int:
        """Slots of each row; more are made when they are needed."""
        return self._held_L2BGSD.shape[4]

    @property
    def bytes_per_row(self) -> int:
        """2 · layers · key/value heads · head width · bytes of a value · slots."""
        return self._held_L2BGSD[:, :, 0].numel() * self._held_L2BGSD.element_size()

    def make_room(self, tokens: int) -> None:
        """Have slots for ``tokens`` tokens of each row."""
        slots = rounded_up(tokens, SLOT_MULTIPLE)
        if slots > self.room_tokens:
            self._held_L2BGSD = functional.pad(self._held_L2BGSD, (0, 0, 0, slots - self.room_tokens))

    def layers(self, new: NewTokens) -> list[LayerCache]:
        """Each layer's part, for ``new`` tokens."""
        used = int(new.lengths_B.max())
        self.make_room(used)
        slots = rounded_up(used, SLOT_MULTIPLE)
        return [LayerCache(keys, values, new) for keys, values in self._held_L2BGSD[:, :, :, :, :slots]]

    def of_rows(self, rows_B: Tensor, tokens: int = 0) -> "Cache":
        """A cache whose row i goes on from row ``rows_B[i]`` of this one, with slots for ``tokens`` tokens of each."""
        chosen = Cache(self.config, len(rows_B), self._held_L2BGSD.dtype, self._held_L2BGSD.device)
        chosen.lengths_B = self.lengths_B[rows_B]
        known = rounded_up(int(chosen.lengths_B.max()), SLOT_MULTIPLE)
        layers, _, _, groups, _, width = self._held_L2BGSD.shape
        slots = max(known, rounded_up(tokens, SLOT_MULTIPLE))
        held_L2BGSD = self._held_L2BGSD.new_empty(layers, 2, len(rows_B), groups, slots, width)
        torch.index_select(self._held_L2BGSD[..., :known, :], 2, rows_B, out=held_L2BGSD[..., :known, :])
        held_L2BGSD[..., known:, :] = 0
        chosen._held_L2BGSD = held_L2BGSD
        return chosen


def cache_bytes(config: ModelConfig, tokens: int, value_bytes: int) -> int:
    """Bytes of the keys and values of one sequence: 2 · layers · key/value heads · head width · bytes · tokens."""
    return 2 * config.layers * config.kv_heads * config.head_width * value_bytes * tokens
