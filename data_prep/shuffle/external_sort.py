"""Sorting more records than memory holds.

    add ──> buffer ── full: sorted, written ──> run 0 | run 1 | run 2 …      files in a private folder
               │                                 └───── merge ─────┘         a window of each run in memory
               └── all fit: sorted ─────────────────────┴──> blocks          numpy arrays, sorted throughout

A round of the merge looks at the last record in each window whose run goes on behind it. What sorts up to the least of
them cannot be preceded by anything still on disk: it is taken out of all windows, sorted (stable; runs come in the
order in which they were added) and given out, and the windows are filled up again. More runs than windows fit are
merged in several passes (Knuth, The Art of Computer Programming 3, 5.4). Nothing is done record by record.

Runs are written and read in chunks, each of which must be what was written.

Memory does not depend on what the records are: blocks may end within a run of equal keys, however long it is.
``records.whole_runs`` puts such runs together for who needs them whole; it holds one run at a time.
"""

import array
import contextlib
import dataclasses
import itertools
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from headrace.data_prep.shuffle.records import Records, columns, equal_range, stable_order
from headrace.data_prep.shuffle.slices import checksum
from headrace.pipeline.core.errors import RetryableError

WORKSPACE_BYTES = 56
"""What ``stable_order`` needs for each record beside three values of the widest column."""

BLOCK_BYTES = 1 << 22
"""Blocks are given out, and runs written, in pieces of this size, or a 16th of the memory if that is less."""

LEAST_WINDOW = 1 << 12
"""Records of each run in memory below which another pass costs less than reading such small pieces."""


