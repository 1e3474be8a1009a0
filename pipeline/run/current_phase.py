"""The phase that an unfinished stage is at, from its part records: the first with a task that is not done.

parts/stars_2-00000.json, … ──> phase 8/12 stars_2, 12/16 tasks
"""

import dataclasses

from typing_extensions import Self

from headrace.pipeline.core.progress import phase_text
from headrace.pipeline.run.saved import AnyStage


@dataclasses.dataclass(frozen=True)
class CurrentPhase:
    """Phase ``number`` (from 1) of ``phases``, with ``done`` of its ``tasks``."""

    number: int
    phases: int
    name: str
    done: int
    tasks: int

    @classmethod
    def of(cls, stage: AnyStage) -> Self | None:
        """Returns the phase that ``stage`` is at; None when all tasks are done, or an earlier version planned it."""
        for number, phase in enumerate(stage.phases, 1):
            if missing := len(stage.missing(phase)):
                return cls(number, len(stage.phases), phase.name, phase.tasks - missing, phase.tasks)
        return None

    def __str__(self) -> str:
        return phase_text(self.number, self.phases, self.name, self.done, self.tasks)
