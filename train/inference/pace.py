"""How far a scoring is: shown, told to the launcher, and watched for ranks that hang.

round of queries done ── beat ──> watchdog
                      └─ rank 0 ──> a line of the log, logs/progress.jsonl
"""

import contextlib
from pathlib import Path
from types import TracebackType

from headrace.pipeline.core.progress import TRAIL, Progress
from headrace.train.distributed.processes import Ranks
from headrace.train.distributed.watchdog import SCORING, Watchdog


class Pace:
    """Of the scoring into ``folder``, as one of ``ranks`` does it; watched while it is entered."""

    def __init__(self, folder: Path, ranks: Ranks, hang_seconds: float) -> None:
        """A round lasts ``hang_seconds`` at most."""
        self._folder, self._ranks = folder, ranks
        self._watchdog = Watchdog(hang_seconds, hang_seconds, ranks.rank, folder, SCORING)
        self._rounds = 0
        self._progress: Progress | None = None
        self._shown = contextlib.ExitStack()

    def __enter__(self) -> "Pace":
        self._shown.enter_context(self._watchdog)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shown.__exit__(kind, error, trace)

    def expect(self, queries: int) -> None:
        """Show from now on how many of so many ``queries`` are ``answered``."""
        if self._ranks.first:
            trail = self._folder / TRAIL
            trail.parent.mkdir(parents=True, exist_ok=True)
            self._progress = self._shown.enter_context(Progress("scores", queries, "queries", trail))

    def answered(self, queries: int) -> None:
        """Say that a round of ``queries``, which were expected, is done."""
        self.beat(queries)
        if self._progress:
            self._progress.advance(queries)

    def beat(self, queries: int) -> None:
        """Say that a round of ``queries`` is done."""
        self._rounds += 1
        self._watchdog.beat(self._rounds)
