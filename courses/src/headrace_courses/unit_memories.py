"""Feed-forward units as memories: the texts that excite a unit most, and the tokens that its value vector promotes.

    a layer computes    down(m),  m = activation(up(x))        F units, m_i the coefficient of unit i
                        Σ m_i · v_i                            v_i, column i of ``down``: the value vector of unit i

    triggers     the tokens of a text up to the position where m_i is highest: what the key of the unit answers to
    promoted     the tokens that are likeliest after the output layer reads v_i alone

Geva et al. 2021 ("Transformer Feed-Forward Layers Are Key-Value Memories", sections 3 and 4). Of a gated activation, m
is gate times value. Geva et al. multiply v_i by the output embedding as it is. Here v_i passes the norms between the
layer and the output embedding first, because their scales change which tokens win; their biases are left out, and so
is the transform of an encoder's output layer, which is not linear. A norm gives v_i a length of its own: compare the
probabilities of one unit only.

Shapes: T positions, F units, K triggers, M model width, V vocabulary.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headrace.pipeline.core.errors import ConfigError
from headrace.train.inference.encoder_likelihood import EncoderLikelihood
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.model.head import Head
from headrace.train.model.layers import Block
from headrace.train.model.transformer import Transformer
from headrace_courses.fill_mask import LikelyText

TRIGGERS = 8
"""Texts of each unit."""
PROMOTED = 12
"""Tokens of each unit."""
CONTEXT_TOKENS = 14
"""Tokens of a trigger that are shown."""
STRONGEST = 4
"""Units of a layer that is asked for as a whole: those with the highest coefficients."""


@dataclasses.dataclass(frozen=True)
class Trigger:
    """The end of a text that excites a unit."""

    tokens: Sequence[str]
    coefficients: Sequence[float]
    """m_i at each of the tokens; the last one is that of the trigger."""
    next_token: str
    """The token that follows in the text; empty at its end."""


@dataclasses.dataclass(frozen=True)
class UnitMemory:
    """One unit of a feed-forward layer."""

    layer: int
    """Counted from 0, as ``unit``."""
    unit: int
    triggers: Sequence[Trigger]
    """Places in different texts, the most exciting first."""
    promoted: Sequence[LikelyText]
    """The likeliest tokens of the value vector alone."""


@torch.inference_mode()
def unit_memories(
    model: InferenceModel, asked: Sequence[tuple[int, int | None]], texts: Sequence[NDArray[np.int64]]
) -> Iterator[UnitMemory]:
    """Yields each of the units.

    Args:
        model: a decoder or an encoder that Headrace computes.
        asked: layer and unit of each, from 0; without a unit the STRONGEST ones of the layer.
        texts: the tokens of each text as the model reads it, at most its window.

    Raises:
        ConfigError: when the model has no such layers, or no output embedding of their width.
    """
    network = model.network
    if not isinstance(network, Transformer) or network.encoder is not None:
        problem = "is not of one stack that Headrace computes"
        raise ConfigError("--units", f"the model {problem}", "give a decoder or an encoder of docs/models.md")
    layers, units = network.config.layers, network.config.mlp_width
    if not isinstance(network.head, Head) or network.head.weight.shape[1] != network.config.width:
        problem = f"the output layer of the model ({network.config.stack}) does not read vectors of its layers' width"
        raise ConfigError("--units", problem, "give another model")
    for layer, unit in asked:
        if layer >= layers or (unit or 0) >= units:
            name = str(layer) if unit is None else f"{layer}.{unit}"
            remedy = "give LAYER.UNIT or LAYER, with commas between"
            raise ConfigError(
                "--units", f"{name!r} is none of layers 0 to {layers - 1}, units 0 to {units - 1}", remedy
            )
    for layer, unit in asked:
        values_KF, numbers_KF = _strongest(network, layer, texts)
        chosen = values_KF[0].topk(min(STRONGEST, units)).indices.tolist() if unit is None else [unit]
        for number in chosen:
            triggers = [_trigger(model, network, layer, number, texts[text]) for text in numbers_KF[:, number].tolist()]
            yield UnitMemory(layer, number, triggers, _promoted(model, network, layer, number))


def read_text(model: InferenceModel, text: str | NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Returns the tokens of ``text`` as ``model`` reads it, or the tokens themselves, cut to its window."""
    if not isinstance(text, str):
        return text.astype(np.int64)[: model.window_tokens]
    ids = model.tokenizer.encode([text])[0].astype(np.int64)
    if isinstance(model.likelihood, EncoderLikelihood):
        return model.likelihood.tokens.framed(ids[: model.window_tokens - 2])
    opening = np.array(model.opening or [model.tokenizer.end_of_text], np.int64)
    return np.concatenate([opening, ids])[: model.window_tokens]


def _strongest(network: Transformer, layer: int, texts: Sequence[NDArray[np.int64]]) -> tuple[Tensor, Tensor]:
    """Returns the highest coefficients of each unit over texts, values_KF, and the numbers of the texts, numbers_KF."""
    highest_SF = torch.stack([_coefficients(network, layer, text_T).amax(0) for text_T in texts])
    top = highest_SF.topk(min(TRIGGERS, len(texts)), dim=0)
    return top.values, top.indices


def _coefficients(network: Transformer, layer: int, text_T: NDArray[np.int64]) -> Tensor:
    """Returns the coefficients of all units of ``layer`` at all positions of a text, m_TF in fp32."""
    read: list[Tensor] = []

    def keep(down: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        read.append(inputs[0][0].float())

    tokens_1T = torch.from_numpy(text_T)[None].to(network.embedding.weight.device)
    positions_1T = torch.arange(len(text_T), device=tokens_1T.device)[None]
    blocks = (cast(Block, block) for block in network.blocks)
    hooks = [block.mlp.down.register_forward_pre_hook(keep) for block in blocks]
    try:
        network.attended(network.embedding(tokens_1T), positions_1T, torch.zeros_like(tokens_1T))
    finally:
        for hook in hooks:
            hook.remove()
    return read[layer]  # one for each layer, also where layers share a block


def _trigger(model: InferenceModel, network: Transformer, layer: int, unit: int, text_T: NDArray[np.int64]) -> Trigger:
    coefficients_T = _coefficients(network, layer, text_T)[:, unit]
    end = int(coefficients_T.argmax()) + 1
    start = max(0, end - CONTEXT_TOKENS)
    tokens = [model.tokenizer.decode([token]) for token in text_T[start : end + 1].tolist()]
    next_token = tokens.pop() if end < len(text_T) else ""
    return Trigger(tokens, coefficients_T[start:end].tolist(), next_token)


def _promoted(model: InferenceModel, network: Transformer, layer: int, unit: int) -> list[LikelyText]:
    """Returns the tokens that the value vector of a unit promotes."""
    block = list(network.layers)[layer]
    assert isinstance(block, Block)
    value_M = block.mlp.down.weight[:, unit]
    norms = [block.mlp_output_norm, *([block.mlp_norm] if block.is_post_norm else []), network.norm]
    for norm in norms:
        value_M = norm(value_M) - norm(torch.zeros_like(value_M))
    head = network.head
    assert isinstance(head, Head)  # unit_memories refuses others
    log_probs_V = (head.weight @ value_M).float().log_softmax(0)
    top = log_probs_V.topk(min(PROMOTED, len(log_probs_V)))
    return [
        LikelyText(model.tokenizer.decode([token]), (token,), log_p)
        for token, log_p in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]
