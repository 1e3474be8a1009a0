"""Saves checkpoints while training goes on; it stops only while each rank copies its share to host memory.

training    step 49 │ step 50 │copy│ step 51 │ step 52 │ step 53 │ ...
thread                             │ write, sync, hash │ all ranks agree │ manifest │ rename │ prune │
"""

import contextlib
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import torch.distributed as dist
from safetensors import SafetensorError

from headrace.pipeline.core.artifact import FileRecord
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.train.checkpoint import store
from headrace.train.checkpoint.names import checkpoint_name
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping, Snapshot
from headrace.train.distributed.processes import Ranks, gather, on_first

T = TypeVar("T")
Waiting = Callable[[], contextlib.AbstractContextManager[None]]


class Snapshots(Protocol):
    """The part of the engine that is needed here."""

    def snapshot(self) -> Snapshot: ...


class Saver:
    """Writes checkpoints in the background, one at a time. All ranks have one and call its methods in step."""

    def __init__(self, folder: Path, ranks: Ranks, keeping: Keeping, waiting: Waiting = contextlib.nullcontext) -> None:
        """Save to ``folder``; training waits for a save inside ``waiting()``."""
        self.folder = folder
        self._ranks, self._keeping, self._waiting = ranks, keeping, waiting
        self._group = dist.new_group(backend="gloo")  # of its own: the thread's messages cross those of training
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def begin(self, state: State, engine: Snapshots) -> None:
        """Copy the state, and return while it is being written; waits for the save before.

        Raises:
            RetryableError: when the save before failed.
        """
        self.wait()
        self._under_way = self._thread.submit(self._save, state, engine.snapshot())

    @property
    def failed(self) -> bool:
        """Whether the save under way came to a bad end on this rank; then all ranks must ``wait``."""
        return self._under_way is not None and self._under_way.done() and self._under_way.exception() is not None

    def wait(self) -> None:
        """Return when no save is under way.

        Raises:
            RetryableError: when it failed on any rank, for want of disk space, say; those before are untouched.
        """
        under_way, self._under_way = self._under_way, None
        if under_way:
            with self._waiting():
                under_way.result()

    def saved(self, step: int) -> list[Path]:
        """The files of the checkpoint of ``step``, which is the same on all ranks; waits for the save under way.

        Raises:
            RetryableError: when it is damaged; a start passes it over and takes up the one before.
        """
        self.wait()
        path = self.folder / checkpoint_name(step)

        def check() -> None:
            try:
                store.verify(path)
            except ArtifactError as error:
                remedy = "run again to go on from the one before"
                raise RetryableError(error.where, f"{error.wrong}, and a spike leads back to it", remedy) from None

        on_first(self._ranks, check)
        return store.state_files(path)

    def _save(self, state: State, snapshot: Snapshot) -> None:
        writing = self.folder / f"writing-{checkpoint_name(state.step)}"
        try:
            records = dict(self._on_all(state, lambda: store.write_share(writing, snapshot, self._ranks.rank)))
            self._on_all(state, lambda: self._commit(writing, state, records))
        except RetryableError:
            if self._ranks.first and writing.exists():
                shutil.rmtree(writing)
            raise

    def _on_all(self, state: State, work: Callable[[], T]) -> list[T]:
        """What ``work`` returns on each rank; when the disk fails one of them, all raise."""
        result, problem = None, ""
        try:
            result = work()
        except (OSError, SafetensorError) as error:
            problem = f"rank {self._ranks.rank}: {error}"
        both = gather((result, problem), self._group)
        problems = "; ".join(problem for _, problem in both if problem)
        if problems:
            wrong = f"the checkpoint of step {state.step} could not be saved ({problems})"
            raise RetryableError(str(self.folder), wrong, "make room there and run again: the one before is in force")
        return [result for result, _ in both]

    def _commit(self, writing: Path, state: State, records: dict[str, FileRecord]) -> None:
        """On the first rank, when all files are on the disk: the manifest, the rename, the removal of older ones."""
        if not self._ranks.first:
            return
        store.commit(self.folder, writing, state, records)
        store.prune(self.folder, self._keeping)
