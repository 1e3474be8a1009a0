"""Prints facts on a terminal: one on each line, its name first. Piped output is plain text for grep and cut.

    id              pages.jsonl:2
    dropped by      c4_lines.sentences

Control characters in text from the web are shown as U+FFFD, so a page cannot control the terminal.
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
"""The maximum number of facts of a list that may be long."""


def show(facts: Iterable[Fact]) -> None:
    """Prints each of ``facts`` at once; a fact without a name is an empty line."""
    console = terminal()
    for name, value in facts:
        console.print(Text.assemble((f"{name:<{NAME_WIDTH}}", "bold"), one_line(value)) if name else "")


def one_line(value: str, characters: int = VALUE_CHARACTERS) -> str:
    """Returns the beginning of ``value`` on one line: ends of lines as ⏎, control characters as U+FFFD."""
    return " ⏎ ".join(visible(value, characters).replace("\t", " ").splitlines())


def few(facts: Iterable[Fact], what: str) -> Iterable[Fact]:
    """Yields the first ``MANY`` facts, and the number of the others."""
    found = list(facts)
    yield from found[:MANY]
    if len(found) > MANY:
        yield what, f"and {len(found) - MANY:,} more"


def alternately(groups: Iterable[Sequence[T]]) -> list[T]:
    """Returns the first item of each group, then the second of each, and so on."""
    rounds = itertools.zip_longest(*groups)
    return [item for one in rounds for item in one if item is not None]
