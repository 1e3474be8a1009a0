"""Draws where a model looks: the weights of all heads as images, and the matrices of chosen ones as numbers.

    head         0      1      2                layer 0, head 2     scores          masked          weights
    layer 0     [##]   [##]   [##]                                  the  mill       the  mill       the  mill
    layer 1     [##]   [##]   [##]                            the   0.3  -0.2       0.3   -∞        1.00 0.00

A line is a token that attends, a column one that it attends to; black is a weight of 1.
"""

import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.report.figures.svg import LETTER, MARGIN, box, image, label, turned, whole, written
from headrace.pipeline.report.formatting import token_name

if TYPE_CHECKING:
    from headrace.train.inference.text_attention import AttentionKind, LayerAttention

HeadNumber = tuple[int, int]
"""Layer and head, from 0."""
LEAST, MOST = 36, 110
"""Pixels of a side of a head's image."""
PIXEL = 4
GAP = 6
LINE = 20
CELL = 46
"""The width of a number."""
NAMES = 70
"""Pixels for the names of layers."""
MATRICES = {
    "scores": "scores, q·k / √D",
    "masked": "scores with bias and mask",
    "weights": "weights, softmax of a line",
}


def attention_picture(title: str, layers: "Sequence[LayerAttention]", heads: Collection[HeadNumber]) -> str:
    """Returns the picture of ``layers``; ``heads`` are those whose matrices are written as numbers."""
    parts, top, width = [], MARGIN + 2.0 * LINE, len(title) * LETTER
    by_kind: dict[AttentionKind, list[LayerAttention]] = {}
    for layer in layers:
        by_kind.setdefault(layer.kind, []).append(layer)
    for kind, of_kind in by_kind.items():
        drawn, top, right = _overview(kind, of_kind, top)
        parts += drawn
        width = max(width, right)
    for layer, head in itertools.product(layers, sorted(heads)):
        if head[0] == layer.layer:
            drawn, top, right = _matrices(layer, head[1], top)
            parts += drawn
            width = max(width, right)
    return whole(title, parts, width + MARGIN, top)


def _overview(kind: "AttentionKind", layers: "Sequence[LayerAttention]", top: float) -> tuple[list[str], float, float]:
    """Returns the images of all heads, a line for each layer, and the ends of the drawing."""
    queries, keys = len(layers[0].queries), len(layers[0].keys)
    height, width = (min(max(PIXEL * places, LEAST), MOST) for places in (queries, keys))
    note = f"{kind}: {queries} tokens attend to {keys}; a column for each head"
    parts = [written(MARGIN, top, note, "note")]
    left, top = MARGIN + NAMES, top + LINE
    heads = len(layers[0].weights_NTS)
    parts += [written(left + head * (width + GAP), top, str(head)) for head in range(heads)]
    for layer in layers:
        parts.append(written(MARGIN, top + GAP + height / 2, f"layer {layer.layer}"))
        for head, weights_TS in enumerate(layer.weights_NTS):
            x, y = left + head * (width + GAP), top + GAP
            parts += [f'<rect x="{x - 1:.1f}" y="{y - 1:.1f}" width="{width + 2}" height="{height + 2}" fill="#ccc"/>']
            parts.append(image(x, y, width, height, weights_TS))
        top += height + GAP
    return parts, top + 2 * LINE, left + heads * (width + GAP)


def _matrices(layer: "LayerAttention", head: int, top: float) -> tuple[list[str], float, float]:
    """Returns the matrices of a head as numbers, and the ends of the drawing."""
    queries, keys = ([label(token_name(text)) for text in texts] for texts in (layer.queries, layer.keys))
    longest = max(len(text) for text in (*queries, *keys)) * LETTER + GAP
    arrays = {"scores": layer.scores_NTS, "masked": layer.masked_NTS, "weights": layer.weights_NTS}
    parts = [written(MARGIN, top, f"{layer.kind}, layer {layer.layer}, head {head}", "title")]
    left, corner = float(MARGIN), top + LINE + longest + GAP
    for name, values_NTS in arrays.items():
        if values_NTS is None:
            continue
        first = left + longest
        parts.append(written(left, top + LINE, MATRICES[name], "note"))
        parts += [turned(first + (at + 0.6) * CELL, corner - GAP, text) for at, text in enumerate(keys)]
        for line, (text, values_S) in enumerate(zip(queries, values_NTS[head], strict=True)):
            y = corner + line * LINE
            parts.append(written(first - GAP, y + 14, text, anchor="end"))
            strongest = 1.0 if name == "weights" else _strongest(values_NTS[head])
            for column, value in enumerate(values_S.tolist()):
                x = first + column * CELL
                parts.append(box(x, y, CELL - 2, LINE - 2, _fill(value, strongest)))
                parts.append(written(x + CELL - 6, y + 13, _number(value), anchor="end"))
        left = first + len(keys) * CELL + 2 * MARGIN
    return parts, corner + len(queries) * LINE + 2 * LINE, left


def _strongest(values_TS: NDArray[np.floating]) -> float:
    return float(np.abs(values_TS[np.isfinite(values_TS)]).max(initial=1e-9))


def _fill(value: float, strongest: float) -> str:
    """Returns white for 0, blue for high values, red for low ones, and grey for a key that is not visible."""
    if not np.isfinite(value):
        return "#e4e4e4"
    hue, share = (215 if value > 0 else 10), min(abs(value) / strongest, 1.0)
    return f"hsl({hue} 80% {100 - 40 * share:.0f}%)"


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "−∞"
