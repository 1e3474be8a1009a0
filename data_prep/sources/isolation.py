"""Reading in a separate process, because a page may crash the extractor, never end or take all memory.

    worker <── records in batches ── reader: a source, which calls isolated(function, text) for each page
       │                                └─ the page ends the reader; its number is kept in shared memory
       └──> a new reader: passes over the records that the worker has, and drops this page

For some pages the time of an HTML parser grows with the square of their size or faster, and C code may fault. Such a
page ends the reader instead of the run: it is dropped as ``too_slow``, ``too_much_memory`` or ``crashed``, and a new
reader continues with the next page. The limit is CPU time, so other work on the machine does not decide what is
dropped. A page above the limit takes hundreds of times as long as other pages of its size.
"""

import contextlib
import math
import mmap
import multiprocessing
import pickle
import resource
import signal
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from headrace.data_prep.document import Drop
from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.progress import Amounts, count, counting
from headrace.pipeline.core.system_errors import portable

RecordType = TypeVar("RecordType")

CPU_SECONDS = 60
"""Limit of one call. resiliparse reads a page of average size in 4 ms, and 20 MB of tags in 12 s."""
MEMORY_BYTES = 4 << 30
"""Memory that a call may take in addition to the reader's own; 20 MB of tags take 2.3 GB."""
IDLE_SECONDS = 900
"""A reader that uses no CPU time for this long hangs, even if the machine is busy."""
ATTEMPTS = 3
"""Readers that are started for the same record when other processes kill them."""
BATCH_BYTES = 1 << 18
"""Size of the records that a reader sends at a time."""
STATM = Path("/proc/self/statm")
"""Its first number is this process's address space in pages (proc(5)). On other systems memory is not limited."""

PASSED_OVER = Drop(rule="", value="")
"""The result for a record that the worker has already. It is never sent."""

OpenCall = tuple[int, int]
"""One call of ``isolated``: the number of its record, and the number of the call among those of the record."""
_CALL = struct.Struct("qq?")
"""The call in shared memory, and whether it is running."""


class _Calls:
    """The calls of ``isolated`` in a reader. The last one is in shared memory."""

    def __init__(self, shared: mmap.mmap, known: int, drops: Mapping[OpenCall, Drop]) -> None:
        self.record = self._call = 0
        self._shared, self._known, self._drops = shared, known, drops

    def end_record(self) -> bool:
        """Goes on to the next record. Returns whether the worker does not yet have the one that ends."""
        self.record, self._call = self.record + 1, 0
        return self.record > self._known

    def result(self, function: Callable[[str], str], text: str) -> str | Drop:
        """Returns ``function(text)``, or the Drop for a text that ended an earlier reader."""
        call = self.record, self._call
        self._call += 1
        if self.record < self._known:
            return PASSED_OVER
        if call in self._drops:
            return self._drops[call]
        _CALL.pack_into(self._shared, 0, *call, True)
        try:
            with _limits():
                return function(text)
        except MemoryError:
            return Drop("too_much_memory", f"more than {MEMORY_BYTES} bytes")
        finally:
            _CALL.pack_into(self._shared, 0, *call, False)


_calls: list[_Calls] = []
"""The calls of this process if it is a reader."""


def isolated(function: Callable[[str], str], text: str) -> str | Drop:
    """Computes ``function(text)`` in a reader. Drops: ``too_slow``, ``too_much_memory``, ``crashed``.

    Outside of ``supervised`` a reader is started for this call alone.

    Raises:
        TaskError: when ``function`` raised an error.
        RetryableError: when the reader was killed in every attempt.
    """
    if _calls:
        return _calls[0].result(function, text)
    (result,) = supervised(lambda: [isolated(function, text)])
    return result


def supervised(records: Callable[[], Iterable[RecordType]]) -> Iterator[RecordType]:
    """Yields what ``records()`` yields, computed in a reader: a forked process. It runs ahead by one batch.

    ``records`` must yield the same records whenever it is called. A new reader passes over those that were received,
    which takes the time of reading without extraction.

    Raises:
        HeadraceError, OSError: the error of ``records``.
        TaskError: when ``records`` raised another error, or crashed outside of ``isolated``.
        RetryableError: when readers of the same record were killed in every attempt.
    """
    received = killed = 0
    drops: dict[OpenCall, Drop] = {}
    while True:
        reader = _Reader(records, received, drops)
        with contextlib.closing(reader):
            for record in reader.received():
                killed, received = 0, received + 1
                yield record
        if reader.is_done:
            return
        call, drop = reader.verdict()
        if drop is not None:
            drops[call] = drop
        elif (killed := killed + 1) == ATTEMPTS:
            raise RetryableError(
                "extraction", f"its process was killed {ATTEMPTS} times", "run again with fewer workers"
            )


