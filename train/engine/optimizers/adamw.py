"""AdamW, with torch's own implementation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from headrace.pipeline.core.settings import settings
from headrace.train.engine.optimizers.base import Adaptive, Group, Shapes

if TYPE_CHECKING:
    import torch


@settings
class AdamW(Adaptive):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); defaults of GPT-3 (Brown et al. 2020, app. B).

    For every parameter θ with gradient g at step t (Kingma and Ba 2015; Loshchilov and Hutter 2019):

        m ← β1·m + (1-β1)·g         exp_avg
        v ← β2·v + (1-β2)·g²        exp_avg_sq
        θ ← θ·(1 - η·λ) - η · (m / (1-β1^t)) / (sqrt(v / (1-β2^t)) + ε)

    λ is the weight decay for matrices and embeddings, and by default 0 for biases and norms (GPT-3's practice as
    nanoGPT wrote it down).
    """

    type: Literal["adamw"] = "adamw"
    scales_with_width: ClassVar[bool] = True

    def build(self, groups: Sequence[Group]) -> "torch.optim.Optimizer":
        """Builds torch's own AdamW, with one kernel for all of its steps on a GPU and on a CPU. DeepSpeed's variants
        would compile C++ at start-up."""
        import torch

        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(groups, lr=self.learning_rate, betas=betas, eps=self.epsilon, fused=True)

    def update_bytes(self, shapes: Shapes, is_divided: bool) -> int:
        return 0
