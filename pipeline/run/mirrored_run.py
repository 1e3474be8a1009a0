"""The mirror of a run: its stages are taken from there instead of computed, and put there when they are finished.

Whatever the mirror does, the run goes on: its own results are whole without it.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, HeadraceError
from headrace.pipeline.run.mirror import Mirror, label_of
from headrace.pipeline.run.saved_runs import AnyStage, SavedRun


class MirroredRun:
    """The setting ``mirror`` at work for one run; without it, nothing happens."""

    def __init__(self, run_json: Path) -> None:
        self._run = SavedRun.read(run_json)
        self._mirror: Mirror | None = None
        self._is_lost = False
        """True when it could not be reached: it is not asked any more, each further try would wait for it again."""
        if url := self._run.values["config"].get("mirror"):
            path = url if "://" in url else os.path.join(self._run.values["folder"], os.path.expanduser(url))
            try:
                self._mirror = Mirror(path)
            except HeadraceError as error:  # this job has other packages than the command that submitted it
                _warn(f"{error}; the run goes on without it")

    def take(self, stage: AnyStage) -> bool:
        """Takes the artifact of ``stage`` from the mirror. Returns whether it was taken: it was not whole before."""
        if self._mirror is None or self._is_lost or stage.is_whole:
            return False
        is_taken = self._tried(lambda mirror: mirror.take(stage.folder), f"so {stage.name} is computed here")
        if is_taken:
            print(f"{stage.name:<11} from the mirror: {stage.folder}", file=sys.stderr, flush=True)
        return is_taken

    def publish(self, stage: AnyStage) -> None:
        """Puts the artifact of ``stage`` into the mirror, if it is finished."""
        if self._mirror is not None and stage.is_whole:
            label = label_of(stage.folder)
            repeat = self._mirror.command("push", label, self._run.root)
            otherwise = f"{label} is whole here, publish it later: {repeat}"
            self._tried(lambda mirror: mirror.publish(Artifact(stage.folder)) > 0, otherwise)

    def _tried(self, action: Callable[[Mirror], bool], otherwise: str) -> bool:
        """Returns the result of ``action``; after an error false, with a warning of what happens ``otherwise``."""
        assert self._mirror is not None
        problem = "cannot be used, see above"
        if not self._is_lost:
            try:
                return action(self._mirror)
            except HeadraceError as error:
                problem, self._is_lost = str(error), not isinstance(error, ArtifactError)
        _warn(f"{problem}; {otherwise}")
        return False


def _warn(text: str) -> None:
    print(f"warning: mirror: {text}", file=sys.stderr, flush=True)
