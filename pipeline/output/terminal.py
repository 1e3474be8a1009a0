"""The terminal: text is printed unchanged, whatever the names of folders and documents contain.

rich would read ``[red]`` as a style, fail at ``[/]``, and print ``:smile:`` as a picture. It would also cut the cells
of a table that is wider than the terminal, or than 80 columns when the output is piped.

``to_terminal`` and ``to_file`` print a text while a model writes it.
"""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.pipeline.report.formatting import visible

WIDE = 10_000
"""Columns that no table needs."""


def terminal(**settings: Any) -> Console:
    """Returns a rich console with ``settings`` that prints text unchanged. Styles are arguments or ``Text`` objects."""
    console = Console(**{"soft_wrap": True, "highlight": False, "markup": False, "emoji": False} | settings)
    if not console.is_terminal:
        console.width = WIDE
    return console


def show_table(table: Table) -> None:
    """Prints ``table`` without cutting any cell: a terminal continues long lines in the next one."""
    terminal(width=WIDE).print(table)


def show_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints ``rows`` below the ``names`` of their columns, like ``show_table``. rich takes 1 ms of CPU time a row."""
    widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    lines = ["  ".join(set_cell_size(*cell) for cell in zip(row, widths, strict=True)) for row in (names, *rows)]
    terminal(width=WIDE).print(Text(lines[0], "bold"))
    print("\n".join(lines[1:]))


def to_terminal(number: int, text: str) -> None:
    """Prints ``text`` at once. Control characters become visible, so that a model cannot control the terminal."""
    print(visible(text, len(text)), end="", flush=True)


def to_file(number: int, text: str) -> None:
    """Prints ``text`` unchanged."""
    print(text, end="", flush=True)
