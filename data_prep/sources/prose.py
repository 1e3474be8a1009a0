"""Hard-wrapped text (docstrings, README files, licences) with each paragraph on one line.

    Return the mean of the        Return the mean of the values.
    values.                  ->
                                  axis : int
    axis : int                    Which axis to take, counted from zero.
        Which axis to take,
        counted from zero.

Cleaning rules that look at lines (C4's above all) need whole paragraphs. What is no prose keeps its own lines: code,
doctests, tables, headings; lines of punctuation alone (heading rules, table borders) are left out.
"""

import itertools
import re
from collections.abc import Iterator

ITEM = re.compile(r"(?:[-*+•‣–]|\(?(?:\d{1,3}|[a-zA-Z])[.)]|#{1,6}|:[\w ][^:]*:|\.\.|@\w+|>>>|\.\.\.|>|\|)(?:\s|$)")
"""What begins a list item, heading, field, directive, doctest, quotation or table row."""
DESCRIBED = re.compile(r"\*{0,2}[\w.`*]+(?: \([^)]*\))?: \S")
"""Google style's ``name (type): text``, whose text may go on below, deeper."""
VERBATIM = re.compile(r"#{1,6} |>>>|\.\.\. |\.\. [\w-]+::|\||.*\S(?: {3,}|\t+)\S|.*[;{}\\]$")
"""Lines that stand alone: Markdown headings, doctests, directives, rows of tables, and what ends like code."""
RULE = re.compile(r"[^\w\s]{3,}(?:\s+[^\w\s]{2,})*$")
INDENTED_LINE_CHARACTERS = 40
"""A first line this long that is indented more than the second begins a paragraph in the manner of printed books."""
FENCE = re.compile(r"(?:```|~~~)")


def unwrap(text: str) -> str:
    """``text`` with one line for each paragraph or item, and an empty line where there was one."""
    blocks: list[str] = []
    code_indent: int | None = None
    for block in _blocks(without_margin(text)):
        indent = _indent(block[0])
        if code_indent is not None and indent <= code_indent:
            code_indent = None
        verbatim = code_indent is not None or bool(FENCE.match(block[0].strip()))
        lines = [line.strip() for line in block if not FENCE.match(line.strip())] if verbatim else list(_joined(block))
        blocks.append("\n".join(lines))
        if not verbatim and block[-1].rstrip().endswith("::"):
            code_indent = _indent(block[-1])
    return "\n\n".join(block for block in blocks if block)


def without_margin(text: str) -> str:
    """``inspect.cleandoc(text)``, which takes the square of the number of blank lines that ``text`` begins with."""
    first, *others = text.expandtabs().split("\n")
    margin = min((_indent(line) for line in others if line.strip()), default=0)
    lines = [first.lstrip(), *(line[margin:] for line in others)]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(itertools.dropwhile(lambda line: not line, lines))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines without an empty one between them; a fenced piece of code is one block."""
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
    """The lines of a block, with those that only go on with a sentence joined to the one before."""
    paragraph: list[str] = []
    before = ""
    for line in block:
        content = line.strip()
        if RULE.match(content):
            before = ""
        elif before and _goes_on(before, line, len(paragraph) == 1):
            paragraph.append(content)
            before = line
        else:
            if paragraph:
                yield " ".join(paragraph)
            paragraph, before = [content], line
    if paragraph:
        yield " ".join(paragraph)


def _goes_on(before: str, line: str, first: bool) -> bool:
    """Whether ``line`` goes on with the paragraph of ``before``, the line above it and perhaps its ``first``."""
    above, content = before.strip(), line.strip()
    if any(pattern.match(content) for pattern in (ITEM, DESCRIBED, VERBATIM)) or VERBATIM.match(above):
        return False
    deeper = _indent(line) - _indent(before)
    if deeper > 0:
        return bool(ITEM.match(above) or DESCRIBED.match(above))
    return deeper == 0 or (first and len(above) >= INDENTED_LINE_CHARACTERS)
