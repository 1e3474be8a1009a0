"""Shingle sets of candidates on disk: one file for each shard, and one gathered file for each bucket.

    sets/00007.u64       sets of the candidates of shard 7, one after the other; (document, start, shingles) locates
    one;
                         after each set its checksum, XXH64, which is verified at each read
        │ add            each file is opened once and read from its beginning to its end
    an unnamed file      sets of the documents of one bucket, in the order of their numbers
        │ read           a batch at a time, from its beginning to its end
    bounds, hashes       hashes[bounds[i] : bounds[i + 1]] is one set: sorted, distinct

Sets are needed in the order of LSH groups or of components, not of documents. So each bucket first gathers its sets.
The cost of later reads then depends neither on the number of shards nor on their size.
"""

import contextlib
import dataclasses
import itertools
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from headrace.data_prep.dedup.corpus import Numbers, shards_of
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.exchange import allocate, sorting_folder
from headrace.data_prep.shuffle.records import run_bounds
from headrace.data_prep.text.xxh64 import xxh64
from headrace.pipeline.core.artifact import TaskOutput, damaged, unverified
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.errors import RetryableError

Hashes = NDArray[np.uint64]
Offsets = NDArray[np.int64]

PHASE = "sets"
"""The phase whose tasks write the sets."""
KIND, SUFFIX = "sets", "u64"
SOURCE = f"{PHASE}/{KIND}"

HASH_BYTES = 8
CHECKSUM = 1
"""64-bit words after each set."""
GAP_HASHES = 512
"""Largest gap between two sets in a file, in hashes (4 KiB), for which one read costs less than two."""


def write_sets(out: TaskOutput, sets: list[Hashes]) -> tuple[Offsets, Offsets]:
    """Writes the sets of this task's shard to a scratch file. Returns the start of each in it, and its size."""
    shingles = np.array([shingle_set.size for shingle_set in sets], np.int64)
    words = [
        word
        for shingle_set in sets
        for word in (shingle_set, np.array([xxhash.xxh64_intdigest(shingle_set.data)], np.uint64))
    ]
    with out.scratch(KIND, SUFFIX) as path:
        np.concatenate([np.empty(0, np.uint64), *words]).tofile(path)
    return np.cumsum(shingles + CHECKSUM) - shingles - CHECKSUM, shingles


