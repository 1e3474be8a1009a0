"""Notifies of spikes in the gradient norm. It changes no update: a spike of the loss does (loss_guard.py).

norm   0.9 1.1 1.0 0.9 1.0 | 7.3     more than sigma deviations above the mean of the last window_steps norms
"""

import dataclasses
import math
import statistics
import sys
from collections import deque

from headrace.pipeline.tracking.notices import send
from headrace.train.training_config import TrainingConfig


@dataclasses.dataclass
class NormWatch:
    """The rule of the loss guard, for the norm. The window is not saved: it begins again with each start."""

    sigma: float | None
    """None: no spike is looked for."""
    norms: "deque[float]"
    prints: bool
    """Whether to print spikes to the log; one rank does."""
    stage: str = "weights"

    @classmethod
    def of(cls, training: TrainingConfig, prints: bool, stage: str) -> "NormWatch":
        return cls(training.spike_sigma, deque(maxlen=training.spike_window_steps), prints, stage)

    def note(self, step: int, norm: float | None) -> bool:
        """Takes the ``norm`` of ``step``, and returns whether it is a spike, which is printed and sent as a notice.

        A step without a norm (None, or one that is not finite) had no update. Half a window must have gone by.
        """
        if self.sigma is None or not self.prints or norm is None or not math.isfinite(norm):
            return False
        is_spike = False
        if len(self.norms) >= max(2, (self.norms.maxlen or 0) // 2):
            usual = statistics.fmean(self.norms)
            is_spike = norm - usual > self.sigma * statistics.stdev(self.norms)
            if is_spike:
                line = f"the gradient norm of step {step} is {norm:.4g}, usual is {usual:.4g}"
                print(f"headrace: {line}", file=sys.stderr, flush=True)
                send("spike", self.stage, line)
        self.norms.append(norm)
        return is_spike
