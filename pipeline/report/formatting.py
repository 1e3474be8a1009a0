"""Formats numbers, text from the web and settings for the page and the terminal; tables and statistics of the page."""

import dataclasses
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NONE = "none"
"""Shown for an unknown number."""

INVISIBLE = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""Characters that change the direction of text, and the byte order mark."""


def count(number: float | None) -> str:
    """Returns an integer with separators: 1234567 → ``1,234,567``; ``none`` for None."""
    return NONE if number is None else f"{number:,.0f}"


def short(number: float | None) -> str:
    """Returns a number with three digits and a unit from a million on: 1234567 → ``1.23 M`` (B: 10^9, T: 10^12)."""
    if number is None:
        return NONE
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if abs(number) >= size:
            return f"{number / size:.{3 - len(str(int(abs(number) / size)))}f} {unit}"
    return f"{number:,.0f}"


def decimal(number: float | None, digits: int = 3) -> str:
    """Returns a decimal number: 3.14159 → ``3.142``; from a million on in scientific notation."""
    if number is None:
        return NONE
    return f"{number:.2e}" if abs(number) >= 1e6 else f"{number:,.{digits}f}"


def rounded(amount: float) -> str:
    """Returns an amount of money or of hours: whole from 100 on, else to three digits."""
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:,.3g}"


def percent(share: float | None) -> str:
    """Returns a share in percent: 0.0421 → ``4.2 %``; a positive share that would round to 0.0 is ``< 0.1 %``."""
    if share is None:
        return NONE
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def byte_size(number: int) -> str:
    """Returns a number of bytes with a decimal unit: 1234567 → ``1.2 MB``."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


def duration(seconds: float) -> str:
    """Returns a time in its two largest units: 3.24 → ``3.2 s``, 754 → ``12 min 34 s``, 93,784 → ``1 d 2 h``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next(index for index, (number, _) in enumerate(units) if number)
    return " ".join(f"{number} {unit}" for number, unit in units[first : first + 2])


def visible(text: str, characters: int) -> str:
    """Returns the first ``characters`` of ``text``, with control characters and direction marks as U+FFFD."""
    cut = text[:characters]
    clean = "".join("\ufffd" if _is_hidden(character) else character for character in cut)
    return clean + ("…" if len(text) > characters else "")


def _is_hidden(character: str) -> bool:
    return character in INVISIBLE or (character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"))


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields nested settings as (dotted path, JSON value), in their order."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from flat(item, f"{path}[{number}]")
    elif path:
        yield visible(path, 200), visible(json.dumps(value, ensure_ascii=False), 1000)


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number of the page with its label and a note, as text."""

    label: str
    value: str
    note: str = ""


def known(statistics: Sequence[Statistic]) -> list[Statistic]:
    """Returns the ``statistics`` that have a value."""
    return [statistic for statistic in statistics if statistic.value != NONE]


@dataclasses.dataclass(frozen=True)
class PageTable:
    """A table of the page, as text."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1
    """The number of columns before those with numbers."""
    texts: int = 0
    """The number of columns after those with numbers; their texts may take several lines."""

    def kind(self, column: int) -> str:
        """Returns the class of the cells of ``column``: empty for labels, ``number`` or ``wrap``."""
        is_text = column >= len(self.header) - self.texts
        return "" if column < self.labels else "wrap" if is_text else "number"
