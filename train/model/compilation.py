"""Functions as fused kernels, compiled where first called: importing the compiler alone takes seconds."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` by torch.compile; itself where a graph around it is compiled, of which it becomes a part."""
    return function if torch.compiler.is_compiling() else _kept(function)


_kept = functools.cache(torch.compile)
