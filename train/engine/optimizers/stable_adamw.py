"""StableAdamW: AdamW with a smaller step for a parameter whose gradients have suddenly become larger."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headrace.pipeline.core.settings import settings
from headrace.train.engine.optimizers.base import Adaptive, MatrixOptimizer

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.train.engine.by_parameter import Flat, Piece


@settings
class StableAdamW(Adaptive, MatrixOptimizer):
    """AdamW with the update clipping of Adafactor (Wortsman et al. 2023, arXiv 2304.13013, algorithm 2).

    For every matrix or vector θ of n values, with gradient g at step t:

        β̂ = β · (1-β^(t-1)) / (1-β^t)         of β1 and of β2: the means need no correction of their bias
        m ← β̂1·m + (1-β̂1)·g                   exp_avg
        v ← β̂2·v + (1-β̂2)·g²                  exp_avg_sq
        η_θ = η / max(1, RMS),  RMS² = Σ (g² / max(v, ε²)) / n
        θ ← θ·(1 - η_θ·λ) - η_θ · m / (sqrt(v) + ε)

    RMS is that of the whole matrix, whatever part of it a rank holds; queries, keys and values are matrices of their
    own. Where RMS is at most 1 in all steps, this is AdamW.
    """

    type: Literal["stable_adamw"] = "stable_adamw"
    scales_with_width: ClassVar[bool] = True

    def update(self, group: Mapping[str, Any], flat: "Flat") -> None:
        state, square = flat.state, self.epsilon**2
        state["step"] += 1
        step = int(state["step"])
        beta1, beta2 = (beta * (1 - beta ** (step - 1)) / (1 - beta**step) for beta in (self.beta1, self.beta2))
        mean, second = state["exp_avg"].lerp_(flat.gradient, 1 - beta1), state["exp_avg_sq"]
        second.mul_(beta2).addcmul_(flat.gradient, flat.gradient, value=1 - beta2)

        def squared_ratios(piece: "Piece") -> "Iterator[Tensor]":
            for g, v in piece.chunks(flat.gradient, second):
                yield g.square().div_(v.clamp(min=square))

        for piece, total in zip(flat.pieces, flat.sums(squared_ratios), strict=True):
            rate = group["lr"] / max(1.0, (total / piece.whole.values) ** 0.5)
            for values, m, v in piece.chunks(flat.values, mean, second):
                values.mul_(1 - rate * group["weight_decay"]).addcdiv_(m, v.sqrt().add_(self.epsilon), value=-rate)
