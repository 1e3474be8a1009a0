"""One short row as an objective makes it, and who sees whom when a model reads it.

    pieces ── Objective.row ──> arrays ── Objective.losses, with a tiny model of the same kind ──> masks of its layers

The masks are those that the model's attention gets in a training step, or what a model without attention reads. No mask
is computed a second time here.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from headrace.pipeline.report.formatting import visible
from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED, Arrays, stacked, to_device
from headrace.train.data.order import row_generator
from headrace.train.data.rows import Pieces
from headrace.train.objectives.base import AddsModules, Objective, Vocabulary

if TYPE_CHECKING:
    from headrace.train.model.recurrence import RowPast

TOKEN_ARRAYS = ("encoder_inputs", "inputs", "targets")
"""The arrays that hold token ids; the others hold numbers."""
OTHER_ARRAYS = ("masked", "draws", "firsts", "labels")
"""The arrays with a value for each masked position, or for each pair of texts."""
HEAD_WIDTH = 8
ENCODER = "encoder_"
"""The prefix of the arrays that the encoder of an encoder–decoder reads."""


@dataclasses.dataclass(frozen=True)
class Mask:
    """The mask of some layers."""

    layers: Sequence[int]
    """The layers with this mask, from 0."""
    visible_TS: NDArray[np.bool_]
    """True where the query at index t sees the key at index s."""
    queries: str = "inputs"
    """The array with the tokens of the queries."""
    keys: str = "inputs"
    """The array with the tokens of the keys."""


@dataclasses.dataclass(frozen=True)
class RowExample:
    """A row of T positions, and those of its encoder if there is one."""

    arrays: Mapping[str, NDArray[np.int64]]
    """The arrays of the objective, each (T,) or as long as the encoder's row, without padding at the end."""
    masks: Sequence[Mask]
    texts: Mapping[int, str]
    """The text of each token id."""

    def tokens(self) -> list[int]:
        """Returns the distinct token ids, in the order of the row."""
        return tokens_of(self.arrays)


def tokens_of(arrays: Arrays) -> list[int]:
    """Returns the distinct token ids of a row's arrays, in the order of the row."""
    rows = [arrays[name].tolist() for name in TOKEN_ARRAYS if name in arrays]
    return [token for token in dict.fromkeys(itertools.chain(*rows)) if token >= 0]


def row_example(
    config: ModelConfig, objective: Objective, pieces: Pieces, row_tokens: int, tokenizer: Tokenizer, seed: int
) -> RowExample:
    """Returns the row of the first ``row_tokens`` positions of ``pieces``, and its masks."""
    short = shortened(pieces, row_tokens, objective.frame_tokens)
    vocabulary = Vocabulary.of_tokenizer(objective, tokenizer)
    arrays = objective.row(short, row_tokens, vocabulary, row_generator(seed, "training", 0))
    return as_read(config, objective, arrays, vocabulary.size, tokenizer)


class Learned(Protocol):
    """An objective, or a task that learns tokens."""

    def losses(self, model: Any, batch: Any) -> Any:
        """Returns the loss of ``model``, a network of the kind that it trains, on the arrays ``batch``."""
        ...


def as_read(config: ModelConfig, learned: Learned, arrays: Arrays, vocabulary: int, tokenizer: Tokenizer) -> RowExample:
    """Returns the row of ``arrays``, each (T,), and its masks in a model of ``config``; ``learned`` made it."""
    masks = _masks(config, learned, stacked([arrays]), vocabulary)
    arrays = {name: values[: _end(arrays, name)] for name, values in _by_position(arrays).items()}
    return RowExample(
        arrays,
        [
            dataclasses.replace(mask, visible_TS=mask.visible_TS[: len(arrays[mask.queries]), : len(arrays[mask.keys])])
            for mask in masks
        ],
        {token: tokenizer.decode([token], skip_special_tokens=False) for token in tokens_of(arrays)},
    )


def _end(arrays: Arrays, name: str) -> int:
    """Returns the number of positions of the array ``name`` before the padding at the end."""
    documents = arrays[f"{ENCODER if name.startswith(ENCODER) else ''}documents"]
    return int((np.flatnonzero(documents >= 0) + 1).max(initial=0))


