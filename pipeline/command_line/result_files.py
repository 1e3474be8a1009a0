"""Shows the results of a command, and writes them to files: a page with figures, plain values as JSON, a picture.

The path of such a file is a ``NewFile`` (declaration.py), which is checked before the command begins.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.core.claim import remove_unfinished, temporary_path
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.json_files import without_nan
from headrace.pipeline.output import terminal
from headrace.pipeline.report import html_page
from headrace.pipeline.report.drawing import Figure

TextTable = list[list[str]]
"""The names of the columns, then the rows."""
Captioned = Sequence[tuple[Figure, str]]
"""Figures, each with its caption."""


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of several runs, as the terminal and a page show them."""

    title: str
    lede: str
    """The line below the title of the page."""
    tables: Sequence[tuple[str, str, TextTable]]
    """Id on the page, heading there and rows below a header, of each table."""
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()

    def show(self) -> None:
        """Prints the facts, the tables and the notes."""
        if self.facts:
            terminal.show(self.facts)
        for number, (_, _, (head, *rows)) in enumerate(self.tables):
            if number or self.facts:
                print()
            terminal.show_lines(head, rows)
        if self.notes:
            print(*([""] if self.facts or self.tables else []), *self.notes, sep="\n")

    def page(self, figures: Captioned) -> dict[str, object]:
        """Returns the values of the template findings.html."""
        return {**vars(self), "figures": figures}


def write_files(
    json_file: Path | None,
    values: object,
    page: Path | None,
    page_values: Callable[[], Mapping[str, object]],
) -> None:
    """Writes ``values`` to the JSON file, and those of the template findings.html to the page, if they are wanted."""
    if json_file is not None:
        write_file(json_file, json.dumps(without_nan(values), indent=1, allow_nan=False) + "\n")
        print(f"\njson: {json_file}")
    if page is not None:
        write_file(page, html_page.render("findings.html", page_values()))
        print(f"\npage: {page}")


def write_file(path: Path, text: str) -> None:
    """Writes ``text`` to ``path``: the whole file or nothing. What is no regular file, /dev/stdout say, is written to.

    Raises:
        TaskError: when the system refuses.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes ``content`` to ``path`` as ``write_file`` does a text.

    Raises:
        TaskError: when the system refuses.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        whole = path.resolve()
        remove_unfinished(whole)
        temporary = temporary_path(whole)
        temporary.write_bytes(content)
        temporary.replace(whole)
    except OSError as error:
        remedy = "name another file; nothing is computed twice"
        raise TaskError(str(path), f"cannot be written ({error.strerror})", remedy) from None