class ExternalSort:
    """A context manager: takes records by ``add``, gives them out sorted by ``blocks``, once."""

    def __init__(self, dtype: "np.dtype[np.void]", by: Sequence[str], memory_bytes: int, folder: Path) -> None:
        """Prepare to sort.

        Args:
            dtype: of the records.
            by: fields to sort by (see ``records``). Records that are equal in all of them keep their order.
            memory_bytes: bound on all that sorting holds, the block just given out and the next one included. A few
                records are held even where it is too small for them.
            folder: where a private folder for runs is made; it is removed at the end of the context, also after errors.
        """
        self._dtype, self._by, self._folder = dtype, tuple(by), folder
        block_bytes = min(BLOCK_BYTES, memory_bytes // 16)
        self._piece = max(1, block_bytes // dtype.itemsize)
        self._memory_bytes = memory_bytes - 2 * block_bytes
        workspace = WORKSPACE_BYTES + 3 * max(column.itemsize for column in columns(np.empty(0, dtype), by))
        self._merging = 2 * dtype.itemsize + workspace
        self._buffer = np.empty(max(1, self._memory_bytes // (dtype.itemsize + workspace)), dtype)
        self._used = 0
        self._runs: list[_Run] = []
        self._names = map(str, itertools.count())
        self._cleanup = contextlib.ExitStack()
        self.count = 0
        """Records added."""

    def __enter__(self) -> "ExternalSort":
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def add(self, records: Records) -> None:
        """Take a copy of ``records``."""
        self.count += records.size
        while records.size:
            if self._used == self._buffer.size:
                self._spill()
            taken = records[: self._buffer.size - self._used]
            self._buffer[self._used : self._used + taken.size] = taken
            self._used += taken.size
            records = records[taken.size :]

    def blocks(self) -> Iterator[Records]:
        """All records, sorted, in blocks that are not empty; a run of equal keys may go on in the next."""
        if not self._runs:
            yield from self._in_order(self._buffer[: self._used])
            return
        self._spill()
        self._buffer = self._buffer[:0].copy()
        fan_in = max(2, self._memory_bytes // (self._merging * LEAST_WINDOW))
        runs = self._runs
        while len(runs) > fan_in:
            runs = [self._merge_to_one(runs[i : i + fan_in]) for i in range(0, len(runs), fan_in)]
        yield from self._merge(runs)

    def _spill(self) -> None:
        if not self._runs:
            self._folder.mkdir(parents=True, exist_ok=True)
            private = tempfile.TemporaryDirectory(prefix="sort-", dir=self._folder)
            self._folder = Path(self._cleanup.enter_context(private))
        self._runs.append(self._write(self._in_order(self._buffer[: self._used])))
        self._used = 0

    def _write(self, blocks: Iterable[Records]) -> "_Run":
        run = _Run(self._folder / next(self._names))
        most = max(1, min(LEAST_WINDOW, self._memory_bytes // (2 * self._merging)))
        with run.path.open("wb") as stream:
            for block in blocks:
                block.tofile(stream)
                for start in range(0, block.size, most):
                    run.add(block[start : start + most])
        return run

    def _in_order(self, records: Records) -> Iterator[Records]:
        order = stable_order(records, self._by)
        for start in range(0, order.size, self._piece):
            yield records.take(order[start : start + self._piece])

    def _merge_to_one(self, runs: "list[_Run]") -> "_Run":
        merged = self._write(self._merge(runs))
        for run in runs:
            run.path.unlink()
        return merged

    def _merge(self, runs: "list[_Run]") -> Iterator[Records]:
        size = max(1, self._memory_bytes // (self._merging * len(runs)))
        windows = [_Window(run, np.empty(min(size, run.count), self._dtype), self._by) for run in runs]
        merged = np.empty(sum(window.capacity for window in windows), self._dtype)
        while windows := [window for window in windows if window.fill()]:
            lasts = [(window.last(), place) for place, window in enumerate(windows) if window.unread]
            bound, bound_place = min(lasts, default=(None, 0))
            n = 0
            for place, window in enumerate(windows):
                taken = window.take(bound, including_equal=place <= bound_place)
                merged[n : n + taken.size] = taken
                n += taken.size
            yield from self._in_order(merged[:n])


@dataclasses.dataclass(frozen=True)
class _Run:
    """Sorted records, one behind the other in a file, in chunks that fit in the smallest window."""

    path: Path
    sizes: "array.array[int]" = dataclasses.field(default_factory=lambda: array.array("Q"))
    """Records of each chunk."""
    checksums: "array.array[int]" = dataclasses.field(default_factory=lambda: array.array("Q"))

    @property
    def count(self) -> int:
        return sum(self.sizes)

    def add(self, chunk: Records) -> None:
        """Remember the chunk that was written last."""
        self.sizes.append(chunk.size)
        self.checksums.append(checksum(chunk))


class _Window:
    """The part of a run that is in memory."""

    def __init__(self, run: _Run, space: Records, by: Sequence[str]) -> None:
        self._run, self._space, self._by = run, space, by
        self._start = self._end = self._chunk = 0
        self.unread = run.count
        """Records of the run that are still to be read."""
        self._offset_bytes = 0

    @property
    def capacity(self) -> int:
        return self._space.size

    def fill(self) -> bool:
        """Read chunks until no other fits in the window or the run is at its end; is there anything in the window?

        Raises:
            RetryableError: when one is not what was written.
        """
        left = self._end - self._start
        self._space[:left] = self._space[self._start : self._end].copy()
        self._start, self._end = 0, left
        with self._run.path.open("rb") as stream:
            stream.seek(self._offset_bytes)
            while self.unread and self._end + self._run.sizes[self._chunk] <= self.capacity:
                self._read(stream)
        return self._end > 0

    def _read(self, stream: BinaryIO) -> None:
        size = self._run.sizes[self._chunk]
        chunk = self._space[self._end : self._end + size]
        n_bytes = stream.readinto(chunk.view(np.uint8).data)  # type: ignore[attr-defined]
        if n_bytes != chunk.nbytes or checksum(chunk) != self._run.checksums[self._chunk]:
            raise RetryableError(str(self._run.path), "is damaged: what was sorted is not what is read", "run again")
        self._offset_bytes += n_bytes
        self._chunk, self._end, self.unread = self._chunk + 1, self._end + size, self.unread - size

    def last(self) -> tuple[Any, ...]:
        """The key of the last record in the window."""
        return tuple(column[-1] for column in columns(self._space[: self._end], self._by))

    def take(self, bound: tuple[Any, ...] | None, including_equal: bool) -> Records:
        """The records up to the key ``bound``, or all; they leave the window."""
        held = self._space[self._start : self._end]
        if bound is not None:
            low, high = equal_range(held, self._by, bound)
            held = held[: high if including_equal else low]
        self._start += held.size
        return held


def external_sort(
    blocks: Iterable[Records], dtype: "np.dtype[np.void]", by: Sequence[str], memory_bytes: int, folder: Path
) -> Generator[Records, None, None]:
    """The records of ``blocks`` in sorted blocks (see ``ExternalSort``)."""
    with ExternalSort(dtype, by, memory_bytes, folder) as sort:
        for block in blocks:
            sort.add(block)
        yield from sort.blocks()