def _by_position(arrays: Arrays) -> Arrays:
    """Returns ``arrays`` with each target at its position; an objective may list the positions that have one."""
    if "masked" not in arrays:
        return arrays
    targets = np.full(len(arrays["inputs"]), IGNORED)
    has_target = arrays["targets"] != IGNORED
    targets[arrays["masked"][has_target]] = arrays["targets"][has_target]
    return {name: values for name, values in arrays.items() if name not in OTHER_ARRAYS} | {"targets": targets}


def shortened(pieces: Pieces, row_tokens: int, frame_tokens: int) -> Pieces:
    """Returns the first pieces that fit ``row_tokens`` positions, the last one cut.

    A piece has one token more than positions, and needs ``frame_tokens`` besides.
    """
    short, left = [], row_tokens
    for piece in pieces:
        if left > frame_tokens:
            short.append(piece[: left - frame_tokens + 1])
            left -= len(short[-1]) - 1 + frame_tokens
    return short


def _masks(config: ModelConfig, learned: Learned, batch: Arrays, vocabulary: int) -> list[Mask]:
    """Returns each distinct mask of one head, with its layers; those of an encoder come first."""
    import torch

    from headrace.train.model.attention import Attention, CrossAttention, DenseAttention, EncoderOutput
    from headrace.train.model.layers import Recurrent, WindowMlp
    from headrace.train.model.recurrence import RowPast
    from headrace.train.model.transformer import Transformer

    one_head = dataclasses.replace(
        config,
        heads=1,
        kv_heads=1,
        width=HEAD_WIDTH,
        mlp_width=HEAD_WIDTH,
        attention_width=None,
        rotary_fraction=1.0,
    )
    with torch.random.fork_rng(devices=[]):  # building a network draws its first weights
        build = learned.build if isinstance(learned, AddsModules) else Transformer
        model = build(one_head, vocabulary).eval()
    given: list[tuple[str, DenseAttention | EncoderOutput | RowPast]] = []
    for name, module in model.named_modules():
        if isinstance(module, (Attention, CrossAttention, Recurrent, WindowMlp)):
            module.register_forward_pre_hook(lambda _, arguments, name=name: given.append((name, arguments[-1])))
    with torch.no_grad():
        learned.losses(model, to_device(batch, torch.device("cpu")))
    numbers = Counter[tuple[str, str]]()
    layers_of_mask: dict[tuple[str, str, bytes], tuple[list[int], NDArray[np.bool_]]] = {}
    for name, attending in given:
        queries = f"{ENCODER}inputs" if name.startswith("encoder.") else "inputs"
        keys = f"{ENCODER}inputs" if isinstance(attending, EncoderOutput) else queries
        if isinstance(attending, RowPast):
            visible = _read_positions(attending, len(batch["inputs"][0]), config.window)
        else:
            dense = attending.attending if isinstance(attending, EncoderOutput) else attending
            assert isinstance(dense, DenseAttention)  # on a CPU
            visible = dense.mask.visible_BNTS[0, 0].numpy()
        layers, _ = layers_of_mask.setdefault((queries, keys, visible.tobytes()), ([], visible))
        layers.append(numbers[queries, keys])
        numbers[queries, keys] += 1
    return [Mask(layers, visible, queries, keys) for (queries, keys, _), (layers, visible) in layers_of_mask.items()]


def _read_positions(past: "RowPast", positions: int, window: int | None) -> NDArray[np.bool_]:
    """Returns which positions of the only row each one reads, bool (T, T): those whose vectors reach it, one at a
    time, through windows or through a state that is the sum of all vectors."""
    import torch

    single_1TT = torch.eye(positions)[None]
    if window is not None:
        return (past.windows(single_1TT, window)[0].sum(1) > 0).numpy()
    adding = torch.nn.RNN(positions, positions, nonlinearity="relu", bias=False, batch_first=True)
    for weight in adding.parameters():
        torch.nn.init.eye_(weight)
    return (past.recurred(single_1TT, adding)[0] > 0).numpy()


def token_name(text: str, characters: int = 40) -> str:
    """Returns the text of a token on one line, without white space: ``␣`` is a space, ``⏎`` a line end, ``⇥`` a tab."""
    return visible(text, characters).replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
