"""An optimizer with one moment and without a count of updates: all that another optimizer takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from headrace.pipeline.core.settings import settings
from headrace.train.engine.optimizers.base import Group, Shapes
from headrace.train.parts import RoleName


@settings
class Momentum:
    """Gradient descent with momentum."""

    type: Literal["momentum"] = "momentum"
    learning_rate: float
    momentum: float = 0.9
    ema_decay: float | None = None

    def moments(self, role: RoleName) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def statistics(self, shape: Sequence[int], role: RoleName) -> Mapping[str, int]:
        return {}

    def options(self, role: RoleName) -> dict[str, Any]:
        return {}

    def build(self, groups: Sequence[Group]) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=self.learning_rate, momentum=self.momentum)

    def first_state(self, values: Tensor, role: RoleName) -> dict[str, Any]:
        return {"momentum_buffer": torch.zeros_like(values)}

    def update_bytes(self, shapes: Shapes, is_divided: bool) -> int:
        return 0
