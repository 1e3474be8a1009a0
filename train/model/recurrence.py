"""The past of each position in models without attention: what a recurrent layer or a window has read before it.

Shapes: B rows, T positions, N = B · T positions of all rows, P new tokens of all rows, W tokens of a window, E
documents, L layers, M model width, S values of a layer's state.

    RowPast       documents in packed rows, each from a state of zeros      training, validation
    CachedPast    the state after the tokens so far                         inference

A state is the vectors h, in an LSTM also c, or the last W - 1 vectors that a window reads. It does not grow with the
text.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from headrace.train.config import ModelConfig
from headrace.train.model.cache import ROW_MULTIPLE, Cache, NewTokens, rounded_up
from headrace.train.model.visibility import Bias, Visibility


class Past(Protocol):
    """RowPast or CachedPast."""

    def recurred(self, x_BTM: Tensor, cells: nn.RNNBase) -> Tensor:
        """Returns the outputs of ``cells``, which have one layer and rows first, (B, T, M)."""
        ...

    def windows(self, x_BTM: Tensor, window: int) -> Tensor:
        """Returns the vectors of the last ``window`` tokens of each position, x_BTWM, zeros before the first token."""
        ...


class RowPast:
    """Documents in packed rows; a run of padding is like a document of its own."""

    def __init__(self, documents_BT: Tensor) -> None:
        """``documents_BT``: int64 number of the document that a position belongs to."""
        begins_BT = torch.ones_like(documents_BT, dtype=torch.bool)
        begins_BT[:, 1:] = documents_BT[:, 1:] != documents_BT[:, :-1]
        begins_N = begins_BT.flatten()
        document_N = begins_N.cumsum(0) - 1
        self._offsets_N = torch.arange(len(begins_N), device=begins_N.device) - begins_N.nonzero()[document_N, 0]
        rank_E = document_N.bincount().argsort(descending=True, stable=True).argsort()
        self._order_N = (self._offsets_N * len(rank_E) + rank_E[document_N]).argsort()
        self._place_N = self._order_N.argsort()
        self._batch_sizes_T = self._offsets_N.bincount().cpu()

    def recurred(self, x_BTM: Tensor, cells: nn.RNNBase) -> Tensor:
        """Calls ``cells`` with the first tokens of all documents, then with the second ones, and so on: as many steps
        as the longest document has tokens, and no padding."""
        sorted_NM = x_BTM.flatten(0, 1).index_select(0, self._order_N)
        output, _ = cells(PackedSequence(sorted_NM, self._batch_sizes_T))
        output_NM: Tensor = output.data
        return output_NM.index_select(0, self._place_N).view(x_BTM.shape)

    def windows(self, x_BTM: Tensor, window: int) -> Tensor:
        x_NM = functional.pad(x_BTM.flatten(0, 1), (0, 0, 1, 0))  # row 0 is zeros: what is before a document
        back_W = torch.arange(window - 1, -1, -1, device=x_BTM.device)
        index_NW = torch.arange(1, len(x_NM), device=x_BTM.device)[:, None] - back_W
        index_NW = torch.where(self._offsets_N[:, None] >= back_W, index_NW, 0)
        return x_NM.index_select(0, index_NW.flatten()).view(*x_BTM.shape[:2], window, -1)


@dataclasses.dataclass(frozen=True)
class CachedPast:
    """One layer's state after the tokens so far, which ``new`` tokens change in place."""

    states_BS: Tensor
    new: NewTokens

    def recurred(self, x_BTM: Tensor, cells: nn.RNNBase) -> Tensor:
        """Computes one position of all rows after the other: no bit of a row depends on how long the others are."""
        x_BTM, states_BS = self._rows(x_BTM), self._rows_of(self.states_BS)
        outputs_BTM = torch.empty_like(x_BTM)
        for step in range(x_BTM.shape[1]):
            outputs_BTM[:, step : step + 1], state = cells(x_BTM[:, step : step + 1], _state(states_BS, cells))
            after_BS = torch.cat(state, -1)[0] if isinstance(state, tuple) else state[0]
            is_new_B = self._rows_of(self.new.sizes_B) > step
            states_BS = torch.where(is_new_B[:, None], after_BS, states_BS)
        self.states_BS.copy_(states_BS[: len(self.states_BS)])
        return self._in_order(outputs_BTM)

    def windows(self, x_BTM: Tensor, window: int) -> Tensor:
        x_BTM = self._rows(x_BTM)
        before_BWM = self._rows_of(self.states_BS).view(len(x_BTM), window - 1, -1)
        all_BTM = torch.cat((before_BWM, x_BTM), 1)
        last_BW = self._rows_of(self.new.sizes_B)[:, None] + torch.arange(window - 1, device=x_BTM.device)
        rows_B1 = torch.arange(len(x_BTM), device=x_BTM.device)[:, None]
        self.states_BS.copy_(all_BTM[rows_B1, last_BW].flatten(1)[: len(self.states_BS)])
        windows_BTMW = all_BTM.unfold(1, window, 1)
        return self._in_order(windows_BTMW.transpose(2, 3))

    def _rows(self, x_1PM: Tensor) -> Tensor:
        """Returns the vectors of the new tokens by rows, x_BTM, whose rows are padded to a multiple."""
        new = self.new
        rows = rounded_up(len(new.sizes_B), ROW_MULTIPLE)
        x_BTM = x_1PM.new_zeros(rows, new.positions_BT.shape[1], x_1PM.shape[2])
        x_BTM[new.rows_P, new.offsets_P] = x_1PM[0, : len(new.rows_P)]
        return x_BTM

    def _rows_of(self, values_B: Tensor) -> Tensor:
        """Returns values of rows, padded to the same multiple."""
        missing = rounded_up(len(values_B), ROW_MULTIPLE) - len(values_B)
        return functional.pad(values_B, (0, 0) * (values_B.dim() - 1) + (0, missing))

    def _in_order(self, values_BT: Tensor) -> Tensor:
        """Returns values of the new tokens one row after the other, (1, P, …), with the padding of ``new``."""
        values_P = values_BT[self.new.rows_P, self.new.offsets_P]
        return functional.pad(values_P, (0, 0) * (values_P.dim() - 1) + self.new.padding)[None]


