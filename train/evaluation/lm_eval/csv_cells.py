"""Gives the cells of CSV the types that pandas gives them, which ``datasets`` and so lm-evaluation-harness have.

    1, 2, 3       int            1, , 3        float: 1.0, None, 3.0      (pandas holds no missing int)
    1, 2.5        float          True, false   bool                        True, , false   bool: True, None, False
    1, x          text           1_000, ١      text: no number in C

A column has one type. ``NA``, ``null`` and the like (``MISSING``) are no text but a missing value, as in pandas.
"""

import re
from collections.abc import Sequence
from typing import TypeVar

CellValue = int | float | bool | str | None
T = TypeVar("T", int, float, bool)
MISSING = frozenset(
    (
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
        *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    )
)
"""Cells without a value (pandas/_libs/parsers.pyx, STR_NA_VALUES)."""
WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
DECIMAL = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
TRUTHS = {"true": True, "false": False}
"""Capitals do not count."""


def typed(cells: Sequence[str]) -> tuple[str, list[CellValue]]:
    """Returns the type of a column, ``int``, ``float``, ``bool`` or ``str``, and its ``cells`` as values of it.

    Raises:
        ValueError: with a whole number of a column of numbers that 64 bits do not hold.
    """
    present = [cell for cell in cells if cell not in MISSING]
    whole, decimals = _all([_whole(cell) for cell in present]), _all([_decimal(cell) for cell in present])
    if decimals:
        _check_sizes(cells, present)
    if whole and len(present) == len(cells):
        return "int", [*whole]
    if decimals is not None:
        return "float", _filled(cells, decimals)
    if (truths := _all([TRUTHS.get(cell.lower()) for cell in present])) is not None:
        return "bool", _filled(cells, truths)
    return "str", _filled(cells, present)


def _all(values: Sequence[T | None]) -> list[T] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _filled(cells: Sequence[str], values: Sequence[CellValue]) -> list[CellValue]:
    """Returns ``values`` at the places of the cells that hold one."""
    rest = iter(values)
    return [None if cell in MISSING else next(rest) for cell in cells]


def _check_sizes(cells: Sequence[str], present: Sequence[str]) -> None:
    """Refuses numbers of more than 64 bits, which pandas reads as text, or not at all, depending on the others."""
    numbers = [number for cell in present if (number := _whole(cell)) is not None]
    is_unsigned = len(numbers) == len(cells) and min(numbers) >= 0
    for number in numbers:
        if not -(2**63) <= number < 2 ** (64 if is_unsigned else 63):
            raise ValueError(str(number))


def _whole(cell: str) -> int | None:
    return int(cell) if WHOLE.fullmatch(cell) else None


def _decimal(cell: str) -> float | None:
    return float(cell) if DECIMAL.fullmatch(cell) or INFINITE.fullmatch(cell) else None
