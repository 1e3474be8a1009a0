r"""The bytes of a page: what kind of file they are, whatever a label says, and which characters they hold.

    %PDF-1.7 …  ──> "application/pdf"      \x1f\x8b … ──> "application/gzip"      <!doctype html> … ──> HTML
    ["text/html", "text/html; charset=utf-8"]  ──>  ContentType("text/html", "utf-8")
    byte order mark, else HTTP header, else <meta>, else a guess ── utf8 ──> the page in UTF-8, without NUL

Sources: MIME Sniffing standard, sections 6 and 7; signatures of other formats that crawlers meet; Fetch standard,
"extract a MIME type". A header that the standard refuses gives no information in a browser; here its beginning is used
if it is a type, and its ``charset=``, wherever it stands.
"""

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray
from resiliparse.parse.encoding import detect_encoding

from headrace.data_prep.kernel import int64, kernel
from headrace.data_prep.sources.encodings import REPLACEMENT, SPACE, decoded, encoding_of
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
DETECTED = {"cp949": "euc-kr", "iso2022_jp": "iso-2022-jp", "euc_jp": "euc-jp", "mac-cyrillic": "x-mac-cyrillic"}
"""Encodings by those names of the detector that are not labels of the standard."""


def utf8(data: bytes, declared: str | None = None) -> bytes:
    """Returns ``data`` in UTF-8, without NUL: itself if it is that. Bytes invalid in its encoding become U+FFFD.

    ``declared`` is the charset of the HTTP header. Labels and decoders are those of the Encoding standard, and unknown
    labels are ignored. Where the standard leaves the encoding of a page to the browser, see ``encoding_of_page``.
    """
    encoding = encoding_of_page(data, declared)
    data = data[next((len(bom) for bom, _ in BOMS if data.startswith(bom)), 0) :]
    if encoding != "utf-8" or not (data.isascii() or valid_bytes(np.frombuffer(data, np.uint8)) == len(data)):
        data = decoded(data, encoding).encode()
    return data.replace(b"\0", b"")


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
    valid = valid_bytes(np.frombuffer(data, np.uint8))
    try:
        return codecs.utf_8_decode(data[valid:], "strict", False)[1] == 0 and not data[:valid].isascii()
    except UnicodeDecodeError:
        return False


@kernel
def valid_bytes(data: NDArray[np.uint8]) -> int:
    """Returns the number of bytes before the first one that is not valid UTF-8 (Unicode 15.0, table 3-7)."""
    at, words = 0, data[: data.size // 8 * 8].view(np.uint64)
    while at < data.size:
        word = at >> 3 if at & 7 == 0 else words.size
        while word < words.size and words[word] & np.uint64(0x8080808080808080) == 0:  # ASCII
            word, at = word + 1, at + 8
        if at == data.size:
            break
        lead, second = int64(data[at]), int64(data[at + 1]) if at + 1 < data.size else int64(0)
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        most = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if size > 1 and not (0xC2 <= lead <= 0xF4 and least <= second <= most and at + size <= data.size):
            return at
        for index in range(at + 2, at + size):
            if data[index] & 0xC0 != 0x80:
                return at
        at += size
    return at


HEADER_BYTES = 1445
"""Bytes in which a binary byte shows that a body is no text (MIME Sniffing, "resource header")."""
SNIFFED_BYTES = 4096
SAMPLED_BYTES = 1 << 16
BINARY_BYTES = bytes({*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)})
"""Bytes that text does not have (MIME Sniffing, "binary data byte")."""
IS_CONTROL = np.isin(np.arange(0x20), list(BINARY_BYTES[1:]))
CONTROL_FRACTION = 0.02
"""A body with a larger fraction of BINARY_BYTES, not counting NUL, is no text. Random bytes
have 0.1, text hardly any."""