class GatheredSets:
    """Context manager that gathers the sets of one bucket's documents in a file."""

    def __init__(self, out: TaskOutput, memory_bytes: int) -> None:
        """Prepares to gather. A batch of sets takes ``memory_bytes``, and up to six times that while it is read."""
        self._out, self._memory_bytes = out, memory_bytes
        self._shard, self._stored = -1, contextlib.ExitStack()
        self._end = 0

    def __enter__(self) -> "GatheredSets":
        folder = sorting_folder(self._out)
        make(folder)
        self._gathered = _SetFile(tempfile.TemporaryFile(dir=folder, buffering=0))
        return self

    def __exit__(self, *error: object) -> None:
        self._stored.close()
        self._gathered.stream.close()

    def add(self, documents: Numbers, starts: Offsets, shingles: Offsets) -> Offsets:
        """Copies the sets of ``documents``, in ascending order, from their shards. Returns the start of each here.

        Raises:
            RetryableError: if the file of a shard is damaged or missing.
        """
        ends = self._end + np.cumsum(shingles + CHECKSUM)
        for first, last in itertools.pairwise(run_bounds(shards_of(documents)).tolist()):
            shard = int(shards_of(documents[first : first + 1])[0])
            stored = self._open(shard)
            for start, end in self.batches(shingles[first:last]):
                piece = slice(first + start, first + end)
                words = np.empty(int((shingles[piece] + CHECKSUM).sum()), np.uint64)
                if not stored.read(starts[piece], shingles[piece], words, CHECKSUM):
                    raise damaged(self._out, SOURCE, shard, SUFFIX)
                words.tofile(self._gathered.stream)
        self._end = int(ends[-1]) if ends.size else self._end
        return ends - shingles - CHECKSUM

    def read(self, starts: Offsets, shingles: Offsets) -> tuple[Offsets, Hashes]:
        """Reads gathered sets, in ascending order of ``starts``, as ``bounds`` and ``hashes``.

        More than two batches are read into a memory-mapped file.

        Raises:
            RetryableError: if the gathered file is damaged.
        """
        bounds = np.concatenate(([0], np.cumsum(shingles))).astype(np.int64)
        hashes = allocate(self._out, int(bounds[-1]), np.uint64, 2 * self._memory_bytes)
        for start, end in self.batches(shingles):
            target = hashes[bounds[start] : bounds[end]]
            if not self._gathered.read(starts[start:end], shingles[start:end], target, 0):
                folder = str(sorting_folder(self._out))
                raise RetryableError(folder, "the shingle sets gathered there are damaged", "run again")
        return bounds, hashes

    def batches(self, shingles: Offsets) -> Iterator[tuple[int, int]]:
        """Returns start and end of batches of sets with these sizes: at most a batch of memory, and one set more."""
        return itertools.pairwise(run_bounds(np.cumsum(shingles) * HASH_BYTES // max(1, self._memory_bytes)).tolist())

    def _open(self, shard: int) -> "_SetFile":
        if shard != self._shard:
            self._stored.close()
            path = unverified(self._out, SOURCE, shard, SUFFIX)
            try:
                stream = self._stored.enter_context(path.open("rb", buffering=0))
            except FileNotFoundError:
                raise damaged(self._out, SOURCE, shard, SUFFIX) from None
            self._shard, self._file = shard, _SetFile(stream)
        return self._file


@dataclasses.dataclass(frozen=True)
class _SetFile:
    """A file of sets and their checksums, opened without a buffer."""

    stream: Any

    def read(self, starts: Offsets, shingles: Offsets, target: Hashes, kept: int) -> bool:
        """Reads the sets at ``starts`` (ascending) into ``target``, one after the other.

        Args:
            starts: offset of each set in the file, in 64-bit words.
            shingles: size of each set.
            found: output array, of the size of all sets and the words kept after them.
            kept: CHECKSUM to copy each set's checksum, too, else 0.

        Returns:
            Whether all checksums match.
        """
        ends = starts + shingles + CHECKSUM
        cuts = np.flatnonzero(starts[1:] - ends[:-1] > GAP_HASHES) + 1
        first, last = np.concatenate(([0], cuts)), np.concatenate((cuts, [starts.size])) - 1
        lengths = ends[last] - starts[first]
        offsets = np.cumsum(lengths) - lengths
        read = target if lengths.sum() == target.size else np.empty(int(lengths.sum()), np.uint64)
        view, n_bytes, offset = read.view(np.uint8).data, 0, 0
        for start, size in zip((starts[first] * HASH_BYTES).tolist(), (lengths * HASH_BYTES).tolist(), strict=True):
            n_bytes += self._fill(view[offset : offset + size], start)
            offset += size
        positions = starts + np.repeat(offsets - starts[first], last - first + 1)
        return n_bytes == read.nbytes and bool(
            _copy_verified(read, read.view(np.uint8), positions, shingles, target, kept)
        )

    def _fill(self, view: memoryview, start: int) -> int:
        """Reads bytes from offset ``start`` into ``view`` and returns their number.

        (One call reads less than 2 GiB.)
        """
        filled = 0
        while filled < len(view) and (got := os.preadv(self.stream.fileno(), [view[filled:]], start + filled)):
            filled += got
        return filled


@kernel
def _copy_verified(
    words: Hashes, data: NDArray[np.uint8], starts: Offsets, shingles: Offsets, copies: Hashes, kept: int
) -> bool:  # pragma: no cover (compiled)
    """Copies sets from ``words``, whose bytes are ``data``, to ``copies``, each with the ``kept`` words after it.

    It stops at the first wrong checksum. (Slices let the compiler copy whole words.)

    Returns:
        Whether all checksums match.
    """
    end = 0
    for piece in range(starts.size):
        stop = starts[piece] + shingles[piece]
        if xxh64(data, starts[piece] * HASH_BYTES, stop * HASH_BYTES) != words[stop]:
            return False
        wanted = words[starts[piece] : stop + kept]
        target = copies[end : end + wanted.size]
        for i in range(wanted.size):
            target[i] = wanted[i]
        end += wanted.size
    return True
