"""Detects loss spikes before the update of a step is applied.

    loss   3.2 3.1 3.2 3.1 3.0 | 9.4              mean and deviation of the last window_steps losses
                                 └ more than sigma deviations above the mean: the update is left out, its rows are past
    loss   nan                    training ends: its cause is already in the weights

    weights   ... 16 ── 17 ── 18 | 19 is a spike    and with rollback_every 8: back to those of step 16; the updates of
                  └──────────────── 20 ── 21 ...    17 to 19 are left out, training goes on with the rows of step 20

A step that is left out counts as a step: its rows are not read again, the learning rate goes on, and it is not in the
weights and the optimizer's moments. The losses of the window, which decide it, are part of ``State``, and so are the
steps that were left out. The step to return to is a function of the spike's step. So a resumed training decides as one
that was never interrupted.
"""

import dataclasses
import math
import statistics
import sys

from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.tracking.notices import send
from headrace.train.checkpoint.state import State, rollback_step
from headrace.train.training_config import TrainingConfig


@dataclasses.dataclass(frozen=True)
class LossGuard:
    """The rule of OLMo-core's SkipStepOptimizer (6 deviations, 128 steps), for the loss alone."""

    training: TrainingConfig
    prints: bool
    """Whether to print spikes to the log; one rank does."""
    stage: str = "weights"
    """The name of the stage, for messages."""

    @property
    def sigma(self) -> float | None:
        return self.training.spike_sigma

    def is_spike(self, state: State, loss: float) -> bool:
        """Whether the step after ``state``, whose ``loss`` all ranks know, is to be left out.

        Half a window must have gone by.

        Raises:
            TaskError: when ``loss`` is not finite.
        """
        if not math.isfinite(loss):
            remedy = "lower the learning rate, lengthen the warm-up or clip the gradient"
            raise TaskError(self.stage, f"the loss of step {state.step + 1} is {loss}", remedy)
        if self.sigma is None or len(state.losses) < max(2, self.training.spike_window_steps // 2):
            return False
        return loss - statistics.fmean(state.losses) > self.sigma * statistics.stdev(state.losses)

    def back_to(self, step: int) -> int:
        """Returns the step whose checkpoint training continues from after a spike at ``step``; 0: none."""
        return rollback_step(step - 1, self.training.spike_rollback_every)

    def noted(self, state: State, loss: float, is_spike: bool) -> State:
        """Returns ``state`` with the loss of the step that led to it.

        Spikes enter the window, so a sustained rise stops counting as a spike.
        """
        if self.sigma is None:
            return state
        left_out = state.left_out
        if is_spike:
            kept_step = self.back_to(state.step) or state.step - 1
            left_out = [*left_out, [kept_step + 1, state.step]]
            if self.prints:
                losses = f"the loss of step {state.step} is {loss:.4f}, usual is {statistics.fmean(state.losses):.4f}"
                line = f"{losses}: back to the weights of step {kept_step}"
                print(f"headrace: {line}", file=sys.stderr, flush=True)
                send("spike", self.stage, line)
        return dataclasses.replace(
            state, losses=[*state.losses, loss][-self.training.spike_window_steps :], left_out=left_out
        )

    def noted_without_targets(self, state: State) -> State:
        """Returns ``state`` with the step that led to it among those without an update. It has no loss."""
        if self.prints:
            line = f"headrace: the rows of step {state.step} have no target: the weights stay as they are"
            print(line, file=sys.stderr, flush=True)
        return dataclasses.replace(state, without_targets=[*state.without_targets, state.step])

    def metrics(self, state: State) -> dict[str, float]:
        """Returns the number of steps left out so far, if spikes are detected at all, and of those without targets."""
        counts = {"steps_left_out": state.steps_left_out, "steps_without_targets": len(state.without_targets)}
        has = {"steps_left_out": self.sigma is not None, "steps_without_targets": bool(state.without_targets)}
        return {name: number for name, number in counts.items() if has[name]}
