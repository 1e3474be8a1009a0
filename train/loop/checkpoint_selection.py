"""The choice of the best checkpoint by a metric of the validation, and the early end of a training.

The best value and the number of validations since then are part of ``State``, so a resumed training decides as one that
was never interrupted. The checkpoint of the best step is kept (train/checkpoint/store.py).
"""

import dataclasses
from collections.abc import Mapping

from headrace.train.checkpoint.state import State


@dataclasses.dataclass(frozen=True)
class CheckpointSelection:
    """The rule: the highest value of ``metric``; of equal ones, the first."""

    metric: str
    patience: int | None
    """The validations without a better value after which a training ends; None: it never does."""

    def noted(self, state: State, values: Mapping[str, float]) -> State:
        """Returns ``state`` with the ``values`` of the validation after its step."""
        value = values[self.metric]
        if state.best_value is None or value > state.best_value:
            return dataclasses.replace(state, best_step=state.step, best_value=value, worse_validations=0)
        return dataclasses.replace(state, worse_validations=state.worse_validations + 1)

    def ends(self, state: State) -> bool:
        """Whether a training ends early in this ``state``."""
        return self.patience is not None and state.worse_validations >= self.patience
