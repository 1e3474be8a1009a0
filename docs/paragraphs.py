"""The width of the pages: breaks the lines of their paragraphs so that none is longer than 100 characters.

    python -m docs.paragraphs docs/data.md …

Tables, code and headings stay as they are, and so does what a page shows: a file whose HTML would change is refused.
"""

import re
import sys
from pathlib import Path

from markdown_it import MarkdownIt

WIDTH = 100
PARSER = MarkdownIt("commonmark").enable("table")
WORD = re.compile(r"(`+)(.+?)(?<!`)\1(?!`)|\s+|[^`\s]+|`+", re.DOTALL)
"""A code span, which is never broken, white space, or text."""
MARKER = re.compile(r"[-*+>#|=~]+|\d+[.)]")
"""Words that would begin a list, a quote, a heading or a table at the beginning of a line."""
PREFIX = re.compile(r"\s*(?:>\s?)*(?:(?:[-*+]|\d+[.)])\s+)*")
"""What stands before the text in the first line of a paragraph: indentation, marks of quotes and lists."""


def words(text: str) -> list[str]:
    """Returns the parts of ``text`` between which a line may end."""
    found, current = [], ""
    for match in WORD.finditer(text):
        if match.group().isspace():
            found.append(current)
            current = ""
        else:
            current += " ".join(match.group().split("\n"))
    kept: list[str] = []
    for word in filter(None, [*found, current]):
        if kept and MARKER.fullmatch(word):
            kept[-1] += f" {word}"
        else:
            kept.append(word)
    return kept


def filled(text: str, first: str, other: str) -> list[str]:
    """Returns the lines of ``text``; ``first`` stands before the first one, ``other`` before the others."""
    lines, line, is_empty = [], first, True
    for word in words(text):
        if not is_empty and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line, is_empty = other, True
        line, is_empty = line + word if is_empty else f"{line} {word}", False
    return [*lines, line]


def paragraphs(page: str) -> list[tuple[int, int]]:
    """Returns the first line and the end of each paragraph without hard line breaks."""
    lines = page.split("\n")
    places = [token.map for token in PARSER.parse(page) if token.type == "paragraph_open"]
    ranges = [(place[0], place[1]) for place in places if place]
    return [
        (begin, end) for begin, end in ranges if not any(line.endswith(("  ", "\\")) for line in lines[begin : end - 1])
    ]


def reflowed(page: str) -> str:
    """Returns ``page`` with all its paragraphs in lines of at most ``WIDTH`` characters, where a line can be broken."""
    lines, result, position = page.split("\n"), [], 0
    for begin, end in paragraphs(page):
        match = PREFIX.match(lines[begin])
        first = match.group() if match else ""
        other = re.sub(r"[^>\s]", " ", first)
        text = [lines[begin][len(first) :], *(line.lstrip(" >") for line in lines[begin + 1 : end])]
        result += [*lines[position:begin], *filled("\n".join(text), first, other)]
        position = end
    return "\n".join([*result, *lines[position:]])


def shown(page: str) -> list[str]:
    """Returns the HTML of ``page``; outside of code all white space is one space."""
    parts = re.split(r"(<pre>.*?</pre>)", PARSER.render(page), flags=re.DOTALL)
    return [part if part.startswith("<pre>") else re.sub(r"\s+", " ", part) for part in parts]


def too_wide(page: str) -> list[str]:
    """Returns the lines of paragraphs that are too long and can be broken."""
    lines = page.split("\n")
    return [
        line
        for begin, end in paragraphs(page)
        for line in lines[begin:end]
        if len(line) > WIDTH and len(words(line.strip())) > 1
    ]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        old = Path(name).read_text(encoding="utf-8")
        new = reflowed(old)
        if shown(old) != shown(new):
            sys.exit(f"{name}: other lines would change what the page shows")
        Path(name).write_text(new, encoding="utf-8")
