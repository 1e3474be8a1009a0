"""Extraction of docstrings from Python source, by its tokens.

    def mean(x):  # comment          ── docstrings ──>   "Return the mean."
        '''Return the mean.'''

``ast`` is not used: it needs over a minute for the 300 MB of source in an environment, and its result depends on the
version of Python that runs it. Scanning for strings, comments and def/class finds the same docstrings in a tenth of the
time. The tests compare both on real packages.
"""

import ast
import re
import warnings
from collections.abc import Iterator

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
