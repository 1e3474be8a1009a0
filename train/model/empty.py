"""Modules without values: their names and shapes, and no memory."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextlib.contextmanager
def without_values() -> Iterator[None]:
    """Creates the parameters of the modules that are built inside the block on the meta device.

    They are not initialized: on the meta device torch draws normal numbers by Python code for which it first loads its
    compiler, 2 s of CPU time.
    """
    with torch.device("meta"), _WithoutInitialization():
        yield


class _WithoutInitialization(TorchFunctionMode):
    """Replaces the functions of torch.nn.init, each of which returns its tensor, by ones that only return it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        values = kwargs or {}
        if getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else values["tensor"]
        return func(*args, **values)
