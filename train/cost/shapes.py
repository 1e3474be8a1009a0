"""The parameters of a model by role and shape, before the model exists. Free of torch.

The roles are those of train/model/roles.py.
"""

import math
from collections.abc import Iterator

from headrace.train.config import ModelConfig
from headrace.train.engine.optimizers.base import Shapes
from headrace.train.parts import ACTIVATIONS, MIXERS, POSITIONS, RoleName

Shape = tuple[int, int]


def shapes_by_role(model: ModelConfig, vocabulary: int) -> Shapes:
    """Returns the shapes of each role, those of shared weights once; all vectors together are listed as one."""
    shapes: dict[RoleName, list[tuple[int, ...]]] = {
        "embedding": list(embeddings(model, vocabulary)),
        "head": list(heads(model, vocabulary)),
        "matrix": list(hidden_matrices(model)),
    }
    in_matrices = sum(math.prod(shape) for of_role in shapes.values() for shape in of_role)
    return {**shapes, "vector": [(model.parameters(vocabulary) - in_matrices,)]}


def embeddings(model: ModelConfig, vocabulary: int) -> Iterator[Shape]:
    """Yields the shapes of the embeddings: of tokens, and of the positions and segments of each stack."""
    width, facts = model.embedding_width or model.width, POSITIONS[model.positions]
    yield vocabulary, width
    for _ in range(1 + (model.stack == "encoder_decoder")):
        if facts.vectors_per_position:
            yield model.position_offset + model.context, width
        if model.segments:
            yield model.segments, width
    for stack in _stacks(model):
        yield from [(facts.biases_per_head, stack.heads)] * facts.tables(stack.layers)


def heads(model: ModelConfig, vocabulary: int) -> Iterator[Shape]:
    """Yields the shapes of output layers that are not tied to an embedding."""
    if model.stack == "discriminator":
        yield 1, model.width
    elif not model.tied:
        yield vocabulary, model.embedding_width or model.width
    if model.pair_head:
        yield 2, model.width


def hidden_matrices(model: ModelConfig) -> Iterator[Shape]:
    """Yields the shapes of the matrices between embeddings and output layers, those of shared layers once.

    Queries, keys, values, gate and value are matrices of their own, and each gate of a recurrent layer is.
    """
    for stack in _stacks(model):
        embedding_width = stack.embedding_width or stack.width
        if stack is model or not model.shared_stacks:
            yield from list(_block(stack)) * stack.blocks
        if embedding_width != stack.width:
            yield stack.width, embedding_width
        if stack.output_transform:
            yield embedding_width, stack.width
    if model.stack == "discriminator" or model.pair_head:
        yield model.width, model.width


def _stacks(model: ModelConfig) -> Iterator[ModelConfig]:
    """Yields the stacks that are trained together: that of the model, and its encoder."""
    yield model
    if model.stack == "encoder_decoder":
        yield model.encoder


def _block(model: ModelConfig) -> Iterator[Shape]:
    if model.mixer == "attention":
        query_width, key_width = model.heads * model.head_width, model.kv_heads * model.head_width
        attention = (query_width, model.width), *((key_width, model.width),) * 2, (model.width, query_width)
        yield from attention * (1 + (model.stack == "encoder_decoder"))
    elif model.mixer == "window_mlp":
        yield from _mlp(model, (model.window or 1) * model.width)
    else:
        yield from ((model.width, model.width),) * (2 * MIXERS[model.mixer].gates)
    yield from _mlp(model, model.width)


def _mlp(model: ModelConfig, inputs: int) -> Iterator[Shape]:
    yield from ((model.mlp_width, inputs),) * ACTIVATIONS[model.activation].inputs
    yield model.width, model.mlp_width
