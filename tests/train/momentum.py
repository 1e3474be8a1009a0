"""An optimizer with one moment and without a count of updates: all that another optimizer takes."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from headrace.pipeline.core.settings import settings


@settings
class Momentum:
    """Gradient descent with momentum."""

    moments: ClassVar[tuple[str, ...]] = ("momentum_buffer",)

    type: Literal["momentum"] = "momentum"
    learning_rate: float
    momentum: float = 0.9

    def build(self, matrices: Sequence[nn.Parameter], vectors: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD([*matrices, *vectors], lr=self.learning_rate, momentum=self.momentum)

    def first_state(self, parameter: Tensor) -> dict[str, Any]:
        return {"momentum_buffer": torch.zeros_like(parameter)}
