"""Joining of hard-wrapped text (docstrings, README files, licences) to one line per paragraph.

    Return the mean of the        Return the mean of the values.
    values.                  ->
                                  axis : int
    axis : int                    Which axis to take, counted from zero.
        Which axis to take,
        counted from zero.

Cleaning rules for lines, such as C4's, need whole paragraphs. Code, doctests, tables and headings keep their own lines.
Lines of punctuation only (heading rules, table borders) are removed.
"""

import ast
import itertools
import re
import warnings
from collections.abc import Iterator

ITEM = re.compile(r"(?:[-*+•‣–]|\(?(?:\d{1,3}|[a-zA-Z])[.)]|#{1,6}|:[\w ][^:]*:|\.\.|@\w+|>>>|\.\.\.|>|\|)(?:\s|$)")
"""Beginnings of list items, headings, fields, directives, doctests, quotations and table rows."""
DESCRIPTION = re.compile(r"\*{0,2}[\w.`*]+(?: \([^)]*\))?: \S")
"""Google style's ``name (type): text``. The text may continue on the next lines with more indentation."""
VERBATIM = re.compile(r"#{1,6} |>>>|\.\.\. |\.\. [\w-]+::|\||.*\S(?: {3,}|\t+)\S|.*[;{}\\]$")
"""Lines that are never joined: Markdown headings, doctests, directives, table rows, and lines that end like code."""
RULE = re.compile(r"[^\w\s]{3,}(?:\s+[^\w\s]{2,})*$")
INDENTED_LINE_CHARACTERS = 40
"""A first line of at least this length that is indented more than the second line begins a paragraph, as in books."""
FENCE = re.compile(r"(?:```|~~~)")


def unwrap(text: str) -> str:
    """Joins the lines of each paragraph or item of ``text``. Blank lines between blocks are kept."""
    blocks: list[str] = []
    code_indent: int | None = None
    for block in _blocks(dedented(text)):
        indent = _indent(block[0])
        if code_indent is not None and indent <= code_indent:
            code_indent = None
        verbatim = code_indent is not None or bool(FENCE.match(block[0].strip()))
        lines = [line.strip() for line in block if not FENCE.match(line.strip())] if verbatim else list(_joined(block))
        blocks.append("\n".join(lines))
        if not verbatim and block[-1].rstrip().endswith("::"):
            code_indent = _indent(block[-1])
    return "\n\n".join(block for block in blocks if block)


def dedented(text: str) -> str:
    """Does what ``inspect.cleandoc`` does, whose time grows with the square of the number of leading blank lines."""
    first, *others = text.expandtabs().split("\n")
    margin = min((_indent(line) for line in others if line.strip()), default=0)
    lines = [first.lstrip(), *(line[margin:] for line in others)]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(itertools.dropwhile(lambda line: not line, lines))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(text: str) -> Iterator[list[str]]:
    """Yields runs of lines without a blank line between them. Fenced code is one block."""
    block: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fence = bool(FENCE.match(line.strip()))
        if block and not fenced and (fence or not line.strip()):
            yield block
            block = []
        if line.strip():
            block.append(line.rstrip())
        if fence:
            if fenced:
                yield block
                block = []
            fenced = not fenced
    if block:
        yield block


def _joined(block: list[str]) -> Iterator[str]:
    """Yields the lines of a block, joining each continuation line to the line before it."""
    paragraph: list[str] = []
    before = ""
    for line in block:
        content = line.strip()
        if RULE.match(content):
            before = ""
        elif before and _continues(before, line, len(paragraph) == 1):
            paragraph.append(content)
            before = line
        else:
            if paragraph:
                yield " ".join(paragraph)
            paragraph, before = [content], line
    if paragraph:
        yield " ".join(paragraph)