class _Reader:
    """A forked process that sends records. It ends when the worker closes the pipe or ends."""

    def __init__(self, records: Callable[[], Iterable[object]], known: int, drops: Mapping[OpenCall, Drop]) -> None:
        context = multiprocessing.get_context("fork")
        self._shared = mmap.mmap(-1, _CALL.size)
        self._pipe, theirs = context.Pipe(duplex=False)
        calls = _Calls(self._shared, known, drops)
        arguments = (records, calls, theirs, self._pipe)
        self._process = context.Process(target=_serve, args=arguments, name="reader", daemon=True)
        self._process.start()
        theirs.close()
        self.is_done = False

    def received(self) -> Iterator[Any]:
        """Yields the records until the last one (``is_done``), or until the process has ended or hangs.

        Raises:
            HeadraceError, OSError: the error of the process.
        """
        try:
            while not self.is_done and self._has_sent():
                sent = self._message()
                if isinstance(sent, Exception):
                    raise sent
                if isinstance(sent, Amounts):
                    count(sent.records, sent.raw_bytes)
                    continue
                self.is_done = sent is None
                yield from map(pickle.loads, sent or ())
        except EOFError:
            self._process.join()

    def _message(self) -> "list[bytes] | Amounts | HeadraceError | OSError | None":
        """Receives what the process has sent.

        Raises:
            EOFError: when it has ended, perhaps in the middle of a message.
        """
        try:
            message: list[bytes] | Amounts | HeadraceError | OSError | None = self._pipe.recv()
        except OSError as error:
            raise EOFError from error
        return message

    def _has_sent(self) -> bool:
        """Waits until a batch, or the end of the process, can be received. Returns False when the process hangs."""
        used = ""
        while not self._pipe.poll(IDLE_SECONDS):
            if used == (used := self._cpu_time()):
                return False
        return True

    def _cpu_time(self) -> str:
        """Returns the CPU time that the process has used; "" on systems without /proc."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        return "/".join(stat.read_text().rpartition(")")[2].split()[11:13]) if stat.exists() else ""

    def close(self) -> None:
        """Ends the process if it still runs."""
        self._pipe.close()
        self._process.kill()
        self._process.join()

    def verdict(self) -> tuple[OpenCall, Drop | None]:
        """Returns the last call, and the Drop for the signal that ended it; None if another process sent the signal.

        Raises:
            TaskError: when the process ended by itself, or crashed outside of a call.
        """
        record, number, is_running = _CALL.unpack_from(self._shared)
        status = self._process.exitcode or 0
        if status >= 0:
            problem = f"reading ended with an error, exit status {status}"
            raise TaskError("extraction", problem, "see the phase's log for its traceback")
        received = signal.Signals(-status)
        if received in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            return (record, number), None
        if not is_running:
            problem = f"reading ended with {received.name}, outside of the extractor"
            raise TaskError("extraction", problem, "run again; if it happens again, remove the file that causes it")
        if received is signal.SIGXCPU:
            return (record, number), Drop("too_slow", f"more than {CPU_SECONDS} s of CPU time")
        return (record, number), Drop("crashed", received.name)


def _serve(records: Callable[[], Iterable[object]], calls: _Calls, pipe: Connection, workers_end: Connection) -> None:
    """Sends the records that the worker does not have, and None after the last one."""
    workers_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _calls[:] = [calls]
    batch, size = list[bytes](), 0
    try:
        with counting(pipe.send):
            for record in records():
                if calls.end_record():
                    batch.append(pickle.dumps(record))
                    size += len(batch[-1])
                if size >= BATCH_BYTES:
                    pipe.send(batch)
                    batch, size = [], 0
        pipe.send(batch)
        pipe.send(None)
    except BrokenPipeError:  # the worker has ended
        return
    except (HeadraceError, OSError) as error:
        pipe.send(portable(error))


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Limits the CPU time and the memory of this process during one call. A process that reaches them dumps no core."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limits = {
        resource.RLIMIT_CPU: math.ceil(usage.ru_utime + usage.ru_stime) + CPU_SECONDS,
        resource.RLIMIT_CORE: 0,
    }
    if STATM.exists():
        limits[resource.RLIMIT_AS] = int(STATM.read_text().split()[0]) * resource.getpagesize() + MEMORY_BYTES
    before = {what: resource.getrlimit(what) for what in limits}
    for what, soft in limits.items():
        hard = before[what][1]
        resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    try:
        yield
    finally:
        for what, limit in before.items():
            resource.setrlimit(what, limit)
