"""Facts for a person in a terminal: one a line, its name first. Plain when piped, so that grep and cut work on them.

    id              pages.jsonl:2
    dropped by      c4_lines.sentences

What comes from the web is shown with its control characters made visible: a page cannot steer a terminal.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.text import Text

from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.report.formatting import visible

T = TypeVar("T")

Fact = tuple[str, str]
"""A name and a value."""

NAME_WIDTH = 18
VALUE_CHARACTERS = 1_000
MANY = 20
"""Of a list that may be long, so many facts are shown."""


def show(facts: Iterable[Fact]) -> None:
    """Print ``facts`` as they come; one without a name is an empty line."""
    console = terminal()
    for name, value in facts:
        console.print(Text.assemble((f"{name:<{NAME_WIDTH}}", "bold"), one_line(value)) if name else "")


def one_line(value: str, characters: int = VALUE_CHARACTERS) -> str:
    """The beginning of ``value`` on one line: ends of lines as ⏎, control characters as U+FFFD."""
    return " ⏎ ".join(visible(value, characters).replace("\t", " ").splitlines())


def few(facts: Iterable[Fact], what: str) -> Iterable[Fact]:
    """The first ``MANY`` facts, and how many more there are."""
    found = list(facts)
    yield from found[:MANY]
    if len(found) > MANY:
        yield what, f"and {len(found) - MANY:,} more"


def alternately(groups: Iterable[Sequence[T]]) -> list[T]:
    """The first of each group, then the second of each, and so on."""
    rounds = itertools.zip_longest(*groups)
    return [item for one in rounds for item in one if item is not None]
