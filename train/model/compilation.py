"""Compiles functions to fused kernels at their first call: importing the compiler alone takes seconds."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Returns ``function`` compiled by torch.compile.

    While a graph around it is compiled, ``function`` itself is returned and becomes a part of that graph.
    """
    return function if torch.compiler.is_compiling() else _compiled_once(function)


_compiled_once = functools.cache(torch.compile)
