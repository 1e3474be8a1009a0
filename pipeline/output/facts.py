"""Prints facts in a terminal: one on a line, after its name. Plain text when piped, so that grep and cut work.

    id              pages.jsonl:2
    dropped by      c4_lines.sentences

Control characters in values are shown as U+FFFD, so text from the web cannot control the terminal.
"""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from headrace.pipeline.output.terminal import terminal
from headrace.pipeline.report.formatting import visible

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
