"""Marks the pages of an audit in the terminal: one page a screen, one key a page, saved after each key.

    page 12 of 200, 11 marked        id  pages.jsonl:2        url  https://…
    The beginning of the text …
    g good   b bad   u unsure   p previous   q quit

Without a terminal each line of the standard input is a key.
"""

import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from headrace.pipeline.audit.marks import MARKS
from headrace.pipeline.audit.sheet import AuditedPage, AuditSheet
from headrace.pipeline.output.terminal import NAME_WIDTH, one_line, terminal
from headrace.pipeline.report.formatting import visible

KEYS = {mark[0]: mark for mark in MARKS}
PREVIOUS, QUIT = "p", "q"
END = "\x04"
"""Ctrl-D."""
HELP = "g good   b bad   u unsure   p previous   q quit"
OTHER_LINES = 9
"""Lines of a screen besides those of the text."""
FEWEST_LINES = 6
COLUMNS = 120
"""The widest text that is comfortable to read."""


def mark_pages(
    sheet: AuditSheet, marks: Mapping[str, str], save: Callable[[str, str], None], shows_rule: bool = False
) -> None:
    """Shows the pages of ``sheet`` without a mark, and saves each mark by ``save(id, mark)``, until a reader quits."""
    with pressed_keys() as keys:
        _session(terminal(), sheet, dict(marks), keys, save, shows_rule)


def _session(
    console: Console,
    sheet: AuditSheet,
    marks: dict[str, str],
    keys: Iterator[str],
    save: Callable[[str, str], None],
    shows_rule: bool,
) -> None:
    """Shows a page for each of the ``keys``; adds the marks to ``marks``."""
    index, note = _next_unmarked(sheet, marks, -1), ""
    while index is not None:
        page = sheet.pages[index]
        _show(console, page, f"{index + 1} of {len(sheet.pages)}, {len(marks)} marked", note, shows_rule)
        key, note = next(keys, QUIT), ""
        if key == QUIT:
            return
        if key == PREVIOUS:
            index = max(0, index - 1)
        elif mark := KEYS.get(key):
            save(page.id, mark)
            marks[page.id] = mark
            note = f"{mark}: {page.id} was {page.reason}"
            index = _next_unmarked(sheet, marks, index)
        else:
            note = f"{visible(key, 1)!r} is no key: {HELP}"
    if note:
        console.print(one_line(note))


def _next_unmarked(sheet: AuditSheet, marks: Mapping[str, str], index: int) -> int | None:
    """Returns the next page after ``index`` without a mark, else the first one, None if all have one."""
    unmarked = [number for number, page in enumerate(sheet.pages) if page.id not in marks]
    return next((number for number in unmarked if number > index), unmarked[0] if unmarked else None)


def _show(console: Console, page: AuditedPage, place: str, note: str, shows_rule: bool) -> None:
    if console.is_terminal:
        console.clear()
    if note:
        console.print(Text(one_line(note), "dim"))
    facts = page.shown(shows_rule)
    texts = [(name, facts.pop(name)) for name in ("text", "survivor_text") if name in facts]
    for name, value in [("page", place), *facts.items()]:
        if value:
            console.print(Text.assemble((f"{name:<{NAME_WIDTH}}", "bold"), one_line(value)))
    lines = max(FEWEST_LINES, (console.height - OTHER_LINES) // len(texts))
    for name, text in texts:
        console.print(Text("the page that stays in its place:" if name == "survivor_text" else "", "bold"))
        for line in _screen(console, text, lines):
            console.print(line)
    console.print(Text(HELP, "bold"))


def _screen(console: Console, text: str, lines: int) -> Sequence[Text]:
    """Returns the beginning of ``text`` on up to ``lines`` lines of the terminal."""
    wrapped = [
        part
        for line in visible(text, len(text)).splitlines()
        for part in Text(line).wrap(console, min(console.width, COLUMNS), tab_size=4) or [Text("")]
    ]
    return wrapped if len(wrapped) <= lines else [*wrapped[: lines - 1], Text("…", "dim")]


@contextlib.contextmanager
def pressed_keys() -> Iterator[Iterator[str]]:
    """Gives the keys that are pressed in the block, without Enter; beginnings of lines when the input is no terminal.

    Ctrl-C stays a signal, and Ctrl-D ends the keys. After the block the terminal is as it was.
    """
    if not sys.stdin.isatty():
        yield (line.strip()[:1] for line in sys.stdin if line.strip())
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield iter(lambda: os.read(descriptor, 1).decode("latin-1") or END, END)
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
