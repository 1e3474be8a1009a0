"""The cost of a layer by its type, as in table 1 of Vaswani et al. 2017, for rows of n positions of d values.

                                  multiplications    in sequence    longest path
    self-attention                n² · d             1              1
    recurrent                     n · d²             n              n
    convolutional, k positions    k · n · d²         1              log_k n, of dilated layers
    self-attention, r positions   r · n · d          1              2 n / r

Multiplications are those of one matrix product, operations in sequence cannot be done at the same time, and a path is
one of layers from the first position to the last. The paper's n / r leaves out a factor: with r positions in reach,
half of them on either side, a layer carries r / 2 positions far.
"""

import math
from collections.abc import Iterator

from headrace.pipeline.study.exact_row import ExactRow
from headrace.train.model import layer_costs

TOKENS, WIDTH, KERNEL, WINDOW = 4_096, 768, 3, 64
REACH = 2 * WINDOW - 1


def layer_type_rows() -> Iterator[ExactRow]:
    """Yields the cost and the longest path of each type of layer, by the formula and as counted."""
    n, d, k, r = TOKENS, WIDTH, KERNEL, REACH
    topic, source = f"layers, n = {n:,}, d = {d}, k = {k}, r = {r}", "Vaswani et al. 2017, table 1"
    for name, formula, expected, own in (
        ("self-attention", "n² d", n**2 * d, layer_costs.attention_multiplications(n, d, None)),
        ("recurrent", "n d²", n * d**2, layer_costs.recurrent_multiplications(n, d)),
        ("convolutional", "k n d²", k * n * d**2, layer_costs.convolutional_multiplications(n, d, k)),
        ("restricted self-attention", "r n d", r * n * d, layer_costs.attention_multiplications(n, d, WINDOW)),
    ):
        yield ExactRow.of(topic, f"{name}: multiplications, {formula}", expected, own, "formula", source, ".1e")
    dilated, windows = math.ceil(math.log(n, k)), math.ceil((n - 1) / (WINDOW - 1))
    for what, expected, own in (
        ("convolutional, dilated: longest path, log_k n", dilated, layer_costs.dilated_layers(n, k)),
        ("restricted self-attention: longest path, 2 n / r", windows, layer_costs.window_layers(n, WINDOW)),
    ):
        yield ExactRow.of(topic, what, expected, own, "formula", source)
