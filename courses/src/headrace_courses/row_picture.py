"""Draws a row and its masks as SVG: the tokens in one colour each, a square for each pair that sees each other.

The parts of such pictures are below: the whole, labels and boxes.
"""

import html
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from headrace_courses.row_example import TOKEN_ARRAYS, Mask, RowExample, token_name

CELL = 22
"""Pixels of a square."""
LINE = 22
GAP = 36
CAPTION_LETTER = 6.2
"""Pixels of a letter of a caption."""
NOTHING = "·"
LONGEST_TOKEN = 20
"""The most letters of a token in the table."""


def svg(title: str, example: RowExample) -> str:
    """Returns the picture of a row of at least one position. What is no token is drawn as NOTHING."""
    texts = {token: token_name(text, LONGEST_TOKEN) for token, text in example.texts.items()}
    colours = _colours(example)
    labels = {name: _labels(example.arrays[name], texts) for name in TOKEN_ARRAYS if name in example.arrays}
    parts, bottom = _table(example.arrays, texts, colours, MARGIN + 2 * LINE)
    left, widest = float(MARGIN), 0.0
    label_width = max(len(text) for mask in example.masks for text in labels[mask.keys]) * LETTER + 8
    for mask in example.masks:
        fills = [colours[token] for token in example.arrays[mask.queries].tolist()]
        parts.append(_grid(mask, labels[mask.queries], labels[mask.keys], fills, left, bottom + GAP, label_width))
        squares_width = label_width + len(labels[mask.keys]) * CELL
        left += max(squares_width, len(_caption(mask)) * CAPTION_LETTER) + GAP
        widest = max(widest, left)
    table_width = _name_width(example.arrays) + sum(_widths(example.arrays, texts)) + 2 * MARGIN
    lines = max(len(labels[mask.queries]) for mask in example.masks)
    width, height = max(widest, table_width), bottom + GAP + LINE + label_width + lines * CELL + MARGIN
    return whole(title, parts, width, height)


def _labels(tokens: NDArray[Any], texts: Mapping[int, str]) -> list[str]:
    """Returns the text of each token, cut as a ``label``."""
    return [label(texts.get(token, NOTHING)) for token in tokens.tolist()]


def _colours(example: RowExample) -> dict[int, str]:
    """Returns a colour for each distinct token, in the order of the row; neighbours get distant hues."""
    return {token: f"hsl({number * 137.5 % 360:.0f} 70% 80%)" for number, token in enumerate(example.tokens())}


def _name_width(arrays: Mapping[str, NDArray[Any]]) -> float:
    return max(map(len, arrays)) * LETTER + 12


def _cells(name: str, values: NDArray[Any], texts: Mapping[int, str]) -> list[str]:
    return [texts.get(value, NOTHING) if name in TOKEN_ARRAYS else str(value) for value in values.tolist()]


def _widths(arrays: Mapping[str, NDArray[Any]], texts: Mapping[int, str]) -> list[float]:
    """Returns the width of each position's column."""
    cells = (_cells(name, values, texts) for name, values in arrays.items())
    return [max(map(len, column)) * LETTER + 10 for column in itertools.zip_longest(*cells, fillvalue="")]


def _table(
    arrays: Mapping[str, NDArray[Any]], texts: Mapping[int, str], colours: Mapping[int, str], top: float
) -> tuple[list[str], float]:
    """Returns the arrays as lines of boxes, and the end of the last line."""
    widths, parts = _widths(arrays, texts), []
    for name, values in arrays.items():
        parts.append(f'<text class="note" x="{MARGIN}" y="{top + 15:.0f}">{html.escape(name)}</text>')
        left = MARGIN + _name_width(arrays)
        for value, cell, width in zip(values.tolist(), _cells(name, values, texts), widths, strict=False):
            if name in TOKEN_ARRAYS and cell != NOTHING:
                parts.append(box(left, top, width - 2, LINE - 2, colours[value]))
            parts.append(f'<text x="{left + 4:.1f}" y="{top + 14:.0f}">{html.escape(cell)}</text>')
            left += width
        top += LINE
    return parts, top


def _grid(
    mask: Mask,
    queries: Sequence[str],
    keys: Sequence[str],
    fills: Sequence[str],
    left: float,
    top: float,
    label_width: float,
) -> str:
    """Returns the squares of one mask: a line for each query, a column for each key."""
    first, corner = left + label_width, top + LINE + label_width
    parts = [f'<text class="note" x="{left:.0f}" y="{top + 12:.0f}">{_caption(mask)}</text>']
    for index, text in enumerate(keys):
        x = first + index * CELL
        turned = f"rotate(-90 {x + 14:.1f} {corner - 6:.1f})"
        parts.append(f'<text x="{x + 14:.1f}" y="{corner - 6:.1f}" transform="{turned}">{html.escape(text)}</text>')
    for index, text in enumerate(queries):
        y = corner + index * CELL
        parts.append(f'<text x="{first - 6:.1f}" y="{y + 15:.1f}" text-anchor="end">{html.escape(text)}</text>')
        for key, is_seen in enumerate(mask.visible_TS[index].tolist()):
            fill = fills[index] if is_seen else "#f3f3f3"
            parts.append(box(first + key * CELL, y, CELL - 2, CELL - 2, fill))
    return "".join(parts)


def _caption(mask: Mask) -> str:
    """Returns the caption of a mask."""
    layers = mask.layers
    names = f"layer {layers[0]}" if len(layers) == 1 else f"layers {', '.join(map(str, layers))}"
    if len(layers) > 1 and list(layers) == list(range(layers[0], layers[-1] + 1)):
        names = f"layers {layers[0]} to {layers[-1]}"
    if mask.queries != mask.keys:
        return f"{names}: the tokens of the encoder that a token of the decoder sees"
    stack = "encoder, " if mask.queries != "inputs" else ""
    return f"{stack}{names}: a line is a token, its squares are the tokens that it sees"


LETTER = 6.7
"""Pixels of a letter."""
MARGIN = 16
MAX_LETTERS = 12
STYLE = (
    "text{font:11px ui-monospace,monospace;fill:#222}.title{font:600 13px system-ui,sans-serif}"
    ".note{font:12px system-ui,sans-serif;fill:#555}image{image-rendering:pixelated}"
)


def whole(title: str, parts: Iterable[str], width: float, height: float) -> str:
    """Returns the picture of ``parts`` below its title, on white."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img"><title>{html.escape(title)}</title><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 10}">{html.escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def label(text: str) -> str:
    """Returns ``text``, cut to MAX_LETTERS."""
    return text if len(text) <= MAX_LETTERS else text[: MAX_LETTERS - 1] + "…"


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """Returns a rectangle with round corners."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill="{fill}"/>'
