"""The memory that a forward pass leaves for the backward pass, also what only selective recomputation holds."""

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Made(TorchDispatchMode):
    """The memory of all tensors that are made inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                made = StorageWeakRef(storage)
                self._made[made.cdata] = made, storage.nbytes()
        return result

    def kept_bytes(self) -> int:
        """Returns the bytes of those that are still alive."""
        return sum(size for made, size in self._made.values() if not made.expired())
