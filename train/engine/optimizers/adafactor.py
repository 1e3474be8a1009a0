"""Adafactor: of a matrix it keeps the second moments of rows and columns alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.core.settings import NaturalNumber, PositiveNumber, settings
from headrace.train.engine.optimizers.base import Decay, MatrixOptimizer
from headrace.train.parts import RoleName

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.train.engine.by_parameter import Flat, Piece


@settings
class Adafactor(MatrixOptimizer):
    """Adafactor without momentum (Shazeer and Stern 2018, arXiv 1804.04235, algorithms 4 to 6), as T5 was trained.

    For every matrix or vector θ of n values with gradient g at step t, with β = 1 - t^-c:

        R ← β·R + (1-β)·mean over columns of (g² + ε1)     exp_avg_sq_row, a value for each row
        C ← β·C + (1-β)·mean over rows of (g² + ε1)        exp_avg_sq_col, a value for each column
        V = R·Cᵀ / mean(R);  of a vector V ← β·V + (1-β)·(g² + ε1)    exp_avg_sq
        u = g / sqrt(V);  u ← u / max(1, RMS(u) / d)
        α = η · max(ε2, RMS(θ)), or η without ``scales_by_parameter``
        θ ← θ·(1 - α·λ) - α·u

    RMS(x)² = Σ x² / n over the whole matrix, whatever part of it a rank holds; queries, keys and values are matrices of
    their own. The paper's step min(0.01, 1 / sqrt(t)) is schedule=inverse_sqrt_flat with the peak 0.01. T5's code has R
    and C only for matrices with at least 128 rows and columns; smaller ones have the V of a vector.
    """

    type: Literal["adafactor"] = "adafactor"
    weight_decay: Decay = 0.0
    """Pull towards zero, times α; T5 has none."""
    decay_exponent: Annotated[float, Field(gt=0, le=1)] = 0.8
    """c: the mean of squared gradients forgets more slowly from step to step."""
    clip_threshold: PositiveNumber = 1.0
    """d: the largest RMS of an update divided by its learning rate."""
    scales_by_parameter: bool = True
    """Whether the step is relative to the size of the parameter."""
    gradient_epsilon: Annotated[float, Field(ge=1e-38, le=1)] = 1e-30
    """ε1, added to squared gradients."""
    parameter_epsilon: NaturalNumber = 1e-3
    """ε2: a parameter with a smaller RMS counts as so large."""

    def moments(self, role: RoleName) -> tuple[str, ...]:
        return ("exp_avg_sq",) if role == "vector" else ()

    def statistics(self, shape: Sequence[int], role: RoleName) -> Mapping[str, int]:
        return {} if role == "vector" else {"exp_avg_sq_row": shape[0], "exp_avg_sq_col": shape[1]}

    def first_state(self, values: "Tensor", role: RoleName) -> dict[str, Any]:
        import torch

        moments = {name: torch.zeros_like(values) for name in self.moments(role)}
        return {"step": torch.zeros((), dtype=torch.float32), **moments}

    def update(self, group: Mapping[str, Any], flat: "Flat") -> None:
        flat.state["step"] += 1
        kept = 1 - float(flat.state["step"]) ** -self.decay_exponent
        if group["role"] == "vector":
            squares = flat.gradient.square().add_(self.gradient_epsilon)
            flat.state["exp_avg_sq"].mul_(kept).add_(squares, alpha=1 - kept)
        else:
            self._update_statistics(flat, kept)
        sizes = flat.sums(lambda piece: (values.square() for (values,) in piece.chunks(flat.values)))
        lengths = flat.sums(lambda piece: (u.square_() for u, _ in self._updates(flat, piece)))
        for piece, size, length in zip(flat.pieces, sizes, lengths, strict=True):
            rms, of_update = ((total / piece.whole.values) ** 0.5 for total in (size, length))
            rate = group["lr"] * (max(self.parameter_epsilon, rms) if self.scales_by_parameter else 1.0)
            for update, values in self._updates(flat, piece):
                values.mul_(1 - rate * group["weight_decay"])
                values.sub_(update, alpha=rate / max(1.0, of_update / self.clip_threshold))

    def _update_statistics(self, flat: "Flat", kept: float) -> None:
        """Adds the gradient to the mean squares of rows and columns, which are summed over ranks in one message."""
        import torch

        means = [mean for piece in flat.pieces for mean in flat.statistics[piece.whole].values()]
        flat_sums = torch.zeros(sum(map(len, means)), device=flat.values.device)
        sums = torch.split(flat_sums, [len(mean) for mean in means])
        for piece, rows, columns in zip(flat.pieces, sums[::2], sums[1::2], strict=True):
            for row, column, (gradient,) in piece.blocks(flat.gradient):
                squares = gradient.square().add_(self.gradient_epsilon)
                rows[row : row + len(squares)] += squares.sum(1)
                columns[column : column + squares.shape[1]] += squares.sum(0)
        flat.summed(flat_sums)
        for number, (mean, total) in enumerate(zip(means, sums, strict=True)):
            others = flat.pieces[number // 2].whole.shape[1 - number % 2]
            mean.mul_(kept).add_(total, alpha=(1 - kept) / others)

    def _updates(self, flat: "Flat", piece: "Piece") -> "Iterator[tuple[Tensor, Tensor]]":
        """Yields g / sqrt(V), a new tensor, and the parameter's values of parts of ``piece``."""
        if piece.whole.role == "vector":
            for gradient, square, values in piece.chunks(flat.gradient, flat.state["exp_avg_sq"], flat.values):
                yield square.rsqrt().mul_(gradient), values
            return
        statistics = flat.statistics[piece.whole]
        row_factors = (statistics["exp_avg_sq_row"] / statistics["exp_avg_sq_row"].mean()).rsqrt_()
        column_factors = statistics["exp_avg_sq_col"].rsqrt()
        for row, column, (gradient, values) in piece.blocks(flat.gradient, flat.values):
            update = gradient * row_factors[row : row + len(gradient), None]
            yield update.mul_(column_factors[column : column + gradient.shape[1]]), values
