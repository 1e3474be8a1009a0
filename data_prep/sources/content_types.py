"""The type of a resource from its Content-Type headers.

    ["text/html", "text/html; charset=utf-8"]  ──>  ContentType("text/html", "utf-8")

Sources: Fetch standard, "extract a MIME type"; MIME Sniffing standard, "parse a MIME type". A header that they refuse
gives no information in a browser. Here its beginning is used if it is a type, and its ``charset=``, wherever it stands.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
SPACE = " \t\r\n"
VALUE = re.compile(r'(?:"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[^",])+', re.DOTALL)
"""A value of a list whose commas may also be quoted."""
TYPE = re.compile(rf"({TOKEN}/{TOKEN})[{SPACE}]*(?=;|\Z)")
PARAMETER = re.compile(rf';[{SPACE}]*([^;="]*)(?:=(?:"((?:[^"\\]|\\.)*)(?:"|\\?\Z)[^;]*|([^;]*)))?', re.DOTALL)
LOOSE_TYPE = re.compile(rf'["{SPACE}]*({TOKEN}/{TOKEN})(?=[{SPACE};,"(]|\Z)')
LOOSE_CHARSET = re.compile(r"""\bcharset\s*[=:]\s*["']?([^\s"';,]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class ContentType:
    """A type and subtype in lower case ("" if the headers name none), and the value of ``charset``."""

    essence: str
    charset: str | None


def content_type(headers: Sequence[str]) -> ContentType:
    """Returns the type that the values of all Content-Type headers of a message give together."""
    essence, charset = "", None
    loose_essence, loose_charset = "", None
    for value in VALUE.findall(", ".join(headers)):
        value = value.strip(SPACE)
        match = TYPE.match(value)
        if match is None:
            refused = LOOSE_TYPE.match(value)
            loose_essence = refused[1].lower() if refused else loose_essence
            loose_charset = _loose_charset(value) or loose_charset
        elif (named := match[1].lower()) != "*/*":
            inside = _charset(value[match.end() :])
            if named != essence:
                charset, loose_charset = None, None
            charset = inside or charset
            loose_charset = _loose_charset(value) or loose_charset
            essence = named
    return ContentType(essence or loose_essence, charset or loose_charset)


def _charset(parameters: str) -> str | None:
    """Returns the value of the first ``charset`` among ``parameters`` that has one."""
    for name, quoted, plain in PARAMETER.findall(parameters):
        value = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) or plain.rstrip(SPACE)
        if name.lower() == "charset" and value:
            return str(value)
    return None


def _loose_charset(value: str) -> str | None:
    match = LOOSE_CHARSET.search(value)
    return match[1] if match else None
