"""Compiles functions to fused kernels at their first call: importing the compiler alone takes seconds."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

compile_lazily = functools.partial(torch.compile, options={"deterministic": True})
"""Compiles at the first call. A kernel's way to add up does not depend on which one was the fastest in a trial, so a
resumed training has the same bits as one that was not interrupted."""

compile_with_trials = functools.partial(
    torch.compile, options={"max_autotune": True, "coordinate_descent_tuning": True}
)
"""Compiles at the first call to the kernels that are the fastest in trials: torch's mode
``max-autotune-no-cudagraphs``."""

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns ``function`` compiled by torch.compile.

    While a graph around it is compiled, ``function`` itself is returned and becomes a part of that graph.
    """
    return function if torch.compiler.is_compiling() else _compiled_once(function)


_compiled_once = functools.cache(compile_lazily)
