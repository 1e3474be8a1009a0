"""Torch's interface of optimizers whose update of a value depends on other values of the same parameter.

ZeRO gives an optimizer flat tensors: parameters one after the other, of which this rank has a part. A part may begin
and end inside a parameter:

    parameters    embedding ........... | qkv ........ | output ..... |
    rank 0        [ piece of embedding           ]
    rank 1                                 [ piece of qkv | piece of output ]

So an update gets the pieces, and two ways to see the others: sums over a parameter, and a parameter put together on one
rank. Without ZeRO a tensor is one parameter, whole on each rank.
"""

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from headrace.train.engine.optimizers.base import CHUNK, Elementwise, Group, MatrixOptimizer, Optimizer, Whole
from headrace.train.model.roles import fused_rows, roles, shape_of
from headrace.train.model.task_model import TaskModel
from headrace.train.model.transformer import Transformer


@dataclasses.dataclass(frozen=True)
class Piece:
    """The part of a matrix or vector that a tensor of this rank holds; ``length`` may be 0."""

    whole: Whole
    start: int
    """The offset of the first value in the flattened matrix."""
    offset: int
    """The same in the flattened tensor."""
    length: int

    @classmethod
    def of_location(cls, whole: Whole, start: int, offset: int, length: int) -> "Piece":
        """Returns the part of ``whole`` in a part of its parameter: ``length`` values from ``start`` on, which are at
        ``offset`` of the tensor."""
        first = min(max(start, whole.start), whole.start + whole.values)
        end = min(max(start + length, first), whole.start + whole.values)
        return cls(whole, first - whole.start, offset + first - start if end > first else 0, end - first)

    def of(self, tensor: Tensor) -> Tensor:
        """Returns the values of the piece in ``tensor``, (length,)."""
        return tensor.view(-1)[self.offset : self.offset + self.length]

    def blocks(self, *tensors: Tensor) -> Iterator[tuple[int, int, tuple[Tensor, ...]]]:
        """Yields the values of the piece of a matrix as rectangles: first row, first column, and (rows, columns) of
        each of ``tensors``, about CHUNK values at most. The first and the last row of a piece may be incomplete."""
        width, done = self.whole.shape[1], 0
        while done < self.length:
            row, column = divmod(self.start + done, width)
            columns = min(width - column, self.length - done)
            rows = min((self.length - done) // width, max(1, CHUNK // width)) if columns == width else 1
            yield row, column, tuple(self.of(tensor)[done : done + rows * columns].view(rows, -1) for tensor in tensors)
            done += rows * columns

    def chunks(self, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
        """Yields the values of the piece in each of ``tensors``, at most CHUNK at a time."""
        return zip(*(torch.split(self.of(tensor), CHUNK) for tensor in tensors), strict=True)


@dataclasses.dataclass(frozen=True)
class Flat:
    """A tensor to update, with the pieces of all parameters that it holds on any rank, in the same order on all."""

    values: Tensor
    gradient: Tensor
    state: dict[str, Any]
    pieces: Sequence[Piece]
    statistics: Mapping[Whole, Mapping[str, Tensor]]
    """Name → statistic of each matrix and vector in ``pieces``."""
    is_divided: bool
    """Whether other ranks hold the other parts of the parameters."""

    def sums(self, terms: Callable[[Piece], Iterable[Tensor]]) -> list[float]:
        """Returns the sum over each matrix or vector, in fp64, of the values in ``terms`` of its pieces."""
        partial_sums = torch.zeros(len(self.pieces), dtype=torch.float64, device=self.values.device)
        for number, piece in enumerate(self.pieces):
            for values in terms(piece):
                partial_sums[number] += values.sum(dtype=torch.float64)
        sums: list[float] = self.summed(partial_sums).tolist()
        return sums

    def summed(self, values: Tensor) -> Tensor:
        """Returns the sum of ``values``, which it overwrites, over the ranks that hold other parts."""
        if self.is_divided:
            dist.all_reduce(values)
        return values

    def computed(
        self, part: Callable[[Piece], Tensor], compute: Callable[[Tensor], Tensor]
    ) -> Iterator[tuple[Piece, Tensor]]:
        """Yields each piece with its values, (length,), of what ``compute`` returns for the whole parameter.

        Each parameter is put together on one rank, which computes it and sends the result. All ranks iterate to the
        end.

        Args:
            part: returns the values of a piece, (length,).
            compute: returns values of the parameter's shape from values of that shape, which it may overwrite.
        """
        if not self.is_divided:
            for piece in self.pieces:
                yield piece, compute(part(piece).view(piece.whole.shape)).flatten()
            return
        rank = dist.get_rank()
        for pieces in rounds(self.pieces, dist.get_world_size()):
            result = torch.empty(0)
            for owner, piece in enumerate(pieces):
                values = torch.zeros(piece.whole.values, dtype=self.values.dtype, device=self.values.device)
                values[piece.start : piece.start + piece.length] = part(piece)
                dist.reduce(values, owner)  # adds zeros, so no bit depends on the number of ranks
                if owner == rank:
                    result = values
            if rank < len(pieces):
                result = compute(result.view(pieces[rank].whole.shape)).flatten()
            for owner, piece in enumerate(pieces):
                values = result if owner == rank else torch.empty(piece.whole.values, device=self.values.device)
                dist.broadcast(values, owner)
                yield piece, values[piece.start : piece.start + piece.length]


def rounds(pieces: Sequence[Piece], ranks: int) -> Iterator[list[Piece]]:
    """Shares out the computation of whole parameters: yields lists of at most one for each rank.

    Parameters of a list are of about one size, so all ranks need about the same time.
    """
    ordered = sorted(pieces, key=lambda piece: piece.whole.values, reverse=True)  # keeps the order among equals
    for first in range(0, len(ordered), ranks):
        yield ordered[first : first + ranks]


class ByParameter(torch.optim.Optimizer):
    """Updates each tensor as its settings do. Groups have the option ``role``."""

    def __init__(
        self, groups: Sequence[Group], wholes: Mapping[Tensor, Sequence[Whole]], settings: MatrixOptimizer
    ) -> None:
        super().__init__(groups, {"lr": 0.0})
        self._settings = settings
        self._wholes = {pieces[0].parameter: pieces for pieces in wholes.values()}
        self._pieces: Mapping[Tensor, Sequence[Piece]] = {
            tensor: [Piece(whole, 0, whole.start, whole.values) for whole in pieces]
            for tensor, pieces in wholes.items()
        }
        self._statistics: dict[Whole, dict[str, Tensor]] = {}
        self._is_divided = False

    def place(self, locations: Iterable[tuple[str, int, Tensor, int, int]]) -> None:
        """Sets the pieces of ZeRO's tensors.

        Args:
            locations: those of train/engine/partitions.py, of all parameters, with length 0 where a rank has no part.
        """
        pieces = defaultdict[Tensor, list[Piece]](list)
        for name, start, tensor, offset, length in locations:
            pieces[tensor] += [Piece.of_location(whole, start, offset, length) for whole in self._wholes[name]]
        self._pieces, self._is_divided = pieces, dist.get_world_size() > 1

    def statistics(self, parameter: str, device: torch.device) -> Iterator[tuple[str, int, Tensor]]:
        """Yields name, offset in the parameter's statistic of this name, and values (length,) of each statistic."""
        offsets = Counter[str]()
        for whole in self._wholes[parameter]:
            for name, values in self._statistics_of(whole, device).items():
                yield name, offsets[name], values
                offsets[name] += len(values)

    def _statistics_of(self, whole: Whole, device: torch.device) -> Mapping[str, Tensor]:
        """Returns the statistics of ``whole``; creates them, on the device of the training, if there are none yet."""
        if whole not in self._statistics:
            lengths = self._settings.statistics(whole.shape, whole.role)
            self._statistics[whole] = {name: torch.zeros(length, device=device) for name, length in lengths.items()}
        return self._statistics[whole]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # DeepSpeed passes no closure
        """Updates all tensors that have a gradient; all ranks call it for the same ones."""
        for group in self.param_groups:
            for values in group["params"]:
                if values.grad is None:
                    continue
                state = self.state[values]
                if not state:
                    state.update(self._settings.first_state(values, group["role"]))
                pieces = self._pieces[values]
                statistics = {piece.whole: self._statistics_of(piece.whole, values.device) for piece in pieces}
                self._settings.update(group, Flat(values, values.grad, state, pieces, statistics, self._is_divided))


def build(
    model: nn.Module, optimizer: Optimizer, rate_factors: Mapping[str, float] | None = None
) -> torch.optim.Optimizer:
    """Builds torch's optimizer over the parameters of ``model``; those with equal options are one group.

    ``rate_factors`` are factors of the learning rates of parameters, by name.

    With ``base_width`` the hidden matrices have the learning rate over the width factor (Yang et al. 2022, table 8).
    Their weight decay is multiplied by the width factor: an update multiplies a weight by 1 - rate · decay, and this
    product does not depend on the width.
    """
    groups: list[Group] = []
    factor = model.config.width_factor if isinstance(model, Transformer | TaskModel) else 1.0
    role_of = roles(model)
    for name, parameter in model.named_parameters():
        options = optimizer.options(role_of[name])
        if factor != 1 and role_of[name] == "matrix":
            options["rate_factor"] /= factor
            options["weight_decay"] *= factor
        if rate_factors is not None:
            options["rate_factor"] = options.get("rate_factor", 1.0) * rate_factors.get(name, 1.0)
        if isinstance(optimizer, MatrixOptimizer):
            options = {"role": role_of[name], **options}
        group = next((candidate for candidate in groups if options.items() <= candidate.items()), None)
        if group is None:
            group = {"params": [], **options}
            groups.append(group)
        group["params"].append(parameter)
    if isinstance(optimizer, MatrixOptimizer):
        return ByParameter(groups, _wholes(model), optimizer)
    assert isinstance(optimizer, Elementwise)
    return optimizer.build(groups)


def _wholes(model: nn.Module) -> dict[Tensor, list[Whole]]:
    """Returns the matrices and vectors in each parameter of ``model``, in order."""
    role_of, rows_of = roles(model), fused_rows(model)
    wholes: dict[Tensor, list[Whole]] = {}
    for name, parameter in model.named_parameters():
        whole = shape_of(parameter)
        shapes = [(rows, *whole[1:]) for rows in rows_of.get(name, whole[:1])]
        starts = itertools.accumulate(map(math.prod, shapes[:-1]), initial=0)
        wholes[parameter] = [Whole(name, role_of[name], *place) for place in zip(starts, shapes, strict=True)]
    return wholes
