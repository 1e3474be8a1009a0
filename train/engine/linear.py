"""The function that linear layers compute with: torch's, or that of DeepSpeed's stage 3."""

import contextlib
from collections.abc import Callable, Iterator

from deepspeed.runtime.zero import linear as of_stage_3
from deepspeed.runtime.zero.utils import is_zero_param
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

    DeepSpeed adds it in place. In compiled layers torch 2.11 then computes gradients of 0, without an error. Selective
    recomputation keeps the product, so it would add the bias twice.
    """

    def function(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is None or x.dim() == 2:  # the product of two matrices and the sum are one operation
            return linear(x, weight, bias)
        return linear(x, weight) + bias

    return function


def ask_for_weights(asks: bool) -> None:
    """Sets whether DeepSpeed's function asks, in the backward pass, if it must gather the weight itself.

    Blocks that are gathered whole have it there already. A compiled block that asks depends on the number that
    DeepSpeed gives each parameter: torch 2.11 compiled a graph for each layer, and none after the eighth.
    """
    of_stage_3.is_zero_param = is_zero_param if asks else _has_it


def _has_it(parameter: nn.Parameter) -> bool:
    """Answers for a weight that is whole, so nothing needs to be gathered."""
    return False
