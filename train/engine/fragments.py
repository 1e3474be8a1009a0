"""The state of training without its topology: pieces of parameters, each with its fp32 values and moments.

    the parameter, flat     0 ............. 4095 4096 ............ 8191
    written by two ranks    [ rank 0: start 0  ] [ rank 1: start 4096 ]
    read by three           [ rank 0    ][ rank 1    ][ rank 2       ]     each takes the overlaps, and only their bytes

A file of one rank is safetensors (nothing in it is ever executed): tensors ``<parameter>/<start>/<kind>``, (length,)
fp32. ``kind`` is master, ema (the moving average), or a moment or statistic of the optimizer; for AdamW exp_avg or
exp_avg_sq. ``start`` counts the values of the flattened parameter; of a statistic its own values. ``updates`` in the
metadata is the optimizer's count of updates.

Copies of the state are in memory of the host: one buffer for each kind of values, page-locked for a state on a GPU.
PyTorch rounds each tensor that it page-locks up to a power of two bytes. So a buffer is ordinary memory of the size
that is needed, which is registered afterwards (cudaHostRegister: CUDA Runtime API, section Memory Management).
"""

import contextlib
import dataclasses
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.engine.optimizers.base import EMA

MASTER = "master"


@dataclasses.dataclass(frozen=True)
class Fragment:
    """Consecutive values of a parameter, in the training's own memory: writing to ``values`` changes the training."""

    parameter: str
    start: int
    """The offset of the first value in the flattened parameter; of a statistic in the statistic."""
    values: dict[str, Tensor]
    """Kind → (length,) fp32."""
    is_shared: bool = False
    """Whether every rank holds these values."""

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def share(self, rank: int, ranks: int) -> "Fragment":
        """Returns the part of the values that one of the ranks saves: an equal part of those that every rank holds."""
        if not self.is_shared:
            return self
        begin, end = len(self) * rank // ranks, len(self) * (rank + 1) // ranks
        return Fragment(
            self.parameter, self.start + begin, {kind: value[begin:end] for kind, value in self.values.items()}
        )


@dataclasses.dataclass(frozen=True)
class HostCopy:
    """One rank's part of a checkpoint, in host memory."""

    tensors: dict[str, Tensor]
    updates: int

    def write(self, path: Path) -> None:
        save_file(self.tensors, path, {"updates": str(self.updates)})


def key(fragment: Fragment, kind: str) -> str:
    """Returns the name of a fragment's values in a file."""
    return f"{fragment.parameter}/{fragment.start}/{kind}"


@dataclasses.dataclass
class Unread:
    """Values of a fragment that are still to be read."""

    fragment: Fragment
    kind: str
    lacking: int

    def fill(self, pieces: Sequence[tuple[int, Any]]) -> None:
        """Fills the values from ``pieces`` of their parameter, each with its start."""
        values, first = self.fragment.values[self.kind], self.fragment.start
        for start, piece in pieces:
            begin = max(start, first)
            end = min(start + piece.get_shape()[0], first + len(self.fragment))
            if begin < end:
                values[begin - first : end - first].copy_(piece[begin - start : end - start])
                self.lacking -= end - begin


def read(files: Sequence[Path], fragments: Iterable[Fragment], begin: int = 0) -> int:
    """Fills ``fragments`` from ``files``, which any number of ranks wrote; returns the optimizer's count of updates.

    It opens the file number ``begin`` first, and others while values are lacking: on the number of ranks that wrote
    them, a rank finds all of its divided state in its own file.

    A moving average that the files lack begins with the master values: a branch may keep one that its trunk did not.

    Raises:
        ArtifactError: when the files lack a value of ``fragments``.
    """
    unread = [Unread(fragment, kind, len(fragment)) for fragment in fragments for kind in fragment.values]
    for path in (*files[begin:], *files[:begin]):
        with safe_open(path, "pt") as file:
            pieces = defaultdict[tuple[str, str], list[tuple[int, Any]]](list)
            for name in file.keys():  # noqa: SIM118
                parameter, start, kind = name.rsplit("/", 2)
                pieces[parameter, kind].append((int(start), file.get_slice(name)))
            kinds = {kind for _, kind in pieces}
            for part in unread:
                kind = MASTER if part.kind == EMA and EMA not in kinds else part.kind
                part.fill(pieces[part.fragment.parameter, kind])
            updates = int(file.metadata()["updates"])
        unread = [part for part in unread if part.lacking]
        if not unread:
            return updates
    fragment, n_read = unread[0].fragment, len(unread[0].fragment) - unread[0].lacking
    problem = f"holds {n_read} of the {len(fragment)} values from {fragment.start} of {fragment.parameter}"
    raise ArtifactError(str(files[0].parent), problem, "remove this checkpoint: it is of another model")


def host_memory(shares: Sequence[Fragment]) -> dict[str, Tensor]:
    """Returns memory for all values of ``shares``, each by its name in a file of the state."""
    by_kind = defaultdict[str, dict[str, Tensor]](dict)
    for share in shares:
        for kind, values in share.values.items():
            by_kind[kind][key(share, kind)] = values
    parts: dict[str, Tensor] = {}
    for named in by_kind.values():
        first, sizes = next(iter(named.values())), [len(values) for values in named.values()]
        buffer = torch.empty(sum(sizes), dtype=first.dtype)
        if first.is_cuda and len(buffer):
            page_lock(buffer)
        parts |= zip(named, torch.split(buffer, sizes), strict=True)
    return parts


def page_lock(buffer: Tensor) -> None:
    """Registers the memory of ``buffer`` with CUDA for as long as it exists; if that fails, copies to it are slower."""
    storage = buffer.untyped_storage()
    cuda = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch does not annotate it
    error = int(cuda.cudaHostRegister(storage.data_ptr(), storage.nbytes(), 0))
    if error:
        _clear_error()
        wanted = f"headrace: {storage.nbytes() / 1e9:.1f} GB for checkpoints"
        line = f"{wanted} could not be page-locked (CUDA error {error}), so saving takes longer; raise `ulimit -l`"
        print(line, file=sys.stderr, flush=True)
        return
    weakref.finalize(storage, cuda.cudaHostUnregister, storage.data_ptr())


def _clear_error() -> None:
    """Clears CUDA's last error, which the check after the next kernel would raise: it raises it here, and resets it."""
    with contextlib.suppress(torch.AcceleratorError):
        torch.ones(1, device="cuda")
