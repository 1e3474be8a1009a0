"""The function that linear layers compute with: torch's, or that of DeepSpeed's stage 3."""

import contextlib
from collections.abc import Callable, Iterator

from torch import Tensor, nn


@contextlib.contextmanager
def linear_layers(function: Callable[..., Tensor]) -> Iterator[None]:
    """Makes linear layers compute with ``function`` until the end of the block.

    DeepSpeed's stage 3 replaces torch's function in the whole process and for ever, by one that rounds differently.
    """
    before = nn.functional.linear
    nn.functional.linear = function
    try:
        yield
    finally:
        nn.functional.linear = before


def with_bias_apart(linear: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns ``linear`` of DeepSpeed's stage 3, which adds the bias to a copy of the product. The bits are the same.

    DeepSpeed adds it in place. Selective recomputation keeps the product, so it would add the bias twice.
    """

    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is None or x.dim() == 2:  # the product of two matrices and the sum are one operation
            return linear(x, weight, bias)
        return linear(x, weight) + bias

    return function
