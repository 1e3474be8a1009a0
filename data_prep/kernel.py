"""Functions that numba compiles, cached on disk: only the first process ever waits for the compiler."""

import warnings
from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile ``function`` at its first call; without a cache where no folder for one is writable."""
    try:
        return cast(Function, numba.njit(function, cache=True))
    except RuntimeError:
        message = f"no writable folder for numba's cache: {function.__name__} is compiled in every process"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return cast(Function, numba.njit(function))
