"""The state of a training without its weights, and the step that a loss spike returns to. A checkpoint holds it."""

import dataclasses
from typing import Any

from headrace.pipeline.core.errors import TaskError

FIRST_FACTOR, SMALLEST_FACTOR = 2.0**16, 1.0
WINDOW_UPDATES = 1000
"""Updates without an overflow after which the factor doubles."""
PATIENCE = 2
"""Overflows in a window of which only the last one, and those after it, halve the factor (hysteresis)."""


@dataclasses.dataclass(frozen=True)
class LossScale:
    """The factor of the loss in fp16 for the next update, and what decides those after it.

    It keeps small gradients above 6e-8, the smallest number of fp16. Gradients are divided by it before they are
    clipped. One that overflows (65,504 is the largest number) leaves out its update. The rule is that of Megatron-LM
    and DeepSpeed (Micikevicius et al. 2018, section 3.2): the factor doubles after WINDOW_UPDATES without an overflow.
    """

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


@dataclasses.dataclass(frozen=True)
class State:
    """Everything but the weights that decides the next steps.

    The order of rows and what dropout drops are functions of (seed, rows_seen), so no generator's state is kept.
    """

    step: int
    """Steps done, steps that were left out included."""
    rows_seen: int
    tokens_seen: int
    """Target tokens, without padding."""
    run_id: str
    """The tracker's id of the run, with which a resumed run continues its curve."""
    data: dict[str, str]
    """Name → hash of each artifact and setting that decides the order of rows; ``order`` is a hash of them all."""
    losses: list[float] = dataclasses.field(default_factory=list)
    """The losses of the last steps, which decide whether the next step is left out (train/loop/loss_guard.py)."""
    left_out: list[list[int]] = dataclasses.field(default_factory=list)
    """First and last step of each stretch whose updates are not in the weights; the loss of the last was a spike."""
    without_targets: list[int] = dataclasses.field(default_factory=list)
    """Steps whose rows have no target, so no update was made."""
    loss_scale: LossScale | None = None
    """The factor of the loss in fp16; None in other precisions."""
    curve: str | None = None
    """SHA-256 of metrics.jsonl up to this step, in a checkpoint; None in checkpoints of older versions."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Everything that the address of these weights hashes (``Stage.description``); empty in older checkpoints."""
    first_row: int = 0
    """The rows seen before the order of ``data`` began: a branch may read other data than its trunk."""
    origins: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The checkpoints of other trainings that this one goes on from, the first one first (train/loop/origin.py)."""
    best_step: int | None = None
    """The step of the best validation, where checkpoints are compared (train/loop/validation.py)."""
    best_value: float | None = None
    """The metric of that validation."""
    worse_validations: int = 0
    """The validations since then."""

    def __post_init__(self) -> None:
        if isinstance(self.loss_scale, dict):  # as the manifest of a checkpoint has it
            object.__setattr__(self, "loss_scale", LossScale(**self.loss_scale))

    def after(self, rows: int, tokens: int) -> "State":
        """Returns the state one update of ``rows`` and ``tokens`` later."""
        return dataclasses.replace(
            self, step=self.step + 1, rows_seen=self.rows_seen + rows, tokens_seen=self.tokens_seen + tokens
        )

    @property
    def branch(self) -> dict[str, Any] | None:
        """The last of ``origins`` that is a branch; None when there is none."""
        return next((origin for origin in reversed(self.origins) if origin["is_branch"]), None)

    @property
    def steps_left_out(self) -> int:
        """The number of steps that are not in the weights; a stretch may begin at the same step as the previous one."""
        steps = end = 0
        for first, last in self.left_out:
            steps += last - max(first - 1, end)
            end = last
        return steps


def rollback_step(step: int, every: int | None) -> int:
    """Returns the step that a spike after ``step`` returns to: the last multiple of ``every``; 0 when there is none."""
    return step // every * every if every else 0
