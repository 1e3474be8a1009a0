"""The state of training without its topology: pieces of parameters, each with its fp32 values and moments.

    the parameter, flat     0 ............. 4095 4096 ............ 8191
    written by two ranks    [ rank 0: start 0  ] [ rank 1: start 4096 ]
    read by three           [ rank 0    ][ rank 1    ][ rank 2       ]     each takes the overlaps, and only their bytes

A file of one rank is safetensors (nothing in it is ever executed): tensors ``<parameter>/<start>/<kind>``, (length,)
fp32. ``kind`` is master, ema (the moving average), or a moment or statistic of the optimizer; for AdamW exp_avg or
exp_avg_sq. ``start`` counts the values of the flattened parameter; of a statistic its own values. ``updates`` in the
metadata is the optimizer's count of updates.
"""

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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
class Snapshot:
    """One rank's part of a checkpoint, in host memory."""

    tensors: dict[str, Tensor]
    updates: int

    def write(self, path: Path) -> None:
        save_file(self.tensors, path, {"updates": str(self.updates)})


def key(fragment: Fragment, kind: str) -> str:
    """Returns the name of a fragment's values in a file."""
    return f"{fragment.parameter}/{fragment.start}/{kind}"


def read(files: Sequence[Path], fragments: Iterable[Fragment]) -> int:
    """Fills ``fragments`` from ``files``, which any number of ranks wrote; returns the optimizer's count of updates.

    A moving average that the files lack begins with the master values: a branch may keep one that its trunk did not.

    Raises:
        ArtifactError: when the files lack a value of ``fragments``.
    """
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(safe_open(path, "pt")) for path in files]
        pieces = defaultdict(list)
        for file in opened:
            for name in file.keys():  # noqa: SIM118
                parameter, start, kind = name.rsplit("/", 2)
                pieces[parameter, kind].append((int(start), file.get_slice(name)))
        for fragment in fragments:
            for kind, values in fragment.values.items():
                found = pieces[fragment.parameter, kind]
                if kind == EMA and not found:
                    found = pieces[fragment.parameter, MASTER]
                _fill(fragment, values, found, files[0].parent)
        return int(opened[0].metadata()["updates"])


def _fill(fragment: Fragment, values: Tensor, pieces: list[tuple[int, Any]], folder: Path) -> None:
    filled = 0
    for start, piece in pieces:
        begin = max(start, fragment.start)
        end = min(start + piece.get_shape()[0], fragment.start + len(fragment))
        if begin < end:
            values[begin - fragment.start : end - fragment.start].copy_(piece[begin - start : end - start])
            filled += end - begin
    if filled != len(fragment):
        wrong = f"holds {filled} of the {len(fragment)} values from {fragment.start} of {fragment.parameter}"
        raise ArtifactError(str(folder), wrong, "remove this checkpoint: it is of another model")
