"""The attention of a model that reads a text: raw scores, masked scores and weights of each head of each layer.

    decoder            the text, as a context
    encoder            [CLS] the text, which may have [MASK]s [SEP]
    encoder–decoder    the encoder reads the text, the decoder its first tokens and an answer: three kinds of attention

Shapes: N heads, T queries, S keys.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.batches import EncoderTokens
from headrace.train.inference.encoder_likelihood import EncoderLikelihood
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.model.attention import DenseAttention, EncoderOutput, WeightRecorder
from headrace.train.model.transformer import Transformer
from headrace.train.model.visibility import BIDIRECTIONAL, CAUSAL
from headrace_courses.fill_mask import check_fits, sequence_of

AttentionKind = Literal["self-attention", "encoder", "decoder", "cross-attention"]


@dataclasses.dataclass(frozen=True, eq=False)
class LayerAttention:
    """The attention of the heads of one layer."""

    kind: AttentionKind
    layer: int
    """Counted from 0."""
    queries: Sequence[str]
    """The texts of the T tokens that attend."""
    keys: Sequence[str]
    """The texts of the S tokens that they attend to."""
    weights_NTS: NDArray[np.float32]
    """The softmax over the keys: each row sums to 1."""
    scores_NTS: NDArray[np.float32] | None = None
    """q·kᵀ / sqrt(D), in the scale of the model's family; None: of a model that only ``transformers`` computes."""
    masked_NTS: NDArray[np.float32] | None = None
    """The scores with cap and bias, and -inf where a key is not visible: what the softmax gets."""


@torch.inference_mode()
def text_attention(model: InferenceModel, text: str, answer: str) -> Iterator[LayerAttention]:
    """Yields the attention of each layer when ``model`` reads ``text``.

    Args:
        model: any model that reads or writes text.
        text: what is read.
        answer: for an encoder–decoder, what its decoder reads after its first tokens.

    Raises:
        ConfigError: when the text does not fit the model, or it has no decoder for an answer.
    """
    if answer and model.stack != "encoder_decoder":
        problem = f"is given to a model of stack {model.stack}, which reads one text"
        raise ConfigError("--answer", problem, "write it at the end of --text")
    ids, answered = (encoded.tolist() for encoded in model.tokenizer.encode([text, answer]))
    network = model.network
    if not isinstance(network, Transformer):
        read = [*model.opening, *ids] or [model.tokenizer.end_of_text]
        check_fits(model, len(read))
        texts = _texts(model, read)
        for layer, weights_BNTT in enumerate(network.attention_weights(_row(model, read))):
            yield LayerAttention("self-attention", layer, texts, texts, _array(weights_BNTT))
        return
    if model.stack == "encoder_decoder":
        yield from _of_two_stacks(model, network, ids, answered)
        return
    if isinstance(model.likelihood, EncoderLikelihood):
        read = sequence_of(model, model.likelihood.tokens, text).tolist()
    else:
        read = network.context_form.read([*model.opening, *ids] or [model.tokenizer.end_of_text])
        check_fits(model, len(read))
    texts, vectors_BTM = _texts(model, read), network.embedding(_row(model, read))
    for layer, recorder in enumerate(network.recorded(vectors_BTM, network.of_contexts)):
        yield _layer("self-attention", layer, texts, texts, recorder)


def _of_two_stacks(
    model: InferenceModel, network: Transformer, ids: Sequence[int], answered: Sequence[int]
) -> Iterator[LayerAttention]:
    """Yields the layers of the encoder, then each of the decoder with its attention to the encoder's output."""
    read, begun = network.context_form.read(ids), network.context_form.begun(ids)
    written = [*begun, *answered]
    check_fits(model, max(len(read), len(written)))
    sources, targets = _texts(model, read), _texts(model, written)
    tokens_BS, tokens_BT = _row(model, read), _row(model, written)
    places_BS = torch.arange(len(read), device=model.device)[None]
    assert network.encoder is not None  # the stack says so
    for layer, recorder in enumerate(network.encoder.recorded(network.embedding(tokens_BS), BIDIRECTIONAL)):
        yield _layer("encoder", layer, sources, sources, recorder)
    source = EncoderTokens(tokens_BS, places_BS, torch.zeros_like(tokens_BS))
    memory = network.memory(source, torch.zeros_like(tokens_BT))
    assert isinstance(memory.attending, DenseAttention)
    cross = WeightRecorder(memory.attending.mask)
    recorders = network.recorded(network.embedding(tokens_BT), CAUSAL, EncoderOutput(memory.x_BSM, cross))
    for layer, recorder in enumerate(recorders):
        yield _layer("decoder", layer, targets, targets, recorder)
        yield _layer("cross-attention", layer, targets, sources, cross)


def _layer(
    kind: AttentionKind, layer: int, queries: Sequence[str], keys: Sequence[str], recorder: WeightRecorder
) -> LayerAttention:
    arrays = (recorder.weights_BNTT, recorder.scores_BNTT, recorder.masked_BNTT)
    return LayerAttention(kind, layer, queries, keys, *map(_array, arrays))


def _array(values_1NTS: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values_1NTS[0].float().cpu().numpy()
    return array


def _row(model: InferenceModel, ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor([list(ids)], dtype=torch.int64, device=model.device)


def _texts(model: InferenceModel, ids: Sequence[int]) -> list[str]:
    return [model.tokenizer.decode([token]) for token in ids]
