"""Draws where a model looks: the weights of all heads as images, and the matrices of chosen ones as numbers.

    head         0      1      2                layer 0, head 2     scores          masked          weights
    layer 0     [##]   [##]   [##]                                  the  mill       the  mill       the  mill
    layer 1     [##]   [##]   [##]                            the   0.3  -0.2       0.3   -∞        1.00 0.00

A line is a token that attends, a column one that it attends to; black is a weight of 1. Of feed-forward units it draws
the texts that excite each, and the tokens that it promotes:

    layer 3, unit 17     promotes  ␣wheel 0.21  ␣mill 0.08  …
    5.12  [The][old][miller][turns][the]  → ␣wheel          a darker box: a higher coefficient
"""

import base64
import html
import itertools
import struct
import zlib
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace_courses.row_example import token_name
from headrace_courses.row_picture import LETTER, MARGIN, box, label, whole
from headrace_courses.text_attention import AttentionKind, LayerAttention
from headrace_courses.unit_memories import Trigger, UnitMemory

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


def attention_picture(title: str, layers: Sequence[LayerAttention], heads: Collection[HeadNumber]) -> str:
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


def _overview(kind: "AttentionKind", layers: Sequence[LayerAttention], top: float) -> tuple[list[str], float, float]:
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


UNIT_LINE = 22
COEFFICIENT = 56
"""Pixels for the coefficient."""


def unit_picture(title: str, units: "Sequence[UnitMemory]") -> str:
    """Returns the picture of ``units``, one below the other."""
    parts, top, width = [], MARGIN + 2.0 * UNIT_LINE, len(title) * LETTER + 2 * MARGIN
    for unit in units:
        promoted = "  ".join(f"{label(token_name(token.text))} {token.probability:.3f}" for token in unit.promoted)
        parts.append(written(MARGIN, top, f"layer {unit.layer}, unit {unit.unit}", "title"))
        parts.append(written(MARGIN, top + UNIT_LINE, f"promotes  {promoted}"))
        width = max(width, (len(promoted) + 10) * LETTER + 2 * MARGIN)
        top += 1.5 * UNIT_LINE
        for trigger in unit.triggers:
            drawn, right = _trigger(trigger, unit.triggers[0].coefficients[-1], top)
            parts += drawn
            top, width = top + UNIT_LINE, max(width, right + MARGIN)
        top += 2 * UNIT_LINE
    return whole(title, parts, width, top)


def _trigger(trigger: "Trigger", strongest: float, top: float) -> tuple[list[str], float]:
    """Returns a line with a box for each token, and its end; ``strongest`` is the highest coefficient of the unit."""
    parts = [written(MARGIN + COEFFICIENT - 10, top + 14, f"{trigger.coefficients[-1]:.2f}", anchor="end")]
    left = float(MARGIN + COEFFICIENT)
    for text, coefficient in zip(trigger.tokens, trigger.coefficients, strict=True):
        name = label(token_name(text))
        width, share = len(name) * LETTER + 8, min(max(coefficient / strongest, 0.0), 1.0) if strongest > 0 else 0.0
        parts.append(box(left, top, width - 2, UNIT_LINE - 3, f"hsl(28 90% {97 - 37 * share:.0f}%)"))
        parts.append(written(left + 3, top + 14, name))
        left += width
    follows = f"→ {label(token_name(trigger.next_token))}" if trigger.next_token else "→ end of the text"
    return [*parts, written(left + 8, top + 14, follows)], left + 8 + len(follows) * LETTER


PNG = b"\x89PNG\r\n\x1a\n"


def written(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Returns ``text`` at its base line; ``kind`` is ``title``, ``note`` or empty."""
    styled = f' class="{kind}"' if kind else ""
    ends = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{styled}{ends} x="{x:.1f}" y="{y:.1f}">{html.escape(text)}</text>'


def turned(x: float, y: float, text: str) -> str:
    """Returns ``text`` from ``x``, ``y`` upwards."""
    return f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate(-90 {x:.1f} {y:.1f})">{html.escape(text)}</text>'


def image(x: float, y: float, width: float, height: float, shares_TS: NDArray[np.floating]) -> str:
    """Returns a matrix of values from 0 (white) to 1 (black) as an image, with one pixel for each."""
    png = base64.b64encode(_grey_png(np.rint(255 * (1 - shares_TS)).astype(np.uint8))).decode()
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none"'
        f' href="data:image/png;base64,{png}"/>'
    )


def _grey_png(pixels_TS: NDArray[np.uint8]) -> bytes:
    """Returns a PNG of 8 bit grey values (W3C, PNG, sections 5 and 11: header, filter 0 before each line, end)."""
    height, width = pixels_TS.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels_TS)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