SIGNATURES: Mapping[str, bytes] = {
    "application/pdf": rb"%PDF-",
    "application/postscript": rb"%!PS-Adobe-|\xc5\xd0\xd3\xc6",
    "application/rtf": rb"\{\\rtf",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF.{4}WEBP",
    "image/bmp": rb"BM.{4}\0{4}",
    "image/x-icon": rb"\0\0[\x01\x02]\0",
    "image/tiff": rb"II\*\0|MM\0\*",
    "image/jp2": rb"\0\0\0\x0cjP  ",
    "image/vnd.djvu": rb"AT&TFORM",
    "image/vnd.adobe.photoshop": rb"8BPS\0",
    "application/zip": rb"PK(?:\x03\x04|\x05\x06|\x07\x08)",
    "application/gzip": rb"\x1f\x8b\x08",
    "application/zstd": rb"\x28\xb5\x2f\xfd",
    "application/x-bzip2": rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)",
    "application/x-xz": rb"\xfd7zXZ\0",
    "application/x-7z-compressed": rb"7z\xbc\xaf\x27\x1c",
    "application/x-rar": rb"Rar!\x1a\x07|Rar \x1a\x07\0",
    "application/x-compress": rb"\x1f[\x9d\xa0]",
    "application/x-lz4": rb"\x04\x22\x4d\x18",
    "application/vnd.ms-cab-compressed": rb"MSCF\0{4}",
    "application/x-tar": rb".{257}ustar",
    "application/x-archive": rb"!<arch>\n",
    "application/x-ole": rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "application/x-elf": rb"\x7fELF",
    "application/x-dosexec": rb"MZ[^\n]{0,60}?\0",
    "application/java-vm": rb"\xca\xfe\xba\xbe",
    "application/wasm": rb"\0asm",
    "application/vnd.sqlite3": rb"SQLite format 3\0",
    "application/x-parquet": rb"PAR1[\x00-\x1f]",
    "application/x-hdf": rb"\x89HDF\r\n",
    "application/x-plist": rb"bplist0[0-9]",
    "application/x-shockwave-flash": rb"[CFZ]WS[\x01-\x1f]",
    "audio/mpeg": rb"ID3[\x02-\x04]\0",
    "audio/aiff": rb"FORM.{4}AIF[FC]",
    "audio/wave": rb"RIFF.{4}WAVE",
    "audio/midi": rb"MThd\0\0\0\x06",
    "audio/flac": rb"fLaC\0",
    "application/ogg": rb"OggS\0",
    "video/avi": rb"RIFF.{4}AVI ",
    "video/mp4": rb"\0.{3}ftyp",
    "video/webm": rb"\x1a\x45\xdf\xa3",
    "video/mpeg": rb"\0\0\x01[\xb3\xba]",
    "video/x-flv": rb"FLV\x01",
    "video/x-ms-asf": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "font/ttf": rb"\0\x01\0\0\0|ttcf\0|true\0",
    "font/otf": rb"OTTO\0",
    "font/woff": rb"wOF[F2]",
}
TYPES = tuple(SIGNATURES)
SIGNATURE = re.compile(b"|".join(b"(%s)" % pattern for pattern in SIGNATURES.values()), re.DOTALL)
"""Group n + 1 is the signature of TYPES[n]."""
BEFORE = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*")
"""The bytes that scripts write by mistake before a file that they send."""
PROLOG = rb"(?:\s|<!--(?:(?!-->).){0,2000}-->|<\?(?:(?!\?>).){0,200}\?>)*"
HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?"
    + PROLOG
    + rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|table|iframe|font|div|h1|p|a|b|br)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Source: MIME Sniffing, "identifying a resource with an unknown MIME type"."""
HTML_ROOT = re.compile(
    rb"(?:\xef\xbb\xbf)?" + PROLOG + rb"(?:<!doctype\s+html\b|(?:<!doctype[^>\[]{0,500}>\s*)?<html[\s>])",
    re.IGNORECASE | re.DOTALL,
)
END_TAG = re.compile(rb"</(?:title|head|body|html|table|div|h1|p|a|b)\s*>", re.IGNORECASE)
XML_ROOT = re.compile(rb"(?:\xef\xbb\xbf)?" + PROLOG + rb"(?:<!doctype[^>\[]{0,500}>\s*)?<([\w:]+)[\s>]", re.DOTALL)
XML_TYPES = {
    b"rss": "application/rss+xml", b"feed": "application/atom+xml", b"rdf:RDF": "application/rss+xml",
    b"urlset": "application/xml", b"sitemapindex": "application/xml", b"opml": "text/x-opml",
}  # fmt: skip
"""Types by root elements of XML that is no page (MIME Sniffing, "distinguishing if a resource is a feed or HTML")."""


def binary_type(body: bytes) -> str | None:
    """Returns the type of a file whose signature ``body`` begins with, or None."""
    signature = SIGNATURE.match(body, _start(body))
    return TYPES[signature.lastindex - 1] if signature and signature.lastindex else None


def is_binary(body: bytes) -> bool:
    """Whether the signature, or a byte of the first HEADER_BYTES, shows that ``body`` is no text."""
    head = body[:HEADER_BYTES]
    return binary_type(body) is not None or len(head.translate(None, BINARY_BYTES)) < len(head)


def control_fraction(body: bytes) -> float:
    """Returns the fraction of BINARY_BYTES other than NUL in the first SAMPLED_BYTES."""
    sample = np.frombuffer(body, np.uint8)[:SAMPLED_BYTES]
    return float(np.count_nonzero(IS_CONTROL[sample[sample < IS_CONTROL.size]]) / max(sample.size, 1))


def looks_like_html(body: bytes) -> bool:
    """Whether ``body`` of an unknown type begins like an HTML page."""
    return HTML_START.match(_ascii(body)) is not None


def is_html_document(body: bytes) -> bool:
    """Whether ``body`` begins with HTML's document type or root element, also as XML."""
    return HTML_ROOT.match(_ascii(body)) is not None


