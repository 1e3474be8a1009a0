"""Optimizers: their settings, how torch builds them, and the state that they keep of each parameter.

    class    moments                    state beside the fp32 master weight
    AdamW    exp_avg, exp_avg_sq        8 bytes a parameter

Moments have the shape of their parameter. So ZeRO splits them over the ranks as it splits the parameters, and a
checkpoint holds them by parameter and offset (train/engine/fragments.py). An optimizer declares their names, and from
this declaration follow partitions, checkpoints, the memory plan and the check of free disk space.

The settings are read where torch must not be loaded, so it is imported only when an optimizer is built.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import Field

from headrace.pipeline.core.settings import settings
from headrace.train.config import BelowOne, Epsilon
from headrace.train.parts import FP32

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


class Optimizer(Protocol):
    """The settings of an optimizer."""

    moments: ClassVar[tuple[str, ...]]
    """The names, in the state of torch's optimizer, of its fp32 tensors that have the shape of their parameter."""

    @property
    def learning_rate(self) -> float:
        """The peak; the schedule scales it."""
        ...

    def build(self, matrices: "Sequence[nn.Parameter]", vectors: "Sequence[nn.Parameter]") -> "torch.optim.Optimizer":
        """Builds torch's optimizer over matrices (and embeddings) and vectors (biases and norms)."""
        ...

    def first_state(self, parameter: "Tensor") -> dict[str, Any]:
        """Returns the state of ``parameter`` as torch's optimizer creates it at its first update.

        It has the moments and, if the optimizer counts updates, the tensor ``step``.
        """
        ...


@settings
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); defaults of GPT-3 (Brown et al. 2020, app. B).

    For every parameter θ with gradient g at step t (Kingma and Ba 2015; Loshchilov and Hutter 2019):

        m ← β1·m + (1-β1)·g         exp_avg
        v ← β2·v + (1-β2)·g²        exp_avg_sq
        θ ← θ·(1 - η·λ) - η · (m / (1-β1^t)) / (sqrt(v / (1-β2^t)) + ε)

    λ is the weight decay for matrices and embeddings, and 0 for biases and norms (GPT-3's practice as nanoGPT wrote it
    down).
    """

    moments: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")

    type: Literal["adamw"] = "adamw"
    learning_rate: Annotated[float, Field(ge=0, le=10)]
    """The peak; the schedule scales it."""
    beta1: BelowOne = 0.9
    """Decay of the mean of gradients."""
    beta2: BelowOne = 0.95
    """Decay of the mean of squared gradients."""
    epsilon: Epsilon = 1e-8
    """Added to the root of the second mean."""
    weight_decay: Annotated[float, Field(ge=0, le=100)] = 0.1
    """Pull towards zero, times the learning rate; on matrices only."""

    def build(self, matrices: "Sequence[nn.Parameter]", vectors: "Sequence[nn.Parameter]") -> "torch.optim.Optimizer":
        """Builds torch's own AdamW, with one kernel for all of its steps on a GPU and on a CPU. DeepSpeed's variants
        would compile C++ at start-up."""
        import torch

        groups = [
            {"params": list(matrices), "weight_decay": self.weight_decay},
            {"params": list(vectors), "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=self.learning_rate,
            betas=(self.beta1, self.beta2),
            eps=self.epsilon,
            fused=True,
        )

    def first_state(self, parameter: "Tensor") -> dict[str, Any]:
        """Returns a count of updates on the device of the parameter, where the fused kernel needs it."""
        import torch

        step = torch.zeros((), dtype=torch.float32, device=parameter.device)
        return {"step": step, **{name: torch.zeros_like(parameter) for name in self.moments}}


AnyOptimizer = AdamW
"""The settings of any optimizer, chosen by their ``type``."""


def build(model: "nn.Module", optimizer: Optimizer) -> "torch.optim.Optimizer":
    """Builds torch's optimizer over the parameters of ``model``."""
    parameters = list(model.parameters())
    return optimizer.build([p for p in parameters if p.dim() >= 2], [p for p in parameters if p.dim() < 2])


def moment_bytes(optimizer: Optimizer) -> int:
    """Returns the bytes of the moments of one parameter."""
    return FP32 * len(optimizer.moments)


def checkpoint_bytes(optimizer: Optimizer) -> int:
    """Returns the bytes of one parameter in a checkpoint: its master value and its moments."""
    return FP32 + moment_bytes(optimizer)


def set_learning_rate(built: "torch.optim.Optimizer", learning_rate: float) -> None:
    """Sets the learning rate of the next update."""
    for group in built.param_groups:
        group["lr"] = learning_rate


@contextlib.contextmanager
def skip_step(built: "torch.optim.Optimizer") -> Iterator[None]:
    """Makes ``step`` of torch's optimizer do nothing: parameters and state stay as they are."""
    vars(built)["step"] = lambda: None
    try:
        yield
    finally:
        del vars(built)["step"]


def state(optimizer: Optimizer, built: "torch.optim.Optimizer", parameter: "Tensor") -> dict[str, Any]:
    """Returns the state of ``parameter`` in torch's optimizer; creates it if there was no update yet."""
    kept: dict[str, Any] = built.state[parameter]
    if any(kept.get(name) is None for name in optimizer.moments):
        kept.update(optimizer.first_state(parameter))
    return kept
