"""Compiles functions with numba and caches them on disk, so only the first process waits for the compiler.

numba is loaded at the first call of any of them: commands that plan a run, or look at one, do without it.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., object])


class Kernel:
    """A function that is compiled at its first call; other kernels may call it."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    @functools.cached_property
    def compiled(self) -> Any:
        """numba's dispatcher; without a cache if no folder for one is writable."""
        import numba

        try:
            return numba.njit(self._function, cache=True)
        except RuntimeError:
            message = f"no writable folder for numba's cache: {self._function.__name__} is compiled in every process"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
            return numba.njit(self._function)

    @property
    def _numba_type_(self) -> Any:
        """The type that numba gives this function where another kernel names it."""
        return self.compiled._numba_type_


def kernel(function: Function) -> Function:
    """Returns ``function`` compiled at its first call."""
    return cast(Function, Kernel(function))
