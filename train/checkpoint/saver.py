"""Saves checkpoints in the background, and reads whole weights from them. Training waits only while each rank copies
its share to host memory.

training    step 49 │ step 50 │copy│ step 51 │ step 52 │ step 53 │ ...
thread                             │ write, sync, hash │ all ranks agree │ manifest │ rename │ prune │
"""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor, nn

from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.system_errors import moved
from headrace.train.checkpoint import store
from headrace.train.checkpoint.names import checkpoint_name, checkpoints
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Keeping, Newest, Snapshot, prune
from headrace.train.config import ModelConfig
from headrace.train.context import ContextForm
from headrace.train.distributed.processes import Ranks, gather, on_each, on_first
from headrace.train.engine import fragments
from headrace.train.engine.fragments import MASTER, Fragment
from headrace.train.model.transformer import Transformer, build_empty, put_weights

T = TypeVar("T")
WaitContext = Callable[[], contextlib.AbstractContextManager[None]]


class Snapshots(Protocol):
    """The part of the engine that a saver uses."""

    def snapshot(self) -> Snapshot: ...


class Saver:
    """Writes checkpoints in the background, one at a time. All ranks have one and call its methods in step."""

    def __init__(
        self, folder: Path, ranks: Ranks, keeping: Keeping, waiting: WaitContext = contextlib.nullcontext
    ) -> None:
        """Saves to ``folder``; training waits for a save inside ``waiting()``."""
        self.folder = folder
        self._ranks, self._keeping, self._waiting = ranks, keeping, waiting
        # A group of its own, because messages of the thread and of training overlap.
        self._group = dist.new_group(backend="gloo")
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for the save under way, and ends what works in the background."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            dist.destroy_process_group(self._group)
            del self._group  # its thread, which wakes a hundred times a second, ends with the last reference

    def begin(self, state: State, engine: Snapshots) -> None:
        """Copies the state, and returns while it is written; first waits for the previous save.

        Raises:
            RetryableError: when the previous save failed.
        """
        self.wait()
        self._under_way = self._thread.submit(self._save, state, engine.snapshot())

    @property
    def failed(self) -> bool:
        """Whether the save under way failed on this rank; then all ranks must ``wait``."""
        return self._under_way is not None and self._under_way.done() and self._under_way.exception() is not None

    def wait(self) -> None:
        """Returns when no save is under way.

        Raises:
            RetryableError: when it failed on any rank, for lack of disk space, say; earlier checkpoints are whole.
        """
        under_way, self._under_way = self._under_way, None
        if under_way:
            with self._waiting():
                under_way.result()

    def saved(self, step: int) -> list[Path]:
        """Returns the files of the checkpoint of ``step``, the same on all ranks; waits for the save under way.

        Raises:
            RetryableError: when it is damaged; a restart skips it and resumes from the previous one.
        """
        self.wait()
        path = self.folder / checkpoint_name(step)

        try:
            verify_jointly(path, self._ranks)
        except ArtifactError as error:
            remedy = "run again to go on from the one before"
            raise RetryableError(error.where, f"{error.problem}, and a spike leads back to it", remedy) from None
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
        """Returns the result of ``work`` on each rank; when the disk fails on one of them, or is not the one that the
        process held, all raise."""
        results, problem, failure = list[T](), "", moved(self.folder)
        try:
            if failure is None:
                results.append(work())
        except (OSError, SafetensorError) as error:
            problem, failure = f"rank {self._ranks.rank}: {error}", moved(self.folder)
        of_ranks = gather((results, problem, failure), self._group)
        for _, _, lost in of_ranks:
            if lost:
                raise lost
        problems = "; ".join(problem for _, problem, _ in of_ranks if problem)
        if problems:
            summary = f"the checkpoint of step {state.step} could not be saved ({problems})"
            raise RetryableError(
                str(self.folder), summary, "free space there and run again: the checkpoint before it is kept"
            )
        return [result for results, _, _ in of_ranks for result in results]

    def _commit(self, writing: Path, state: State, records: dict[str, FileRecord]) -> None:
        """Commits the checkpoint and removes older ones, on the first rank, after all files are on the disk."""
        if not self._ranks.first:
            return
        store.commit(self.folder, writing, state, records)
        prune(self.folder, self._keeping, state.step, state.best_step)


def verify_jointly(path: Path, ranks: Ranks) -> State:
    """Does what ``store.verify`` does; all ranks call it.

    Raises:
        ArtifactError: on all ranks, when a file is missing, or has another size or checksum.
    """
    on_each(lambda: bool(store.verify(path, ranks.rank, ranks.world)))
    return store.read_state(path)


def newest_jointly(folder: Path, spike_rollback_every: int | None, ranks: Ranks) -> Newest | None:
    """Does what ``store.newest`` does; all ranks call it.

    Raises:
        ArtifactError: on all ranks, when there are checkpoints and none is whole.
    """
    saved = on_first(ranks, lambda: checkpoints(folder))
    return store.newest(folder, spike_rollback_every, saved, lambda path: verify_jointly(path, ranks))


def assembled(
    weights: Iterable[tuple[str, Tensor]], config: ModelConfig, vocabulary: int, context_form: ContextForm
) -> Transformer:
    """Returns the model with these ``weights`` (our names, tied ones once), in evaluation mode.

    Those of modules that are only trained are left out. No random number is drawn.
    """
    model = build_empty(config, vocabulary)
    put_weights(model, dict(weights))
    model.context_form = context_form
    return model.eval()


def read_checkpoint(
    path: Path, config: ModelConfig, vocabulary: int, context_form: ContextForm, ranks: Ranks
) -> Transformer:
    """Returns the model of the checkpoint at ``path``, which any number of ranks wrote; all ``ranks`` read it together.

    Raises:
        ArtifactError: when it is damaged, or is removed in the meantime.
    """
    try:
        verify_jointly(path, ranks)
        values = _values(store.state_files(path), shapes_of(build_empty(config, vocabulary)), MASTER)
        return assembled(values, config, vocabulary, context_form)
    except FileNotFoundError:
        raise ArtifactError(str(path), "was removed while it was read", "take a newer one") from None


def shapes_of(model: nn.Module) -> dict[str, torch.Size]:
    """Returns the shape of each parameter of ``model``."""
    return {name: value.shape for name, value in model.named_parameters()}


def averaged(paths: Sequence[Path], shapes: Mapping[str, torch.Size], kind: str = MASTER) -> dict[str, Tensor]:
    """Returns the mean of the weights in the checkpoints at ``paths``, computed in float64 (our names, fp32).

    ``shapes`` are those of the model's parameters, ``kind`` is that of the values: the master values, or their moving
    average.

    The weights of one checkpoint are unchanged. The mean of the last ones of a training is LAWA (Kaddour 2022, "Stop
    Wasting My Time! Saving Days of ImageNet and BERT Training with Latest Weight Averaging").

    Raises:
        ArtifactError: when one is damaged.
    """
    sums: dict[str, Tensor] = {}
    for path in paths:
        store.verify(path)
        for name, value in _values(store.state_files(path), shapes, kind):
            sums[name] = sums[name].add_(value) if name in sums else value.double()
    return {name: (total / len(paths)).float() for name, total in sums.items()}


def _values(files: list[Path], shapes: Mapping[str, torch.Size], kind: str) -> Iterator[tuple[str, Tensor]]:
    wholes = [Fragment(name, 0, {kind: torch.empty(shape.numel())}) for name, shape in shapes.items()]
    fragments.read(files, wholes)
    return ((whole.parameter, whole.values[kind].view(shapes[whole.parameter])) for whole in wholes)
