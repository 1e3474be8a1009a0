"""Several ranks find and verify a checkpoint together: each compares a part of its files, all hear of a damaged one."""

from pathlib import Path

from headrace.train.checkpoint import store
from headrace.train.checkpoint.state import State
from headrace.train.checkpoint.store import Newest
from headrace.train.distributed.processes import Ranks, on_each, on_first


def verify(path: Path, ranks: Ranks) -> State:
    """Does what ``store.verify`` does; all ranks call it.

    Raises:
        ArtifactError: on all ranks, when a file is missing, or has another size or checksum.
    """
    on_each(lambda: bool(store.verify(path, ranks.rank, ranks.world)))
    return store.read_state(path)


def newest(folder: Path, spike_rollback_every: int | None, ranks: Ranks) -> Newest | None:
    """Does what ``store.newest`` does; all ranks call it.

    Raises:
        ArtifactError: on all ranks, when there are checkpoints and none is whole.
    """
    paths = on_first(ranks, lambda: store.newest_first(folder))
    return store.first_whole(folder, paths, spike_rollback_every, lambda path: verify(path, ranks))
