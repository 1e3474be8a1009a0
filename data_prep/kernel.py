"""Compiles functions with numba and caches them on disk, so only the first process waits for the compiler.

numba is loaded at the first call of any of them: commands that plan a run, or look at one, do without it.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

int64: Callable[[Any], int] = cast(Any, np.int64)
"""A number of 64 bits, which kernels need where Python counts without bounds."""
Function = TypeVar("Function", bound=Callable[..., object])


class Kernel:
    """A function that is compiled at its first call; other kernels may call it."""

    def __init__(self, function: Callable[..., object], **options: bool) -> None:
        self._function, self._options = function, options
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    @functools.cached_property
    def compiled(self) -> Any:
        """numba's dispatcher; without a cache if no folder for one is writable."""
        import numba

        try:
            return numba.njit(self._function, cache=True, **self._options)
        except RuntimeError:
            message = f"no writable folder for numba's cache: {self._function.__name__} is compiled in every process"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
            return numba.njit(self._function, **self._options)

    @property
    def _numba_type_(self) -> Any:
        """The type that numba gives this function where another kernel names it."""
        return self.compiled._numba_type_


def kernel(function: Function) -> Function:
    """Returns ``function`` compiled at its first call."""
    return cast(Function, Kernel(function))


def kernel_in_place(function: Function) -> Function:
    """Like ``kernel``, for a small function that makes no array and that only other kernels call: it becomes a part of
    them, and numba counts no references to arrays in it.

    A pass over a page calls ten such functions for each tag; as functions of their own they took three times as long.
    """
    options = {"_nrt": False, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Function, Kernel(function, **options))
