"""Transfers of files to or from a mirror: several at a time, with their progress."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from fsspec.callbacks import Callback

from headrace.pipeline.core.file_records import FileRecord
from headrace.pipeline.core.progress import Progress

AT_A_TIME = 8
"""Files that are transferred at a time. fsspec's asynchronous stores also split a large one into parts."""
MEGABYTE = 10**6

Transfer = Callable[[str, FileRecord, Callback], None]
"""Transfers the file of a name and record, and counts its bytes with the callback of fsspec."""


class TransferProgress:
    """The bytes of all files that are done, shown as progress in megabytes."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._bytes = self._shown = 0

    def count(self, more_bytes: int) -> None:
        with self._lock:
            self._bytes += more_bytes
            megabytes = self._bytes // MEGABYTE
            self._progress.advance(megabytes - self._shown)
            self._shown = megabytes


class FileBytes(Callback):
    """The bytes of one file that are done, at most ``total_bytes``: a part that is sent again counts once."""

    def __init__(self, meter: TransferProgress, total_bytes: int) -> None:
        super().__init__()
        self._meter, self._total_bytes, self._counted = meter, total_bytes, 0

    def call(self, hook_name: str | None = None, **kwargs: Any) -> None:
        now = min(self.value, self._total_bytes)
        if now > self._counted:
            self._meter.count(now - self._counted)
            self._counted = now


def transferred(label: str, records: Mapping[str, FileRecord], transfer: Transfer) -> None:
    """Calls ``transfer`` for each of ``records``, in threads. After an error no further one is begun.

    Raises:
        Exception: the first error of ``transfer``.
    """
    if not records:
        return

    def transfer_counted(name: str, record: FileRecord, meter: TransferProgress) -> None:
        counted = FileBytes(meter, record.bytes)
        transfer(name, record, counted)
        counted.absolute_update(record.bytes)

    total = sum(record.bytes for record in records.values())
    pool = ThreadPoolExecutor(AT_A_TIME)
    try:
        with Progress(label, total // MEGABYTE, "MB") as progress:
            meter = TransferProgress(progress)
            for future in as_completed([pool.submit(transfer_counted, *item, meter) for item in records.items()]):
                future.result()
    except Exception:
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a request to stop does not wait for large files
