"""The role of each parameter, and the matrices that share one parameter. Optimizers treat roles differently.

embedding    tokens, positions, segments; also an output layer that is tied to the token embedding
head         output layers with weights of their own, to tokens or labels
matrix       every other matrix: the hidden layers
vector       biases and weights of norms
"""

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from headrace.train.model.attention import Attention, CrossAttention
from headrace.train.model.head import Head
from headrace.train.model.layers import DetectionHead, Mlp, PairHead, Recurrent, TaskLayers
from headrace.train.model.positions import LearnedPositions
from headrace.train.parts import RoleName


class HasRoles(Protocol):
    """The part of a torch module that roles are read from."""

    def modules(self) -> Iterator[nn.Module]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


def shape_of(parameter: nn.Parameter) -> torch.Size:
    """Returns the shape of the whole ``parameter``, which has no values here where ZeRO's stage 3 has divided it."""
    shape: torch.Size = getattr(parameter, "ds_shape", parameter.shape)
    return shape


def roles(model: HasRoles) -> dict[str, RoleName]:
    """Returns the role of each parameter by its name, in the order of the parameters; tied ones are there once."""
    embeddings, heads = set[Tensor](), set[Tensor]()
    for module in model.modules():
        if isinstance(module, nn.Embedding | LearnedPositions):
            embeddings.add(module.weight)
        elif isinstance(module, Head):
            heads.add(module.weight)
        elif isinstance(module, DetectionHead | PairHead | TaskLayers):
            heads.add(module.output.weight)

    def role(parameter: nn.Parameter) -> RoleName:
        if len(shape_of(parameter)) < 2:
            return "vector"
        if parameter in embeddings:
            return "embedding"
        return "head" if parameter in heads else "matrix"

    return {name: role(parameter) for name, parameter in model.named_parameters()}


def fused_rows(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Returns the rows of each matrix in weights that hold several, one below the other, and of their biases.

    These are queries, keys and values of an attention; gate and value of a gated feed-forward layer; the gates of a
    recurrent layer.
    """
    cells = [(name, module.cells) for name, module in model.named_modules() if isinstance(module, Recurrent)]
    of_cells = {
        f"{name}.cells.{leaf}": (layer.hidden_size,) * (len(parameter) // layer.hidden_size)
        for name, layer in cells
        for leaf, parameter in layer.named_parameters()
    }
    rows_of: dict[str, tuple[int, ...]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Attention):
            heads = (module.config.heads, module.config.kv_heads, module.config.kv_heads)
            rows_of[f"{name}.qkv"] = tuple(number * module.config.head_width for number in heads)
        elif isinstance(module, CrossAttention):
            rows_of[f"{name}.key_value"] = (module.config.kv_heads * module.config.head_width,) * 2
        elif isinstance(module, Mlp):
            width = module.down.in_features
            rows_of[f"{name}.up"] = (width,) * (module.up.out_features // width)
    return of_cells | {f"{name}.{kind}": rows for name, rows in rows_of.items() for kind in ("weight", "bias")}
