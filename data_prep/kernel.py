"""Compiles functions with numba and caches them on disk, so only the first process waits for the compiler.

numba is loaded at the first call of any of them: commands that plan a run, or look at one, do without it.

numba compares the file of a function with its cache, but not the files of other kernels and of the constants that are
compiled into it: after an update of a part of them, it would go on with the old ones. So the name of a cache has a hash
of all that the machine code follows from.
"""

import functools
import hashlib
import multiprocessing
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np

from headrace.pipeline.core.extras import without

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
        from numba.core.runtime import rtsys

        with without("scipy.linalg"):  # numba asks for linear algebra, which no kernel needs: 0.1 s of CPU time
            from numba.np import arraymath
        arraymath._HAVE_BLAS = True
        self._function.__qualname__ += f"_{self.content}"  # numba names the files of the cache by it
        try:
            made = numba.njit(self._function, cache=True, **self._options)
        except RuntimeError:
            message = f"no writable folder for numba's cache: {self._function.__name__} is compiled in every process"
            warnings.warn(message, RuntimeWarning, stacklevel=4)
            return numba.njit(self._function, **self._options)
        if numba.config.DISABLE_JIT:
            return made
        if not os.path.exists(made._cache._cache_file._index_path):
            _announce()
        # What is in the cache is loaded without what only the compiler needs: 0.2 s of CPU time of each process.
        made._compilation_chain_init_hook = lambda: None
        made._cache.load_overload = made._cache._load_overload
        rtsys.initialize(made.targetctx)
        return made

    @functools.cached_property
    def content(self) -> str:
        """A hash of its code, its options, and what it names: constants, types, and other kernels with what they name.

        A kernel that names itself, or one that names it, counts with its code alone there.
        """
        self.content = hashlib.sha256(self._function.__code__.co_code).hexdigest()[:16]
        parts = [*self._options, *map(str, self._function.__annotations__.values())]
        parts += [part for code in _codes(self._function.__code__) for part in _parts(code, self._function.__globals__)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def _numba_type_(self) -> Any:
        """The type that numba gives this function where another kernel names it."""
        return self.compiled._numba_type_


@functools.cache
def _announce() -> None:
    """Prints once that kernels are compiled; of several workers, the first one does."""
    if multiprocessing.current_process().name.rpartition("-")[2] in ("MainProcess", "1"):
        print("headrace: compiling once, about half a minute (headrace ready)", file=sys.stderr, flush=True)


def kernel(function: Function) -> Function:
    """Returns ``function`` compiled at its first call."""
    return cast(Function, Kernel(function))


def kernel_in_threads(function: Function) -> Function:
    """Like ``kernel``, for a function that takes long: other threads run meanwhile."""
    return cast(Function, Kernel(function, nogil=True))


def kernel_in_place(function: Function) -> Function:
    """Like ``kernel``, for a small function that makes no array and that only other kernels call: it becomes a part of
    them, and numba counts no references to arrays in it.

    A pass over a page calls ten such functions for each tag; as functions of their own they took three times as long.
    """
    options = {"_nrt": False, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Function, Kernel(function, **options))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields ``code`` and the code of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _parts(code: types.CodeType, names: dict[str, Any]) -> Iterator[str]:
    """Yields the instructions of ``code``, its constants, and each of the global ``names`` in it with its value."""
    yield code.co_code.hex()
    yield from (repr(constant) for constant in code.co_consts if not isinstance(constant, types.CodeType))
    for name in code.co_names:
        yield name
        if name in names:
            yield from _contents(names[name])


def _contents(value: Any) -> Iterator[str]:
    """Yields texts from which the ``value`` that a kernel names follows."""
    if isinstance(value, Kernel):
        yield value.content
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, tuple):
        for item in value:
            yield from _contents(item)
    elif isinstance(value, types.ModuleType | types.FunctionType | type):
        yield value.__name__
    else:
        yield repr(value)
