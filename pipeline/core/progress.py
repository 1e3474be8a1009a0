"""Shows progress: a bar on a terminal, one line every 30 seconds in a log file.

weights ━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━  12/18 steps  0:00:41  loss 3.14              (training, on a terminal)
weights 12/18 steps, 0.3/s, 0:00:20 to go, loss 3.14                                 (in a log)
{"done": 12, "total": 18, "unit": "steps"}                                           (trail, read by another process)
12/18 steps, 0.3/s, 0:00:20 to go, loss 3.14                                         (latest, read by headrace status)

duplicates ━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━  0:00:41  phase 9/12 stars_2, 12/16 tasks  (data stage, on a terminal)
clean: phase 1/5 0-filter, 2/4 tasks, 730 records (66/s), 31/66 MB, 0:00:20 to go    (in a log)
clean: 5 phases in 0:01:02                                                           (its end in a log)

The task of a worker counts what it reads, and the main process shows the sum:

count(records=1) ──> Amounts ── every half second ──> report: the worker's pipe (run/workers.py) ──> StageProgress
"""

import contextlib
import dataclasses
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import orjson
from typing_extensions import Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

COUNT_EVERY_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Amounts:
    """The amounts that a task has read: records, and bytes of raw files."""

    records: int = 0
    raw_bytes: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.records + other.records, self.raw_bytes + other.raw_bytes)


class _Counter:
    """Amounts that were counted in this process and not yet reported."""

    def __init__(self, report: Callable[[Amounts], None]) -> None:
        self.report, self.unreported, self.reported_at = report, Amounts(), time.monotonic()

    def flush(self) -> None:
        if self.unreported != Amounts():
            self.report(self.unreported)
        self.unreported, self.reported_at = Amounts(), time.monotonic()


_counter: list[_Counter] = []
"""The counter of this process, while a task runs whose progress is shown."""


@contextlib.contextmanager
def counting(report: Callable[[Amounts], None]) -> Iterator[None]:
    """Reports what is counted (``count``) inside the block: at its end, and every COUNT_EVERY_SECONDS."""
    before = _counter[:]
    _counter[:] = [_Counter(report)]
    try:
        yield
        _counter[0].flush()
    finally:
        _counter[:] = before


def count(records: int = 0, raw_bytes: int = 0) -> None:
    """Adds to the amounts that the task of this process has read."""
    for counter in _counter:
        counter.unreported += Amounts(records, raw_bytes)
        if time.monotonic() - counter.reported_at >= COUNT_EVERY_SECONDS:
            counter.flush()


LOG_EVERY_SECONDS = 30.0
TRAIL = "logs/progress.jsonl"
"""The path of the trail below the folder of an artifact."""
LATEST = "logs/progress.txt"
"""The path of the latest line below the folder of an artifact."""
LATEST_EVERY_SECONDS = 5.0


class _Shown:
    """A bar on a terminal; in a log a line now and then."""

    def __init__(self, label: str, total: float, unit: str | None = None) -> None:
        from rich import console, progress  # not for commands that show none

        self._label = label
        self._began = self._logged = time.monotonic()
        self._bars: Bars | None = None
        stderr = console.Console(stderr=True)
        if stderr.is_terminal:
            texts = ("{task.description:<11}", unit or "", "{task.fields[facts]}")
            name, units, facts = (progress.TextColumn(text, markup=False) for text in texts)
            bar, elapsed, left = progress.BarColumn(30), progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
            columns = (elapsed,) if unit is None else (progress.MofNCompleteColumn(), units, elapsed, left)
            self._bars = progress.Progress(name, bar, *columns, facts, console=stderr)
            self._bar = self._bars.add_task(label, total=total, facts="")

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()
        elif kind is None:
            self.print_line(self._last_line())

    def print_line(self, line: str) -> None:
        """Prints ``line`` unchanged, above the bar if there is one."""
        _print_line(self._bars, line)

    def _show(self, done: float, facts: str) -> None:
        if self._bars:
            self._bars.update(self._bar, completed=done, facts=facts)
        elif time.monotonic() - self._logged >= LOG_EVERY_SECONDS:
            self._logged = time.monotonic()
            self.print_line(self._log_line())

    def _log_line(self) -> str:
        raise NotImplementedError

    def _last_line(self) -> str:
        return self._log_line()


