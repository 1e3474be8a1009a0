"""The learning rate of each step as a pure function: a schedule has no state to save or to step.

    cosine        ╱‾‾╲__   warm-up, half a cosine down to final_fraction (Loshchilov and Hutter 2017; GPT-3)
    wsd           ╱‾‾‾‾╲   warm-up, stable, decay (Hu et al. 2024, MiniCPM; Hägele et al. 2024 for the shapes)
    constant      ╱‾‾‾‾‾   warm-up, then the peak
    linear        ╱‾╲__    warm-up, then down in a straight line (Devlin et al. 2019, BERT)
    inverse_sqrt  ╱╲___    warm-up, then down with the square root of the steps (Vaswani et al. 2017)

``factor(step, steps)`` is the rate divided by the peak, for the update from ``step`` to ``step + 1`` of ``steps``.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Fraction, Natural, Positive, settings


def _warmup(step: int, warmup_steps: int) -> float:
    """Returns the share of the peak during the linear warm-up: 1/n for the first update, 1 for the n-th."""
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


def _progress(step: int, warmup_steps: int, steps: int) -> float:
    """Returns the share of the steps after the warm-up that are done."""
    return min(1.0, (step - warmup_steps) / max(1, steps - warmup_steps))


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
        progress = _progress(step, self.warmup_steps, steps)
        return self.final_fraction + (1 - self.final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))


@settings
class Linear:
    """Warm-up, then a straight line down to ``final_fraction`` of the peak (Devlin et al. 2019, BERT: down to 0)."""

    type: Literal["linear"] = "linear"
    warmup_steps: Natural
    """Updates over which the rate rises linearly to the peak."""
    final_fraction: Fraction = 0.0
    """Share of the peak at the end."""

    def factor(self, step: int, steps: int) -> float:
        if step < self.warmup_steps:
            return _warmup(step, self.warmup_steps)
        return 1 - (1 - self.final_fraction) * _progress(step, self.warmup_steps, steps)


DecayShape = Literal["linear", "sqrt", "square", "cosine", "mirror_cosine", "exponential"]
FALLEN: Mapping[DecayShape, Callable[[float], float]] = {
    "linear": lambda progress: progress,
    "sqrt": math.sqrt,
    "square": lambda progress: progress**2,
    "cosine": lambda progress: 0.5 * (1 - math.cos(math.pi * progress)),
    "mirror_cosine": lambda progress: 2 * progress - 0.5 * (1 - math.cos(math.pi * progress)),
}
"""The share of the way from the peak to the end that the rate has fallen, by the progress of the decay; both in [0, 1].
They are those of Hägele et al. 2024 and of their code (schedules-and-scaling)."""


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
    shape: DecayShape = "sqrt"
    """The fall of the rate with the progress p of the decay: linear, 1 - p; sqrt, 1 - sqrt(p); square, 1 - p²; cosine,
    half a cosine; mirror_cosine, its reflection about the straight line; exponential, ``final_fraction`` to the power
    of p, so that each step takes the same share (Hu et al. 2024: a half in 5,000 steps)."""

    def __post_init__(self) -> None:
        if self.shape == "exponential" and not self.final_fraction:
            problem = f"is {self.final_fraction}, which shape exponential never reaches"
            raise ConfigError("schedule.final_fraction", problem, "give a share above 0, or another shape")

    def factor(self, step: int, steps: int) -> float:
        decay_steps = round(self.decay_fraction * steps)
        progress = max(0.0, (step - (steps - decay_steps)) / decay_steps) if decay_steps else 0.0
        if self.shape == "exponential":
            return _warmup(step, self.warmup_steps) * math.pow(self.final_fraction, progress)
        return _warmup(step, self.warmup_steps) * (1 - (1 - self.final_fraction) * FALLEN[self.shape](progress))


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
    """Warm-up, or the peak, for ``warmup_steps``; then the peak · sqrt(warmup_steps / s) for the s-th update.

    Vaswani et al. 2017, section 5.3: width^-½ · min(s^-½, s · warmup_steps^-1.5), whose peak is
    (width · warmup_steps)^-½. Flat is 1 / sqrt(max(s, warmup_steps)) of T5 (Raffel et al. 2020, section 3.1.2), whose
    peak is warmup_steps^-½.
    """

    type: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup_steps: Positive
    """Updates before the fall."""
    warmup: Literal["linear", "flat"] = "linear"
    """linear: the rate rises to the peak during ``warmup_steps``; flat: it is the peak from the first update on."""

    def factor(self, step: int, steps: int) -> float:
        before = _warmup(step, self.warmup_steps) if self.warmup == "linear" else 1.0
        return min(before, math.sqrt(self.warmup_steps / (step + 1)))


Schedule = Annotated[Cosine | Linear | WarmupStableDecay | Constant | InverseSquareRoot, Field(discriminator="type")]
"""Chosen by its ``type``."""
