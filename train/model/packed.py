"""Matrices laid out once in the blocks that oneDNN multiplies by, for a model on a CPU that is only asked.

                     576 wide to 3,072      4 rows   64 rows   1,024 rows     GFLOP/s of one core (AMD EPYC, AVX-512)
    as they are, by MKL                       41       74         80
    packed, by oneDNN                         92      100        103

No row of a product depends, to the last bit, on the rows beside it from 2 rows on, with one or two threads (measured
up to 4,096 values a row). Training keeps its own products: these are not differentiated, and round otherwise.
"""

import torch
from torch import Tensor, nn

EXPECTED_ROWS = 64
"""oneDNN lays a matrix out for so many rows of the other; products with more and with fewer are as fast."""


class PackedLinear(nn.Module):
    """What ``linear`` computes, in fp32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), EXPECTED_ROWS)
        self._bias = linear.bias

    def forward(self, x_BTM: Tensor, targets_BT: None = None) -> Tensor:
        """Takes the call of ``Head`` too, but no targets."""
        return torch.ops.mkldnn._linear_pointwise(x_BTM, self._weight, self._bias, "none", [], "")


def pack(model: nn.Module) -> None:
    """Replace the matrices of ``model``, which is on a CPU and in fp32, where torch comes with oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, PackedLinear(child))
