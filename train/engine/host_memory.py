"""Memory of the host for copies of the state: one buffer for each kind of values, page-locked for a state on a GPU.

PyTorch rounds each tensor that it page-locks up to a power of two bytes. So a buffer is ordinary memory of the size
that is needed, which is registered afterwards (cudaHostRegister: CUDA Runtime API, section Memory Management).
"""

import contextlib
import sys
import weakref
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.train.engine.fragments import Fragment, key


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
