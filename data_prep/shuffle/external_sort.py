"""Sorts more records than memory holds.

    add ──> buffer ── full: sorted, written ──> run 0 | run 1 | run 2 …      files in a private folder
               │                                 └───── merge ─────┘         a window of each run in memory
               └── all fit: sorted ─────────────────────┴──> blocks          numpy arrays, sorted throughout

In each round of the merge, the bound is the smallest of the last records of all windows whose runs continue on disk. No
record on disk sorts before the bound. So the records up to the bound are taken out of all windows, sorted (the sort is
stable, and runs are in the order in which they were added) and yielded; then the windows are filled again. If there are
more runs than windows that fit in memory, they are merged in several passes (Knuth, The Art of Computer Programming 3,
5.4). All steps work on arrays, never on single records.

Runs are written and read in chunks. The checksum of each chunk is verified.

Memory does not depend on the keys: a block may end within a run of equal keys. ``records.whole_runs`` joins such runs
and holds one run at a time.
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
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.errors import RetryableError

WORKSPACE_BYTES = 56
"""Bytes that ``stable_order`` needs for each record, in addition to three values of the widest column."""

BLOCK_BYTES = 1 << 22
"""Blocks are yielded, and runs written, in pieces of this size, or a 16th of the memory if that is less."""

LEAST_WINDOW = 1 << 12
"""Least records in a window. Below this, another pass costs less than reading such small pieces."""


class ExternalSort:
    """Context manager that sorts records: ``add`` takes them, ``blocks`` yields them sorted, once."""

    def __init__(self, dtype: "np.dtype[np.void]", by: Sequence[str], memory_bytes: int, folder: Path) -> None:
        """Prepares to sort.

        Args:
            dtype: dtype of the records.
            by: fields to sort by (see ``records``). Records with equal keys keep their order.
            memory_bytes: bound on memory, including the block just yielded and the next one. A few records are held
                even if the bound is too small for them.
            folder: where the private folder of runs is created. It is removed at the end, also after errors.
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
        """Number of records added."""

    def __enter__(self) -> "ExternalSort":
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def add(self, records: Records) -> None:
        """Adds a copy of ``records``."""
        self.count += records.size
        while records.size:
            if self._used == self._buffer.size:
                self._spill()
            taken = records[: self._buffer.size - self._used]
            self._buffer[self._used : self._used + taken.size] = taken
            self._used += taken.size
            records = records[taken.size :]

    def blocks(self) -> Iterator[Records]:
        """Yields all records, sorted, in blocks that are not empty. A run of equal keys may span blocks."""
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
            make(self._folder)
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
            lasts = [(window.last(), index) for index, window in enumerate(windows) if window.unread]
            bound, bound_index = min(lasts, default=(None, 0))
            n = 0
            for index, window in enumerate(windows):
                taken = window.take(bound, including_equal=index <= bound_index)
                merged[n : n + taken.size] = taken
                n += taken.size
            yield from self._in_order(merged[:n])


@dataclasses.dataclass(frozen=True)
class _Run:
    """Sorted records in a file, in chunks that fit in the smallest window."""

    path: Path
    sizes: "array.array[int]" = dataclasses.field(default_factory=lambda: array.array("Q"))
    """Records of each chunk."""
    checksums: "array.array[int]" = dataclasses.field(default_factory=lambda: array.array("Q"))

    @property
    def count(self) -> int:
        return sum(self.sizes)

    def add(self, chunk: Records) -> None:
        """Notes size and checksum of the chunk that was written last."""
        self.sizes.append(chunk.size)
        self.checksums.append(checksum(chunk))


class _Window:
    """The part of a run that is in memory."""

    def __init__(self, run: _Run, space: Records, by: Sequence[str]) -> None:
        self._run, self._space, self._by = run, space, by
        self._start = self._end = self._chunk = 0
        self.unread = run.count
        """Records of the run that are not yet read."""
        self._offset_bytes = 0

    @property
    def capacity(self) -> int:
        return self._space.size

    def fill(self) -> bool:
        """Reads chunks until the next one does not fit in the window or the run ends.

        Returns:
            Whether the window holds records.

        Raises:
            RetryableError: if a chunk is damaged.
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
            raise RetryableError(str(self._run.path), "is damaged: its records are not those written", "run again")
        self._offset_bytes += n_bytes
        self._chunk, self._end, self.unread = self._chunk + 1, self._end + size, self.unread - size

    def last(self) -> tuple[Any, ...]:
        """Returns the key of the last record in the window."""
        return tuple(column[-1] for column in columns(self._space[: self._end], self._by))

    def take(self, bound: tuple[Any, ...] | None, including_equal: bool) -> Records:
        """Removes the records up to the key ``bound`` from the window and returns them; all records if it is None."""
        held = self._space[self._start : self._end]
        if bound is not None:
            low, high = equal_range(held, self._by, bound)
            held = held[: high if including_equal else low]
        self._start += held.size
        return held


def external_sort(
    blocks: Iterable[Records], dtype: "np.dtype[np.void]", by: Sequence[str], memory_bytes: int, folder: Path
) -> Generator[Records, None, None]:
    """Yields the records of ``blocks`` in sorted blocks (see ``ExternalSort``)."""
    with ExternalSort(dtype, by, memory_bytes, folder) as sort:
        for block in blocks:
            sort.add(block)
        yield from sort.blocks()
