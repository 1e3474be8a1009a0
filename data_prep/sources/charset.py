"""From bytes to text: which encoding a page is in, and text that JSON and tokenizers accept.

HTTP header, else <meta>, else detection ── decode ──> str without NUL or lone surrogates
"""

import re

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""A byte order mark goes before every declaration (WHATWG Encoding, "decode")."""
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
"""Python's codecs that hold what browsers decode under these labels."""
META_BYTES = 4096
"""How far a declaration is looked for; the standard asks for 1,024 bytes, browsers look further."""


def decode(data: bytes, declared: str | None = None) -> str:
    """``data`` as text; what its encoding cannot hold becomes U+FFFD.

    ``declared`` is the charset of the HTTP header. Labels mean what browsers take them for (WHATWG Encoding), unknown
    ones are passed over, and a page that says UTF-16 in readable ASCII is UTF-8. A page that claims Windows-1252 but
    holds valid UTF-8 beyond ASCII is UTF-8: text in Windows-1252 is hardly ever valid UTF-8 by chance.
    """
    for bom, unicode in BOMS:
        if data.startswith(bom):
            return clean(data[len(bom) :].decode(unicode, "replace"))
    in_page = _label(_meta(data))
    if in_page and in_page.startswith("utf-16"):
        in_page = "utf-8"
    encoding = _label(declared) or in_page or detect_encoding(data) or "utf-8"
    if encoding in ("cp1252", "windows-1252") and not data.isascii() and _is_utf8(data):
        encoding = "utf-8"
    return clean(data.decode(SUPERSETS.get(encoding, encoding), "replace"))


def clean(text: str) -> str:
    """``text`` without NUL, and with lone surrogates (which UTF-8 cannot hold) replaced by U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _label(name: str | None) -> str | None:
    """The Python codec for a declared label; None for unknown ones."""
    if not name:
        return None
    return map_encoding_to_html5(name.strip(" \t\"'"), fallback_utf8=False)


def _meta(data: bytes) -> str | None:
    found = META.search(data[:META_BYTES])
    return (found[1] or found[2]).decode("ascii", "replace") if found else None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
