"""The kind of a body: by its bytes, whatever its label says, and by its Content-Type headers.

    %PDF-1.7 …  ──> "application/pdf"      \x1f\x8b … ──> "application/gzip"      <!doctype html> … ──> HTML
    ["text/html", "text/html; charset=utf-8"]  ──>  ContentType("text/html", "utf-8")

Sources: MIME Sniffing standard, sections 6 and 7 and "parse a MIME type"; signatures of other formats that crawlers
meet; Fetch standard, "extract a MIME type". A header that they refuse gives no information in a browser. Here its
beginning is used if it is a type, and its ``charset=``, wherever it stands.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

HEADER_BYTES = 1445
"""Bytes in which a binary byte shows that a body is no text (MIME Sniffing, "resource header")."""
SNIFFED_BYTES = 4096
SAMPLED_BYTES = 1 << 16
BINARY_BYTES = bytes({*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)})
"""Bytes that text does not have (MIME Sniffing, "binary data byte")."""
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
    sample = body[:SAMPLED_BYTES]
    return (len(sample) - len(sample.translate(None, BINARY_BYTES[1:]))) / max(len(sample), 1)


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