class Progress(_Shown):
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
        super().__init__(label, total, unit)
        self._total, self._unit, self._trail, self._latest = total, unit, trail, latest
        self._done, self._done_before, self._facts = 0, 0, ""
        self._written = -LATEST_EVERY_SECONDS

    def advance(self, steps: int = 1, **facts: float | int | str) -> None:
        """Counts ``steps`` more as done. ``facts`` (``loss=3.2``) are shown after the count."""
        self._done += steps
        if facts:
            self._facts = "  ".join(f"{name} {_shown(value)}" for name, value in facts.items())
        if self._trail:
            row = {"done": self._done, "total": self._total, "unit": self._unit}
            with self._trail.open("ab") as file:
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        self._show(self._done, self._facts)
        if time.monotonic() - self._written >= LATEST_EVERY_SECONDS:
            self._write_latest()

    def skip(self, steps: int) -> None:
        """Counts ``steps`` as done before. The time and the rate begin now."""
        self._done = self._done_before = self._done + steps
        self._began = time.monotonic()
        if self._bars:
            self._bars.reset(self._bar, completed=self._done)

    def reach(self, done: int, **facts: float | int | str) -> None:
        """Shows that ``done`` steps are done. The first time, and when the work went back, the rate begins there."""
        if not self._done or done < self._done:
            self.skip(done - self._done)
        self.advance(done - self._done, **facts)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write_latest()
        super().__exit__(kind, error, trace)

    def _write_latest(self) -> None:
        self._written = time.monotonic()
        if self._latest:
            temporary = self._latest.with_name(f"tmp-{self._latest.name}")
            with contextlib.suppress(OSError):  # a full disk must not end the work
                temporary.write_text(self._line())
                temporary.replace(self._latest)

    def _log_line(self) -> str:
        return f"{self._label} {self._line()}"

    def _line(self) -> str:
        """Returns the progress without its label."""
        line = f"{self._done:,}/{self._total:,} {self._unit}"
        if rate := (self._done - self._done_before) / max(time.monotonic() - self._began, 1e-9):
            line += f", {rate:.3g}/s, {duration((self._total - self._done) / rate)} to go"
        return f"{line}  {self._facts}".rstrip()


def latest_line(folder: Path) -> str:
    """Returns the latest line about the work on the artifact in ``folder``; an empty text when there is none."""
    with contextlib.suppress(OSError):
        return (folder / LATEST).read_text()
    return ""


def latest_count(folder: Path) -> str:
    """Returns how far the work on the artifact in ``folder`` came, ``12/18 steps``; empty when that is unknown."""
    return re.split(r", |  ", latest_line(folder))[0]


class StageProgress(_Shown):
    """Shows the progress of a data stage of ``phases`` phases: its tasks, and what they read."""

    def __init__(self, label: str, phases: int) -> None:
        super().__init__(label, 1.0)
        self._phases = phases
        self.start_phase(0, "", 0)

    def start_phase(self, number: int, name: str, tasks: int, raw_bytes: int = 0) -> None:
        """Starts phase ``number`` (from 1), whose tasks read ``raw_bytes`` of raw files; 0 if they read none."""
        self._number, self._name, self._tasks, self._total_bytes = number, name, tasks, raw_bytes
        self._done, self._read, self._phase_began = 0, Amounts(), time.monotonic()
        self._fraction_before = 0.0
        self._update()

    def skip(self, tasks: int) -> None:
        """Counts ``tasks`` of the phase as done before. They are not in the time that is left."""
        self._done += tasks
        self._fraction_before = self._fraction
        self._update()

    def advance(self, tasks: int) -> None:
        """Counts ``tasks`` more of the phase as done."""
        self._done += tasks
        self._update()

    def count(self, more: Amounts) -> None:
        """Counts what a task of the phase has read in addition."""
        self._read += more
        self._update()

    def _update(self) -> None:
        self._show((self._number - 1 + self._fraction) / self._phases, self._text() if self._bars else "")

    def _log_line(self) -> str:
        return f"{self._label}: {self._text()}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars and kind is None:
            self._show(1.0, self._all_phases)
        super().__exit__(kind, error, trace)

    def _last_line(self) -> str:
        return f"{self._label}: {self._all_phases} in {duration(time.monotonic() - self._began)}"

    @property
    def _all_phases(self) -> str:
        return "1 phase" if self._phases == 1 else f"{self._phases} phases"

    @property
    def _fraction(self) -> float:
        """The fraction of the phase that is done: by bytes if it reads raw files, else by tasks."""
        by_bytes = self._read.raw_bytes / self._total_bytes if self._total_bytes else 0.0
        return min(1.0, max(by_bytes, self._done / max(self._tasks, 1)))

    def _text(self) -> str:
        seconds = max(time.monotonic() - self._phase_began, 1e-9)
        facts = [phase_text(self._number, self._phases, self._name, self._done, self._tasks)]
        if self._read.records:
            facts.append(f"{self._read.records:,} records ({self._read.records / seconds:.3g}/s)")
        if self._total_bytes:
            facts.append(f"{self._read.raw_bytes / 1e6:,.0f}/{self._total_bytes / 1e6:,.0f} MB")
        if self._fraction_before < self._fraction < 1:
            rate = (self._fraction - self._fraction_before) / seconds
            facts.append(f"{duration((1 - self._fraction) / rate)} to go")
        return ", ".join(facts)


def phase_text(number: int, phases: int, name: str, done: int, tasks: int) -> str:
    """Returns how far phase ``number`` of ``phases`` is, ``phase 9/12 stars_2, 12/16 tasks``."""
    return f"phase {number}/{phases} {name}, {done}/{tasks} tasks"


def follow_trail(label: str, looks: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    """Shows the progress of another process: each of ``looks`` has the new lines of its trail, and texts."""
    progress: Progress | None = None
    with contextlib.ExitStack() as stack:
        for rows in looks:
            for row in rows:
                if "line" in row:
                    _print_line(progress._bars if progress else None, row["line"])
            if "done" in (latest := rows[-1]):
                progress = progress or stack.enter_context(Progress(label, latest["total"], latest["unit"]))
                progress.reach(latest["done"])


def duration(seconds: float) -> str:
    """Returns a time as text: hours, minutes and seconds, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _shown(value: float | int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else value


def _print_line(bars: "Bars | None", line: str) -> None:
    if bars:
        bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
    else:
        print(line, file=sys.stderr, flush=True)
