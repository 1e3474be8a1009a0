"""Formats numbers, hostile text and settings for the page."""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

NONE = "none"
"""The text for a number that is not known."""

INVISIBLE = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""Characters that turn the direction of text around, and the byte order mark."""


def count(number: float | None) -> str:
    """Formats ``1234567`` as ``1,234,567``; None as ``none``."""
    return NONE if number is None else f"{number:,.0f}"


def short(number: float | None) -> str:
    """Formats ``1234567`` as ``1.23 M``: from a million on, three digits and a unit (B: 10^9, T: 10^12)."""
    if number is None:
        return NONE
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if abs(number) >= size:
            return f"{number / size:.{3 - len(str(int(abs(number) / size)))}f} {unit}"
    return f"{number:,.0f}"


def decimal(number: float | None, digits: int = 3) -> str:
    """Formats ``3.14159`` as ``3.142``; very large numbers as powers of ten."""
    if number is None:
        return NONE
    return f"{number:.2e}" if abs(number) >= 1e6 else f"{number:,.{digits}f}"


def percent(share: float | None) -> str:
    """Formats ``0.0421`` as ``4.2 %``; a share above 0 that would read as 0.0 as ``< 0.1 %``."""
    if share is None:
        return NONE
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def visible(text: str, characters: int) -> str:
    """Returns the first ``characters`` of ``text``, with control characters and direction marks as U+FFFD."""
    cut = text[:characters]
    clean = "".join("\ufffd" if _is_hidden(character) else character for character in cut)
    return clean + ("…" if len(text) > characters else "")


def _is_hidden(character: str) -> bool:
    return character in INVISIBLE or (character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"))


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields nested settings as ``(dotted path, JSON value)``, in their own order."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from flat(item, f"{path}[{number}]")
    elif path:
        yield visible(path, 200), visible(json.dumps(value, ensure_ascii=False), 1000)