def keeps_tags(body: bytes) -> bool:
    """Whether ``body``, which should be the text of a page, is its HTML: it begins so and has an end tag."""
    return is_html_document(body) or (looks_like_html(body) and END_TAG.search(body) is not None)


def data_type(body: bytes) -> str | None:
    """Returns the type of ``body`` if it is JSON, a feed or a site map, which some label as HTML."""
    start = _start(body)
    if body[start : start + 1] in (b"{", b"["):
        try:
            orjson.loads(body[start:])
        except orjson.JSONDecodeError:
            return None
        return "application/json"
    root = XML_ROOT.match(_ascii(body))
    return XML_TYPES.get(root[1]) if root else None


def _start(body: bytes) -> int:
    blank = BEFORE.match(body)
    return blank.end() if blank else 0


def _ascii(body: bytes) -> bytes:
    """Returns the beginning of ``body`` with one byte a character."""
    head = body[:SNIFFED_BYTES]
    for bom, codec in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if head.startswith(bom):
            return head[2:].decode(codec, "replace").encode("latin-1", "replace")
    return head


TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
TYPE = re.compile(rf'["\s]*({TOKEN}/{TOKEN})(?=[\s;,"(]|\Z)')
CHARSET = re.compile(r"""\bcharset\s*[=:]\s*["']?([^\s"';,]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class ContentType:
    """A type and subtype in lower case ("" if the headers name none), and the value of ``charset``."""

    essence: str
    charset: str | None


def content_type(headers: Sequence[str]) -> ContentType:
    """Returns the type that the values of all Content-Type headers of a message give together: the last one counts."""
    essence, charset = "", None
    for value in ",".join(headers).split(","):
        match = TYPE.match(value)
        if match and match[1] != "*/*":
            named = match[1].lower()
            charset = charset if named == essence else None
            essence = named
        if declared := CHARSET.search(value):
            charset = declared[1]
    return ContentType(essence, charset)
