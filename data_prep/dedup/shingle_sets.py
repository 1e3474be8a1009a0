"""The shingle sets of candidates on disk: those of a shard, and those that one bucket needs.

    sets/00007.u64       of the candidates of shard 7, one behind the other; (document, start, shingles) say where;
                         behind each one its checksum, XXH64, which is compared whenever the set is read
        │ add            each file is opened once, and read from its beginning to its end
    a nameless file      of the documents of one bucket, in the order of their numbers
        │ read           a batch at a time, from its beginning to its end
    bounds, hashes       hashes[bounds[i] : bounds[i + 1]] is one set: sorted, distinct

What a document's set is read for comes in another order than the documents: that of LSH groups, or of components. So
each bucket gathers its sets, and neither the number of shards nor their size matters afterwards.
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

from headrace.data_prep.dedup.numbering import Numbers, shards_of
from headrace.data_prep.dedup.xxh64 import xxh64
from headrace.data_prep.kernel import kernel
from headrace.data_prep.shuffle.capacity import room
from headrace.data_prep.shuffle.exchange import sorting_folder
from headrace.data_prep.shuffle.records import runs
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.handover import damaged, unverified

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]

PHASE = "sets"
"""The phase whose tasks leave the sets."""
KIND, SUFFIX = "sets", "u64"
SOURCE = f"{PHASE}/{KIND}"

HASH_BYTES = 8
CHECKSUM = 1
"""Words behind each set."""
GAP_HASHES = 512
"""Between two sets in a file: up to these 4 KiB, reading on costs less than reading anew."""


def write_sets(out: TaskOutput, sets: list[Hashes]) -> tuple[Places, Places]:
    """Leave the sets of this task's shard as a scratch file; where each starts in it, and its number of shingles."""
    shingles = np.array([one.size for one in sets], np.int64)
    words = [word for one in sets for word in (one, np.array([xxhash.xxh64_intdigest(one.data)], np.uint64))]
    with out.scratch(KIND, SUFFIX) as path:
        np.concatenate([np.empty(0, np.uint64), *words]).tofile(path)
    return np.cumsum(shingles + CHECKSUM) - shingles - CHECKSUM, shingles


class GatheredSets:
    """A context manager: the sets of one bucket's documents."""

    def __init__(self, out: TaskOutput, memory_bytes: int) -> None:
        """Prepare to gather; a batch of sets takes ``memory_bytes``, up to six times that while it is read."""
        self._out, self._memory_bytes = out, memory_bytes
        self._shard, self._stored = -1, contextlib.ExitStack()
        self._end = 0

    def __enter__(self) -> "GatheredSets":
        folder = sorting_folder(self._out)
        folder.mkdir(parents=True, exist_ok=True)
        self._gathered = _Hashes(tempfile.TemporaryFile(dir=folder, buffering=0))
        return self

    def __exit__(self, *error: object) -> None:
        self._stored.close()
        self._gathered.stream.close()

    def add(self, documents: Numbers, starts: Places, shingles: Places) -> Places:
        """Take the sets of ``documents``, which come in ascending order, from their shards; where each starts here.

        Raises:
            RetryableError: when the file of a shard is damaged or missing.
        """
        ends = self._end + np.cumsum(shingles + CHECKSUM)
        for first, last in itertools.pairwise(runs(shards_of(documents)).tolist()):
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

    def read(self, starts: Places, shingles: Places) -> tuple[Places, Hashes]:
        """The ``bounds`` and ``hashes`` of sets that were added, in ascending order of where they start here.

        Of more than two batches a file is mapped.

        Raises:
            RetryableError: when what was gathered is damaged.
        """
        bounds = np.concatenate(([0], np.cumsum(shingles))).astype(np.int64)
        hashes = room(self._out, int(bounds[-1]), np.uint64, 2 * self._memory_bytes)
        for start, end in self.batches(shingles):
            here = hashes[bounds[start] : bounds[end]]
            if not self._gathered.read(starts[start:end], shingles[start:end], here, 0):
                folder = str(sorting_folder(self._out))
                raise RetryableError(folder, "shingle sets that were gathered there are damaged", "run again")
        return bounds, hashes

    def batches(self, shingles: Places) -> Iterator[tuple[int, int]]:
        """From where to where to go through what has so many shingles, to hold a batch, and one more of it at most."""
        return itertools.pairwise(runs(np.cumsum(shingles) * HASH_BYTES // max(1, self._memory_bytes)).tolist())

    def _open(self, shard: int) -> "_Hashes":
        if shard != self._shard:
            self._stored.close()
            path = unverified(self._out, SOURCE, shard, SUFFIX)
            try:
                stream = self._stored.enter_context(path.open("rb", buffering=0))
            except FileNotFoundError:
                raise damaged(self._out, SOURCE, shard, SUFFIX) from None
            self._shard, self._hashes = shard, _Hashes(stream)
        return self._hashes


@dataclasses.dataclass(frozen=True)
class _Hashes:
    """A file of sets and their checksums, opened without a buffer."""

    stream: Any

    def read(self, starts: Places, shingles: Places, found: Hashes, kept: int) -> bool:
        """Fill ``found`` with the sets that start at ``starts`` (ascending), one behind the other.

        Args:
            starts: words from the beginning of the file to each set.
            shingles: of each.
            found: its size is that of the sets and of what is kept behind them.
            kept: CHECKSUM to have each one's checksum, too, else 0.

        Returns:
            Whether all sets are as they were written.
        """
        ends = starts + shingles + CHECKSUM
        cuts = np.flatnonzero(starts[1:] - ends[:-1] > GAP_HASHES) + 1
        first, last = np.concatenate(([0], cuts)), np.concatenate((cuts, [starts.size])) - 1
        lengths = ends[last] - starts[first]
        places = np.cumsum(lengths) - lengths
        read = found if lengths.sum() == found.size else np.empty(int(lengths.sum()), np.uint64)
        view, n_bytes, at = read.view(np.uint8).data, 0, 0
        for start, size in zip((starts[first] * HASH_BYTES).tolist(), (lengths * HASH_BYTES).tolist(), strict=True):
            n_bytes += self._fill(view[at : at + size], start)
            at += size
        here = starts + np.repeat(places - starts[first], last - first + 1)
        return n_bytes == read.nbytes and bool(_take(read, read.view(np.uint8), here, shingles, found, kept))

    def _fill(self, view: memoryview, start: int) -> int:
        """Read the bytes from ``start`` on into ``view``; how many there were. (One call reads less than 2 GiB.)"""
        filled = 0
        while filled < len(view) and (got := os.preadv(self.stream.fileno(), [view[filled:]], start + filled)):
            filled += got
        return filled


@kernel
def _take(
    words: Hashes, data: NDArray[np.uint8], starts: Places, shingles: Places, found: Hashes, kept: int
) -> bool:  # pragma: no cover (compiled)
    """Fill ``found`` with the sets among ``words``, whose bytes are ``data``, and ``kept`` words behind each, as long
    as checksums fit. (Slices let the compiler copy in words.)"""
    end = 0
    for piece in range(starts.size):
        behind = starts[piece] + shingles[piece]
        if xxh64(data, starts[piece] * HASH_BYTES, behind * HASH_BYTES) != words[behind]:
            return False
        wanted = words[starts[piece] : behind + kept]
        place = found[end : end + wanted.size]
        for i in range(wanted.size):
            place[i] = wanted[i]
        end += wanted.size
    return True
