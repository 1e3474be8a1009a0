"""Decoding of pages: finds the encoding and returns text that JSON and tokenizers accept.

HTTP header, else <meta>, else detection ── decode ──> str without NUL or lone surrogates
"""

import re

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""A byte order mark has priority over every declaration (WHATWG Encoding, "decode")."""
META = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*(?:["']\s*)?([\w.:-]+)"""
    rb"""|<\?xml[^>]{0,100}encoding=["']([\w.:-]+)""",
    re.IGNORECASE,
)
SUPERSETS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-11": "cp874",
}
"""Python's codecs for what browsers decode under these labels."""
META_BYTES = 4096
"""Bytes in which a declaration is searched for. The standard requires 1,024 bytes; browsers search further."""


def decode(data: bytes, declared: str | None = None) -> str:
    """Decodes ``data``. Bytes that are invalid in its encoding become U+FFFD.

    ``declared`` is the charset of the HTTP header. Labels have the meaning that browsers give them (WHATWG Encoding),
    and unknown labels are ignored. A page that declares UTF-16 in readable ASCII is read as UTF-8. A page that declares
    Windows-1252 but is valid UTF-8 beyond ASCII is read as UTF-8, because text in Windows-1252 is hardly ever valid
    UTF-8 by chance.
    """
    for bom, unicode in BOMS:
        if data.startswith(bom):
            return sanitize(data[len(bom) :].decode(unicode, "replace"))
    in_page = _label(_meta(data))
    if in_page and in_page.startswith("utf-16"):
        in_page = "utf-8"
    encoding = _label(declared) or in_page or detect_encoding(data) or "utf-8"
    if encoding in ("cp1252", "windows-1252") and not data.isascii() and _is_utf8(data):
        encoding = "utf-8"
    return sanitize(data.decode(SUPERSETS.get(encoding, encoding), "replace"))


def sanitize(text: str) -> str:
    """Removes NUL from ``text`` and replaces lone surrogates, which UTF-8 cannot hold, by U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _label(name: str | None) -> str | None:
    """Returns the Python codec of a declared label, or None if the label is unknown."""
    if not name:
        return None
    return map_encoding_to_html5(name.strip(" \t\"'"), fallback_utf8=False)


def _meta(data: bytes) -> str | None:
    """Returns the label that the page itself declares, or None."""
    found = META.search(data[:META_BYTES])
    return (found[1] or found[2]).decode("ascii", "replace") if found else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
