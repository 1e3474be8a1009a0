"""What a step's loss says about the step, before the update is applied.

    loss   3.2 3.1 3.2 3.1 3.0 | 9.4              mean and deviation of the last window_steps losses
                                 └ more than sigma deviations above the mean: the update is left out, its rows are past
    loss   nan                    training ends: whatever made it is in the weights already

A step that is left out counts as a step: its rows are not read again, the learning rate goes on, and the weights and
AdamW's means stay as they are. What decides it, the losses of the window, is part of ``State``, and so are the steps
that were left out; so a resumed training decides as one that was never interrupted.
"""

import dataclasses
import math
import statistics
import sys

from pipeline.core.errors import TaskError
from train.checkpoint import State
from train.config import TrainingConfig


@dataclasses.dataclass(frozen=True)
class LossGuard:
    """The rule of OLMo-core's SkipStepOptimizer (6 deviations, 128 steps), for the loss alone."""

    sigma: float | None
    """None: no step is left out."""
    window_steps: int
    speaks: bool
    """Whether to tell the log; one rank does."""

    @classmethod
    def of(cls, training: TrainingConfig, speaks: bool) -> "LossGuard":
        return cls(training.spike_sigma, training.spike_window_steps, speaks)

    def is_spike(self, state: State, loss: float) -> bool:
        """Whether the step after ``state``, whose ``loss`` all ranks know, is to be left out.

        Half a window must have gone by.

        Raises:
            TaskError: when ``loss`` is not finite.
        """
        if not math.isfinite(loss):
            remedy = "lower the learning rate, lengthen the warm-up or clip the gradient"
            raise TaskError("weights", f"the loss of step {state.step + 1} is {loss}", remedy)
        if self.sigma is None or len(state.losses) < max(2, self.window_steps // 2):
            return False
        return loss - statistics.fmean(state.losses) > self.sigma * statistics.stdev(state.losses)

    def noted(self, state: State, loss: float, is_spike: bool) -> State:
        """``state`` with the loss of the step that led to it. Spikes count too: a plateau that lasts is none."""
        if self.sigma is None:
            return state
        left_out = [*state.left_out, state.step] if is_spike else state.left_out
        if is_spike and self.speaks:
            usual = statistics.fmean(state.losses)
            reason = f"its loss is {loss:.4f}, usual is {usual:.4f}"
            print(f"headrace: the update of step {state.step} is left out: {reason}", file=sys.stderr, flush=True)
        return dataclasses.replace(state, losses=[*state.losses, loss][-self.window_steps :], left_out=left_out)

    def metrics(self, state: State) -> dict[str, float]:
        """The number of steps that were left out so far, unless none ever is."""
        return {} if self.sigma is None else {"steps_left_out": len(state.left_out)}
