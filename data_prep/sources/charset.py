"""Decoding of pages: finds the encoding and returns text that JSON and tokenizers accept.

byte order mark, else HTTP header, else <meta>, else a guess ── decode ──> str without NUL or lone surrogates
"""

import codecs
import re

from resiliparse.parse.encoding import detect_encoding

from headrace.data_prep.sources.decoders import REPLACEMENT, decoded
from headrace.data_prep.sources.encoding_labels import SPACE, encoding_of
from headrace.data_prep.sources.prescan import declared_encoding

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))
"""A byte order mark has priority over every declaration (Encoding standard, "BOM sniff")."""
DAMAGED_FRACTION = 0.25
"""A page with at most this fraction of its characters beyond ASCII invalid in UTF-8 is UTF-8 all the same. Of text in
another encoding more than half are invalid."""
WIDE_FRACTION = 0.4
"""A page is UTF-16 if at least this fraction of one half of its bytes, every other one, is zero, and hardly any of the
other half. In text of Latin letters it is nearly all."""
WIDE_BYTES = 1024
CODING = re.compile(rb"(?:[^\r\n]*\r?\n)?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
DETECTED = {"cp949": "euc-kr", "iso2022_jp": "iso-2022-jp", "euc_jp": "euc-jp", "mac-cyrillic": "x-mac-cyrillic"}
"""Encodings by those names of the detector that are not labels of the standard."""


def decode(data: bytes, declared: str | None = None) -> str:
    """Decodes ``data``. Bytes that are invalid in its encoding become U+FFFD.

    ``declared`` is the charset of the HTTP header. Labels and decoders are those of the Encoding standard, and unknown
    labels are ignored. Where the standard leaves the encoding of a page to the browser, see ``encoding_of_page``.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return decoded(data[len(bom) :], encoding).replace("\0", "")  # decoders make no lone surrogates
    return decoded(data, encoding_of_page(data, declared)).replace("\0", "")


def encoding_of_page(data: bytes, declared: str | None = None) -> str:
    """Returns the encoding of ``data`` (HTML standard, 13.2.3.2, "encoding sniffing algorithm").

    Two choices are ours. A page that declares Windows-1252, or one of its other labels such as ISO-8859-1, but is valid
    UTF-8 beyond ASCII is UTF-8, because text in Windows-1252 is hardly ever valid UTF-8 by chance. A page that declares
    nothing is UTF-8 if it is valid or nearly valid UTF-8, else what a detector finds, else Windows-1252.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom):
            return encoding
    label = encoding_of(declared.strip(f"{SPACE}\"'")) if declared else None
    label = label or declared_encoding(data) or _guess(data)
    return "utf-8" if label == "windows-1252" and _is_utf8(data) else label


def encoding_of_text(data: bytes) -> str:
    """Returns the encoding of a text that is no page, so ``<meta>`` in it declares nothing.

    A comment of Python, ``# -*- coding: latin-1 -*-``, in the first two lines does (PEP 263).
    """
    declared = CODING.match(data)
    label = declared[1].decode("ascii").lower().replace("latin-", "latin") if declared else None
    return encoding_of(label) or _guess(data)


def sanitize(text: str) -> str:
    """Removes NUL from ``text`` and replaces lone surrogates, which UTF-8 cannot hold, by U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _guess(data: bytes) -> str:
    """Returns the encoding of a page that declares none."""
    if wide := _wide(data[:WIDE_BYTES]):
        return wide
    if data.isascii() or _is_utf8(data):
        return "iso-2022-jp" if b"\x1b$" in data and _detected(data) == "iso-2022-jp" else "utf-8"
    text = data.decode("utf-8", "replace")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return "utf-8" if text.count(REPLACEMENT) <= DAMAGED_FRACTION * beyond_ascii else _detected(data)


def _detected(data: bytes) -> str:
    """Returns what the detector finds. Its own translation of names to those of browsers loses some, so it is off."""
    name = detect_encoding(data, html5_compatible=False) or ""
    return DETECTED.get(name) or encoding_of(name) or "windows-1252"


def _wide(head: bytes) -> str | None:
    """Returns the UTF-16 that ``head`` is in by its zero bytes, if it is."""
    zeros = head[::2].count(0), head[1::2].count(0)
    enough = max(WIDE_FRACTION * len(head) / 2, 1)
    if max(zeros) < enough or min(zeros) > 0.1 * max(zeros):
        return None
    return "utf-16be" if zeros[0] > zeros[1] else "utf-16le"


def _is_utf8(data: bytes) -> bool:
    """Whether ``data`` has characters beyond ASCII and is valid UTF-8. Its last character may be incomplete."""
    try:
        return not data.isascii() and not codecs.utf_8_decode(data, "strict", False)[0].isascii()
    except UnicodeDecodeError:
        return False
