"""Compiles functions with numba and caches them on disk, so only the first process waits for the compiler."""

import warnings
from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Returns ``function`` compiled at its first call; without a cache if no folder for one is writable."""
    try:
        return cast(Function, numba.njit(function, cache=True))
    except RuntimeError:
        message = f"no writable folder for numba's cache: {function.__name__} is compiled in every process"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return cast(Function, numba.njit(function))
