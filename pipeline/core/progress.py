"""Shows progress: a bar on a terminal, one line every 30 seconds in a log file.

clean ━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━  12/18 tasks  0:00:41  kept 10,302           (terminal)
clean 12/18 tasks, 0.3/s, 0:00:20 to go, kept 10,302                              (log)
{"done": 12, "total": 18, "unit": "tasks"}                                        (trail, read by another process)
12/18 tasks, 0.3/s, 0:00:20 to go, kept 10,302                                    (latest, read by headrace status)
"""

import contextlib
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

LOG_EVERY_SECONDS = 30.0
TRAIL = "logs/progress.jsonl"
"""The path of the trail below the folder of an artifact."""
LATEST = "logs/progress.txt"
"""The path of the latest line below the folder of an artifact."""
LATEST_EVERY_SECONDS = 5.0


class Progress:
    """Shows the progress of ``total`` steps of ``unit`` (tasks, steps, items)."""

    def __init__(
        self, label: str, total: int, unit: str, trail: Path | None = None, latest: Path | None = None
    ) -> None:
        """Begins to show it.

        Args:
            label: what makes the progress.
            total: the number of all steps.
            unit: the name of the steps.
            trail: a file to which each advance is appended.
            latest: a file that holds the latest line, rewritten every ``LATEST_EVERY_SECONDS``.
        """
        self._label, self._total, self._unit, self._trail, self._latest = label, total, unit, trail, latest
        self._done, self._done_before, self._facts = 0, 0, ""
        self._started = self._logged = time.monotonic()
        self._written = -LATEST_EVERY_SECONDS
        self._bars: Bars | None = None
        console = Console(stderr=True)
        if console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description:<11}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn(unit, markup=False),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[facts]}", markup=False),
                console=console,
            )
            self._bar = self._bars.add_task(label, total=total, facts="")

    def __enter__(self) -> "Progress":
        if self._bars:
            self._bars.start()
        return self

    def advance(self, steps: int = 1, **facts: float | int | str) -> None:
        """Counts ``steps`` more as done. ``facts`` (``loss=3.2``) are shown after the count."""
        self._done += steps
        if facts:
            self._facts = "  ".join(f"{name} {_shown(value)}" for name, value in facts.items())
        if self._trail:
            row = {"done": self._done, "total": self._total, "unit": self._unit}
            with self._trail.open("ab") as file:
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        if self._bars:
            self._bars.update(self._bar, completed=self._done, facts=self._facts)
        elif time.monotonic() - self._logged >= LOG_EVERY_SECONDS:
            self._log()
        if self._latest and time.monotonic() - self._written >= LATEST_EVERY_SECONDS:
            self._write_latest(self._latest)

    def skip(self, steps: int) -> None:
        """Counts ``steps`` as done before. The time and the rate begin now."""
        self._done = self._done_before = self._done + steps
        self._started = time.monotonic()
        if self._bars:
            self._bars.reset(self._bar, completed=self._done)

    def print_line(self, line: str) -> None:
        """Prints ``line`` unchanged, above the bar if there is one."""
        if self._bars:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()
        elif kind is None:
            self._log()

    def _log(self) -> None:
        self._logged = time.monotonic()
        print(f"{self._label} {self._line()}", file=sys.stderr, flush=True)

    def _write_latest(self, path: Path) -> None:
        self._written = time.monotonic()
        temporary = path.with_name(f"tmp-{path.name}")
        with contextlib.suppress(OSError):  # a full disk must not end the work
            temporary.write_text(self._line())
            temporary.replace(path)

    def _line(self) -> str:
        """Returns the progress without its label."""
        rate = (self._done - self._done_before) / max(time.monotonic() - self._started, 1e-9)
        left = (self._total - self._done) / rate if rate else 0.0
        line = f"{self._done:,}/{self._total:,} {self._unit}, {rate:.3g}/s, {duration(left)} to go"
        return f"{line}  {self._facts}".rstrip()


def latest_line(folder: Path) -> str:
    """Returns the latest line about the work on the artifact in ``folder``; an empty text when there is none."""
    with contextlib.suppress(OSError):
        return (folder / LATEST).read_text()
    return ""


def follow_trail(label: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Shows the progress of another process from ``rows``, the lines of its trail as they are written."""
    progress: Progress | None = None
    shown = 0
    with contextlib.ExitStack() as stack:
        for row in rows:
            progress = progress or stack.enter_context(Progress(label, row["total"], row["unit"]))
            progress.advance(row["done"] - shown)
            shown = row["done"]


def duration(seconds: float) -> str:
    """Returns a time as text: hours, minutes and seconds, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _shown(value: float | int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value