def _continues(before: str, line: str, is_first: bool) -> bool:
    """Whether ``line`` continues the paragraph of ``before``, the line above it. ``is_first``: ``before`` starts it."""
    above, content = before.strip(), line.strip()
    if any(pattern.match(content) for pattern in (ITEM, DESCRIPTION, VERBATIM)) or VERBATIM.match(above):
        return False
    deeper = _indent(line) - _indent(before)
    if deeper > 0:
        return bool(ITEM.match(above) or DESCRIPTION.match(above))
    return deeper == 0 or (is_first and len(above) >= INDENTED_LINE_CHARACTERS)


TOKEN = re.compile(
    r"#[^\n]*"
    r"|^[ \t]*(?P<header>(?:async[ \t]+)?def|class)\b"
    r"|(?P<prefix>\b[rRuUbBfFtT]{1,2})?(?P<quote>\"{3}|'{3}|[\"'])",
    re.MULTILINE | re.DOTALL,
)
INSIDE = {
    '"""': re.compile(r'[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*', re.DOTALL),
    "'''": re.compile(r"[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*", re.DOTALL),
    '"': re.compile(r'[^"\\\n]*(?:\\.[^"\\\n]*)*', re.DOTALL),
    "'": re.compile(r"[^'\\\n]*(?:\\.[^'\\\n]*)*", re.DOTALL),
}
"""The content of a string, up to its end or to the point from which it cannot end."""
HEADERS = ("def", "class", "async")
HEADER_CHARACTERS = 20_000
"""The docstring of a longer def or class header is ignored."""


def docstrings(source: str) -> Iterator[str]:
    """Yields the docstrings of the module, its classes and functions in the order of the source, not dedented."""
    header, previous_end = "", 0
    is_expected = True
    for start, end, token in _tokens(source):
        if is_expected:
            header += source[previous_end:start]
        previous_end = end
        if token["header"]:
            header, is_expected = token["header"], True
        elif token["quote"] and is_expected:
            if _is_complete(header):
                yield _value(source[start:end], token["prefix"] or "")
                is_expected = False
            else:
                header += "''"
                is_expected = header.startswith(HEADERS) and len(header) < HEADER_CHARACTERS


def _tokens(source: str) -> "Iterator[tuple[int, int, re.Match[str]]]":
    """Yields start and end of each comment, header and string, and the match at its start.

    A quote without a closing quote starts no string. Later quotes of the same kind up to the same point have no closing
    quote either, so each part of ``source`` is searched once per kind of quote.
    """
    unclosed = dict.fromkeys(INSIDE, 0)
    position = 0
    while token := TOKEN.search(source, position):
        start, position = token.span()
        if (quote := token["quote"]) is None:
            yield start, position, token
            continue
        if position >= unclosed[quote]:
            inside = INSIDE[quote].match(source, position)
            end = inside.end() if inside else position
            if source.startswith(quote, end):
                position = end + len(quote)
                yield start, position, token
                continue
            unclosed[quote] = end
        if len(quote) == 3:  # two quotes are an empty string
            position -= 1
            yield start, position, token


def _is_complete(header: str) -> bool:
    """Whether ``header`` is exactly one ``def …:`` or ``class …:``, or empty (the start of a module)."""
    header = header.strip()
    if not header.endswith(":"):
        return not header
    depth = 0
    for line in header.split("\n"):
        if depth < 0:
            return False
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        if depth == 0 and not line.endswith("\\"):
            depth = -1
    return depth == -1


def _value(literal: str, prefix: str) -> str:
    """Returns the value of a string literal; empty for bytes, f-strings and t-strings, which are no docstrings."""
    if set(prefix.lower()) & set("bft"):
        return ""
    quotes = 3 if literal.endswith(('"""', "'''")) and len(literal) - len(prefix) >= 6 else 1
    if "\\" not in literal or "r" in prefix.lower():
        return literal[len(prefix) + quotes : -quotes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(ast.literal_eval(literal))
        except (SyntaxError, ValueError):
            return literal[len(prefix) + quotes : -quotes]
