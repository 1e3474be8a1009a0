"""The factor of the loss in fp16, which keeps small gradients above 6e-8, the smallest number that fp16 can hold.

    2^16  2^16  2^16  2^15 ............... 2^15  2^16 ...
           └─────┴─ overflows: no update    └─ 1,000 updates without one: twice as large

Gradients are divided by the factor before they are clipped. A gradient that overflows (65,504 is the largest number)
leaves out its update. The rule is that of Megatron-LM and DeepSpeed (Micikevicius et al. 2018, section 3.2).
"""

import dataclasses

from headrace.pipeline.core.errors import TaskError

FIRST_FACTOR, SMALLEST_FACTOR = 2.0**16, 1.0
WINDOW_UPDATES = 1000
"""Updates without an overflow after which the factor doubles."""
PATIENCE = 2
"""Overflows in a window of which only the last one, and those after it, halve the factor (hysteresis)."""


@dataclasses.dataclass(frozen=True)
class LossScale:
    """The factor for the next update, and what decides those after it. A checkpoint holds it."""

    factor: float = FIRST_FACTOR
    updates: int = 0
    """Updates since the last overflow."""
    patience: int = PATIENCE
    """Overflows until the factor is halved; 1: the next one does it."""
    overflows: int = 0
    """Updates left out so far."""

    def after(self, overflowed: bool, stage: str = "weights") -> "LossScale":
        """Returns the scale after one more update; an error names ``stage``.

        Raises:
            TaskError: when a gradient overflows that is not scaled any more.
        """
        if not overflowed:
            grows = self.updates > 0 and self.updates % WINDOW_UPDATES == 0
            factor, patience = (self.factor * 2, PATIENCE) if grows else (self.factor, self.patience)
            return LossScale(factor, self.updates + 1, patience, self.overflows)
        if self.patience > 1:
            return LossScale(self.factor, 0, self.patience - 1, self.overflows + 1)
        if self.factor <= SMALLEST_FACTOR:
            problem = f"the gradient overflows in fp16 with the smallest loss scale, {self.factor:g}"
            raise TaskError(stage, problem, "lower the learning rate, or use training.precision=bf16 or fp32")
        return LossScale(max(self.factor / 2, SMALLEST_FACTOR), 0, self.patience, self.overflows + 1)
