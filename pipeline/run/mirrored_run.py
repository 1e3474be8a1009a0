"""The mirror of a run: its stages are taken from there instead of computed, and put there when they are finished.

    stage ── in the mirror? ──> taken, verified        no, or not whole there: computed
    finished stage ── publish ──> mirror               failed: a warning with the command that repeats it

Whatever the mirror does, the run goes on: its own results are whole without it.
"""

import os
import sys
from pathlib import Path

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, HeadraceError
from headrace.pipeline.run.mirror import Mirror
from headrace.pipeline.run.saved_runs import AnyStage, SavedRun


class MirroredRun:
    """The setting ``mirror`` at work for one run; without it, nothing happens."""

    def __init__(self, run_json: Path) -> None:
        self._run = SavedRun.read(run_json)
        self._mirror: Mirror | None = None
        self._taken: set[str] = set()
        self._reason = ""
        """Why the mirror is not asked any more; empty while it is."""
        if url := self._run.values["config"].get("mirror"):
            path = url if "://" in url else os.path.join(self._run.values["folder"], os.path.expanduser(url))
            self._open(path)

    def _open(self, url: str) -> None:
        try:
            self._mirror = Mirror(url)
        except HeadraceError as error:  # this job has other packages than the command that submitted it
            _warn(f"{error}; the run goes on without it")

    def take(self, stage: AnyStage) -> bool:
        """Takes the artifact of ``stage`` from the mirror. Returns whether it was taken: it was not whole before."""
        if self._mirror is None or self._reason or stage.is_whole:
            return False
        try:
            is_taken = self._mirror.take(stage.folder)
        except HeadraceError as error:
            self._note(error)
            _warn(f"{error}; so {stage.name} is computed here")
            return False
        if is_taken:
            self._taken.add(stage.address)
            print(f"{stage.name:<11} from the mirror: {stage.folder}", file=sys.stderr, flush=True)
        return is_taken

    def publish(self, stage: AnyStage) -> None:
        """Puts the artifact of ``stage`` into the mirror, if it is finished and was not taken from there."""
        if self._mirror is None or not stage.is_whole or stage.address in self._taken:
            return
        label = f"{stage.folder.parent.name}/{stage.address}"
        repeat = self._mirror.command("push", label, self._run.root)
        if self._reason:
            _warn(f"{label} was not published ({self._reason}); later: {repeat}")
            return
        try:
            self._mirror.publish(Artifact(stage.folder))
        except HeadraceError as error:
            self._note(error)
            _warn(f"{error}; {label} is whole here, publish it later: {repeat}")

    def _note(self, error: HeadraceError) -> None:
        """Ends the use of a mirror that cannot be reached: each further try would wait for it again."""
        if not isinstance(error, ArtifactError):
            self._reason = "the mirror cannot be used, see above"


def _warn(text: str) -> None:
    print(f"warning: mirror: {text}", file=sys.stderr, flush=True)
