"""The terminal: text is printed unchanged, whatever the names of folders and documents contain.

rich would read ``[red]`` as a style, fail at ``[/]``, and print ``:smile:`` as a picture. It would also cut the cells
of a table that is wider than the terminal, or than 80 columns when the output is piped.

``to_terminal`` and ``to_file`` print a text while a model writes it. ``show`` prints facts: one on a line, after its
name, in plain text when piped, so that grep and cut work.

    id              pages.jsonl:2
    dropped by      c4_lines.sentences

Control characters in values are shown as U+FFFD, so text from the web cannot control the terminal.
"""

from collections.abc import Iterable, Sequence
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


Fact = tuple[str, str]
"""A name and a value."""

NAME_WIDTH = 18
VALUE_CHARACTERS = 1_000
MAX_FACTS = 20
"""The number of facts that are shown of a list that may be long."""


def show(facts: Iterable[Fact]) -> None:
    """Prints ``facts`` one by one; a fact without a name is an empty line."""
    console = terminal()
    for name, value in facts:
        console.print(Text.assemble((f"{name:<{NAME_WIDTH - 1}} ", "bold"), one_line(value)) if name else "")


def one_line(value: str, characters: int = VALUE_CHARACTERS) -> str:
    """Returns the beginning of ``value`` on one line: line ends as ⏎, control characters as U+FFFD."""
    return " ⏎ ".join(visible(value, characters).replace("\t", " ").splitlines())


def few(facts: Iterable[Fact], what: str) -> Iterable[Fact]:
    """Yields the first ``MAX_FACTS`` facts, then the number of the others under the name ``what``."""
    all_facts = list(facts)
    yield from all_facts[:MAX_FACTS]
    if len(all_facts) > MAX_FACTS:
        yield what, f"and {len(all_facts) - MAX_FACTS:,} more"


def show_lines(head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Prints a table, as Markdown when the output is not a terminal: there ``|`` in a cell is ``\\|``."""
    console = terminal()
    if console.is_terminal:
        table = Table(*head, box=None, header_style="bold", pad_edge=False)
        for line in body:
            table.add_row(*line)
        console.print(table)
    else:
        lines = ([cell.replace("|", "\\|") for cell in line] for line in [head, ["---"] * len(head), *body])
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))
