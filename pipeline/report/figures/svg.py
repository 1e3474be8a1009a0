"""The parts of pictures in SVG: the whole, texts, turned texts, boxes, and grey or coloured images of matrices."""

import base64
import html
import struct
import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LETTER = 6.7
"""Pixels of a letter."""
MARGIN = 16
MAX_LETTERS = 12
STYLE = (
    "text{font:11px ui-monospace,monospace;fill:#222}.title{font:600 13px system-ui,sans-serif}"
    ".note{font:12px system-ui,sans-serif;fill:#555}image{image-rendering:pixelated}"
)
PNG = b"\x89PNG\r\n\x1a\n"


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


def written(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """Returns ``text`` at its base line; ``kind`` is ``title``, ``note`` or empty."""
    styled = f' class="{kind}"' if kind else ""
    ends = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{styled}{ends} x="{x:.1f}" y="{y:.1f}">{html.escape(text)}</text>'


def turned(x: float, y: float, text: str) -> str:
    """Returns ``text`` from ``x``, ``y`` upwards."""
    return f'<text x="{x:.1f}" y="{y:.1f}" transform="rotate(-90 {x:.1f} {y:.1f})">{html.escape(text)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """Returns a rectangle with round corners."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill="{fill}"/>'


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