def _state(states_BS: Tensor, cells: nn.RNNBase) -> Any:
    """Returns the state in the form of ``cells``."""
    if not isinstance(cells, nn.LSTM):
        return states_BS[None]
    return tuple(part_BM.contiguous() for part_BM in states_BS[None].chunk(2, -1))


class StateCache:
    """The states of ``rows`` sequences in a model without attention; at first they are zeros."""

    def __init__(self, config: ModelConfig, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        self.lengths_B = torch.zeros(rows, dtype=torch.int64, device=device)
        shape = (config.layers, rows, config.layer_state_values)
        self._states_LBS = torch.zeros(shape, dtype=dtype, device=device)

    @property
    def bytes_per_row(self) -> int:
        """Layers · values of a state · bytes of a value, for any number of tokens."""
        return self._states_LBS[:, 0].numel() * self._states_LBS.element_size()

    def layers(self, new: NewTokens, visibility: Visibility, biases: Sequence[Bias | None]) -> list[CachedPast]:
        """Returns each layer's state, for ``new`` tokens, which see all tokens before them."""
        return [CachedPast(states_BS, new) for states_BS in self._states_LBS]

    def memories(self, new: NewTokens) -> Sequence[None]:
        """Returns None for each layer: there is no encoder."""
        return [None] * self.config.layers

    def of_rows(self, rows_B: Tensor, tokens: int = 0) -> "StateCache":
        """Returns a cache whose row i continues row ``rows_B[i]`` of this one."""
        states_LBS = self._states_LBS[:, rows_B]
        chosen = StateCache(self.config, len(rows_B), states_LBS.dtype, states_LBS.device)
        chosen.lengths_B, chosen._states_LBS = self.lengths_B[rows_B], states_LBS
        return chosen


DecoderCache = Cache | StateCache


def empty_cache(config: ModelConfig, rows: int, like: Tensor) -> DecoderCache:
    """Returns the cache of ``rows`` empty sequences, with the dtype and device of ``like``."""
    kind = Cache if config.mixer == "attention" else StateCache
    return kind(config, rows, like.dtype, like.device)
