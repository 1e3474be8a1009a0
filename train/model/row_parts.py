"""Several ranks compute one row together, each a part of its positions (DeepSpeed Ulysses, Jacobs et al. 2023).

Shapes: B rows, T positions of a row, R ranks, t = T / R positions of a rank, N query heads, G key heads, n and g those
of a rank, D head width, K chosen positions, P pairs.

    rank 0  x of positions 0 … t-1   all heads ─┐          ┌─ heads 0 … N/R-1  all positions ─┐          ┌─ as
                                                │ exchange │                                  │ exchange │
    rank 1  x of positions t … 2t-1  all heads ─┘          └─ heads N/R … N-1  all positions ─┘          └─ before

Only attention looks at other positions. So each rank has whole attention of its heads between two exchanges, and all
else is computed of its own positions. Documents, masks and biases are those of whole rows. The loss of a rank is that
of its positions; sums over ranks are sums over rows.
"""

import dataclasses
import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from headrace.train.data.batches import IGNORED, Pairs
from headrace.train.model.attention import Attending
from headrace.train.model.dropout import Dropping


@dataclasses.dataclass(frozen=True)
class RowPart:
    """The part of each row that this rank computes."""

    index: int
    parts: int
    group: dist.ProcessGroup
    """The ranks that compute the same rows."""

    def of(self, values_BT: Tensor) -> Tensor:
        """Returns the values at this rank's positions."""
        return values_BT.chunk(self.parts, 1)[self.index]

    def chosen(self, at_BK: Tensor, targets_BK: Tensor, positions: int) -> tuple[Tensor, Tensor]:
        """Returns ``at_BK``, counted from the first of this rank's positions, and ``targets_BK``, ignored elsewhere.

        ``positions`` is the length of a row.
        """
        size = positions // self.parts
        at_BK = at_BK - self.index * size
        is_here_BK = (at_BK >= 0) & (at_BK < size)
        return at_BK.clamp(0, size - 1), torch.where(is_here_BK, targets_BK, IGNORED)


class SplitRows:
    """Calls a model with whole rows, of which it computes this rank's part."""

    def __init__(self, model: nn.Module, part: RowPart) -> None:
        self._model, self._part = model, part

    def __call__(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        documents_BT: Tensor,
        targets_BT: Tensor,
        *,
        at_BK: Tensor | None = None,
        segments_BT: Tensor | None = None,
        pairs: Pairs | None = None,
        **others: Any,
    ) -> Tensor:
        """Returns the sums of ``Transformer.forward`` at this rank's positions."""
        part, positions = self._part, documents_BT.shape[1]
        if at_BK is None:
            targets_BT = part.of(targets_BT)
        else:
            at_BK, targets_BT = part.chosen(at_BK, targets_BT, positions)
        if segments_BT is not None:
            segments_BT = part.of(segments_BT)
        if pairs is not None:
            pairs = Pairs(*part.chosen(pairs.first_BP, pairs.labels_BP, positions))
        of_part = part.of(tokens_BT), part.of(positions_BT), documents_BT, targets_BT
        sums: Tensor = self._model(*of_part, at_BK=at_BK, segments_BT=segments_BT, pairs=pairs, **others)
        return sums


@dataclasses.dataclass(frozen=True)
class ExchangedAttention:
    """Attention of the queries of this rank's positions, computed for a part of the heads at all positions."""

    attending: Attending
    """Attention of N/R heads at all positions."""
    part: RowPart

    def attend(self, q_BNTD: Tensor, k_BGTD: Tensor, v_BGTD: Tensor, drop: Dropping | None) -> Tensor:
        parts = self.part.parts
        times = math.lcm(k_BGTD.shape[1], parts) // k_BGTD.shape[1]
        if times > 1:
            k_BGTD, v_BGTD = (tensor.repeat_interleave(times, dim=1) for tensor in (k_BGTD, v_BGTD))
        by_heads = [exchanged(tensor, self.part.group, 1, 2) for tensor in (q_BNTD, k_BGTD, v_BGTD)]
        q_BnTD, k_BgTD, v_BgTD = by_heads
        drop = drop and dataclasses.replace(drop, first=self.part.index * q_BnTD.shape[1])
        return exchanged(self.attending.attend(q_BnTD, k_BgTD, v_BgTD, drop), self.part.group, 2, 1)


def exchanged(values: Tensor, group: dist.ProcessGroup, split: int, joined: int) -> Tensor:
    """Returns, in the order of the ranks of ``group``, the part of each one's ``values`` that is for this rank.

    Args:
        values: cut into equal parts along the dimension ``split``, one for each rank.
        group: the ranks that exchange.
        split: the dimension that becomes a part.
        joined: the dimension along which the parts received are joined.
    """
    result: Tensor = Exchange.apply(values, group, split, joined)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return result


class Exchange(torch.autograd.Function):
    """An all-to-all. Its gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup, split: int, joined: int) -> Tensor:
        ctx.group, ctx.split, ctx.joined = group, split, joined
        return _all_to_all(values, group, split, joined)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _all_to_all(gradient, ctx.group, ctx.joined, ctx.split), None, None, None


def _all_to_all(values: Tensor, group: dist.ProcessGroup, split: int, joined: int) -> Tensor:
    sent = torch.stack(values.chunk(group.size(), split))
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    return torch.cat(received.unbind(), joined)
