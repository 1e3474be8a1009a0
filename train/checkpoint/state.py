"""The state of a training without its weights, and the step that a loss spike returns to. A checkpoint holds it."""

import dataclasses
from typing import Any

from headrace.train.engine.zero import LossScale


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
    """SHA-256 of metrics.jsonl up to this step; a checkpoint has it."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Everything that the address of these weights hashes (``Stage.description``)."""
    first_row: int = 0
    """The rows seen before the order of ``data`` began: a branch may read other data than its trunk."""
    origins: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The checkpoints of other trainings that this one goes on from, the first one first (train/loop/branch.py)."""
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
