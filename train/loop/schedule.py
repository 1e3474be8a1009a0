"""The learning rate of each step as a pure function: a schedule has no state to save or to step.

    cosine        ╱‾‾╲__   warm-up, half a cosine down to final_fraction (Loshchilov and Hutter 2017; GPT-3)
    wsd           ╱‾‾‾‾╲   warm-up, stable, decay (Hu et al. 2024, MiniCPM; Hägele et al. 2024 for the 1-sqrt shape)
    constant      ╱‾‾‾‾‾   warm-up, then the peak
    inverse_sqrt  ╱╲___    warm-up, then down with the square root of the steps (Vaswani et al. 2017)

``factor(step, steps)`` is the rate divided by the peak, for the update from ``step`` to ``step + 1`` of ``steps``.
"""

import math
from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.settings import Fraction, Natural, Positive, settings


def _warmup(step: int, warmup_steps: int) -> float:
    """Returns the share of the peak during the linear warm-up: 1/n for the first update, 1 for the n-th."""
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


@settings
class Cosine:
    """Warm-up, then half a cosine down to ``final_fraction`` of the peak."""

    type: Literal["cosine"] = "cosine"
    warmup_steps: Natural
    """Updates over which the rate rises linearly to the peak."""
    final_fraction: Fraction = 0.1
    """Share of the peak at the end."""

    def factor(self, step: int, steps: int) -> float:
        if step < self.warmup_steps:
            return _warmup(step, self.warmup_steps)
        progress = min(1.0, (step - self.warmup_steps) / max(1, steps - self.warmup_steps))
        return self.final_fraction + (1 - self.final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))


@settings
class WarmupStableDecay:
    """Warm-up, the peak for most steps, then a decay."""

    type: Literal["wsd"] = "wsd"
    warmup_steps: Natural
    """Updates over which the rate rises linearly to the peak."""
    decay_fraction: Fraction = 0.2
    """The rate falls over the last steps; this is their share of all steps."""
    final_fraction: Fraction = 0.0
    """Share of the peak at the end."""
    shape: Literal["linear", "sqrt"] = "sqrt"
    """sqrt: the rate falls as 1 - sqrt(progress); linear: as 1 - progress."""

    def factor(self, step: int, steps: int) -> float:
        decay_steps = round(self.decay_fraction * steps)
        progress = max(0.0, (step - (steps - decay_steps)) / decay_steps) if decay_steps else 0.0
        fallen = math.sqrt(progress) if self.shape == "sqrt" else progress
        return _warmup(step, self.warmup_steps) * (1 - (1 - self.final_fraction) * fallen)


@settings
class Constant:
    """Warm-up, then the peak to the end."""

    type: Literal["constant"] = "constant"
    warmup_steps: Natural = 0
    """Updates over which the rate rises linearly to the peak."""

    def factor(self, step: int, steps: int) -> float:
        return _warmup(step, self.warmup_steps)


@settings
class InverseSquareRoot:
    """Warm-up, then the peak · sqrt(warmup_steps / s) for the s-th update, to the end.

    Vaswani et al. 2017, section 5.3: width^-½ · min(s^-½, s · warmup_steps^-1.5), whose peak is
    (width · warmup_steps)^-½.
    """

    type: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup_steps: Positive
    """Updates over which the rate rises linearly to the peak."""

    def factor(self, step: int, steps: int) -> float:
        return min(_warmup(step, self.warmup_steps), math.sqrt(self.warmup_steps / (step + 1)))


Schedule = Annotated[Cosine | WarmupStableDecay | Constant | InverseSquareRoot, Field(discriminator="type")]
"""Chosen by its ``type``."""


def equal_steps(schedule: Schedule, steps: int, other_steps: int) -> int:
    """Returns how many of the first updates have the same rate in trainings of ``steps`` and of ``other_steps``."""
    both = range(min(steps, other_steps))
    differing = (step for step in both if schedule.factor(step, steps) != schedule.factor(step, other_steps))
    return next(differing, len(both))
