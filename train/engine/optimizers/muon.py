"""Muon: hidden matrices are updated by an orthogonal matrix, all other parameters as by AdamW."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from headrace.pipeline.core.settings import settings
from headrace.train.config import BelowOne
from headrace.train.engine.optimizers.base import Adaptive, MatrixOptimizer, Shapes
from headrace.train.parts import FP32, RoleName

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.train.engine.by_parameter import Flat, Piece

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""a, b and c of the iteration, chosen for the steepest rise at 0 (Jordan et al. 2024)."""
STEPS = 5
LEAST_NORM = 1e-7


@settings
class Muon(Adaptive, MatrixOptimizer):
    """Momentum, orthogonalized by Newton and Schulz's iteration (Jordan et al. 2024, kellerjordan.github.io/posts/muon;
    Liu et al. 2025, arXiv 2502.16982), as torch.optim.Muon computes it.

    For every hidden matrix θ of r rows and c columns with gradient g:

        m ← μ·m + (1-μ)·g                                momentum_buffer
        x ← u / ‖u‖,  u = μ·m + (1-μ)·g                  Nesterov's momentum; the Frobenius norm
        x ← a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x               5 times: singular values come near 1
        θ ← θ·(1 - η·λ) - η · scale(r, c) · x

    Queries, keys and values are matrices of their own: Jordan et al. found that to be better than one of all three.
    Embeddings, output layers, biases and norms are updated as by AdamW.
    """

    type: Literal["muon"] = "muon"
    learning_rate: Annotated[float, Field(gt=0, le=10)]
    """The peak for hidden matrices; the schedule scales it."""
    momentum: BelowOne = 0.95
    """Decay of the mean of gradients of hidden matrices."""
    scale: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """match_rms_adamw: 0.2 · sqrt(max(rows, columns)), so that the update is as large as AdamW's and its learning rate
    can be taken (Liu et al. 2025); original: sqrt(max(1, rows / columns)) (Jordan et al. 2024)."""
    orthogonalization: Literal["auto", "bf16", "fp32"] = "auto"
    """The precision of the iteration; auto: bf16 on a GPU, as published, and fp32 on a CPU, where bf16 is slow."""
    adamw_learning_rate: Annotated[float, Field(ge=0, le=10)] | None = None
    """The peak for all other parameters; null: ``learning_rate``. The factors of ``rate_factors`` are multiplied."""

    def moments(self, role: RoleName) -> tuple[str, ...]:
        return ("momentum_buffer",) if role == "matrix" else super().moments(role)

    def first_state(self, values: "Tensor", role: RoleName) -> dict[str, Any]:
        state = super().first_state(values, role)
        if role == "matrix":
            del state["step"]  # only AdamW counts updates
        return state

    def options(self, role: RoleName) -> dict[str, Any]:
        options = super().options(role)
        if role != "matrix" and self.adamw_learning_rate is not None:
            options["rate_factor"] *= self.adamw_learning_rate / self.learning_rate
        return options

    def update_bytes(self, shapes: Shapes, is_divided: bool) -> int:
        """Counts the matrix and its direction, another one on its way between ranks, and three of the iteration."""
        of_iteration = 2 if self.orthogonalization == "bf16" else FP32
        return max(map(math.prod, shapes["matrix"])) * (FP32 * (2 + is_divided) + 3 * of_iteration)

    def update(self, group: Mapping[str, Any], flat: "Flat") -> None:
        if group["role"] != "matrix":
            self._update_as_adamw(group, flat)
            return
        momentum = flat.state["momentum_buffer"].lerp_(flat.gradient, 1 - self.momentum)
        flat.values.mul_(1 - group["lr"] * group["weight_decay"])

        def nesterov(piece: "Piece") -> "Tensor":
            return piece.of(flat.gradient).lerp(piece.of(momentum), self.momentum)

        for piece, direction in flat.computed(nesterov, self._direction):
            piece.of(flat.values).sub_(direction, alpha=group["lr"])

    def _direction(self, matrix: "Tensor") -> "Tensor":
        """Returns the scaled direction of ``matrix``, (rows, columns), in fp32."""
        import torch

        rows, columns = matrix.shape
        original = math.sqrt(max(1, rows / columns))
        scale = original if self.scale == "original" else 0.2 * math.sqrt(max(rows, columns))
        is_narrow = self.orthogonalization == "bf16" or (self.orthogonalization == "auto" and matrix.is_cuda)
        dtype = torch.bfloat16 if is_narrow else torch.float32
        return orthogonalized(matrix.to(dtype)).float().mul_(scale)

    def _update_as_adamw(self, group: Mapping[str, Any], flat: "Flat") -> None:
        from torch.optim.adamw import adamw

        names = ("exp_avg", "exp_avg_sq", "step")
        mean, second, step = ([flat.state[name]] for name in names)
        adamw(
            [flat.values], [flat.gradient], mean, second, [], step, fused=True, amsgrad=False, maximize=False,
            beta1=self.beta1, beta2=self.beta2, eps=self.epsilon, lr=group["lr"], weight_decay=group["weight_decay"],
        )  # fmt: skip


def orthogonalized(matrix: "Tensor") -> "Tensor":
    """Returns a matrix with the singular vectors of ``matrix``, (rows, columns), and singular values near 1.

    The coefficients bring them to between about 0.5 and 1.5, but those of nearly 0 (Jordan et al. 2024).
    """
    import torch

    a, b, c = COEFFICIENTS
    is_high = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_high else matrix
    x = x / x.norm().clamp(min=LEAST_NORM)
    for _ in range(STEPS):
        products = x @ x.T
        x = torch.addmm(x, torch.addmm(products, products, products, beta=b, alpha=c), x, beta=a)
    return x.T if is_high else x
