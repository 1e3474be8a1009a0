"""Bodies and headers of HTTP messages that are wrong in their type, coding or character set, made by chance."""

import gzip
import zlib
from random import Random

import brotli
import zstandard

from tests.data_prep.sources.malformed_html import TAGS, good_page, odd_page

CHARSETS = (
    b"utf-8", b"UTF8", b"utf-7", b"utf-16", b"utf-16be", b"utf-32", b"iso-2022-jp", b"iso-2022-kr", b"hz-gb-2312",
    b"gb18030", b"gbk", b"big5", b"big5-hkscs", b"euc-jp", b"euc-kr", b"shift_jis", b"windows-874", b"iso-8859-8-i",
    b"x-mac-cyrillic", b"koi8-u", b"x-user-defined", b"replacement", b"latin1", b"windows-1252", b"ibm866", b"rot13",
    b"idna", b"punycode", b"undefined", b"hex", b"zlib", b"unicode_escape", b"mbcs", b"base64_codec",
    b"\xff", b"'", b'"', b"a" * 3000, b"", b" utf-8 ", b"utf-8;x=y", b"utf-8,big5",
)  # fmt: skip
TYPES = (
    b"text/html", b"TEXT/HTML", b"text/html;", b"text/html, text/html", b"text/html charset=%s",
    b"text/html;charset=%s", b'text/html;charset="%s"', b"text/html;charset='%s'", b"text/html, */*;charset=%s",
    b"charset=%s", b";charset=%s", b'text/html;a="%s', b"text/html;charset=%s;charset=%s", b"text/plain;charset=%s",
    b"text/xml", b"image/svg+xml", b"application/xhtml+xml;charset=%s", b"application/octet-stream",
    b"application/json", b"", b"*/*", b"unk", b"/", b"\xff\xfe", b"text/html\0", b",", b'"', b"; " * 3000,
    b"a" * 3000 + b"/b", b"text/html\r\nContent-Type: text/html",
)  # fmt: skip
CODINGS = (
    b"gzip", b"GZIP", b"x-gzip", b"deflate", b"br", b"zstd", b"identity", b"compress", b"sdch", b"gzip, gzip",
    b"gzip,br", b"br, deflate, gzip, zstd, br, gzip, br", b",", b"", b"gzip\r\nContent-Encoding: br", b"\xff",
    b"chunked",
)  # fmt: skip
SIGNATURES = (
    b"%PDF-1.7", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"PK\x03\x04", b"\x1f\x8b\x08\0", b"BZh9",
    b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"7z\xbc\xaf\x27\x1c", b"RIFF", b"\0\0\0\x20ftyp", b"MZ\x90\0", b"\x7fELF",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"ID3\x03\0", b"wOF2", b"{", b"[", b"<?xml version='1.0'?><rss>",
    b"\x78\x9c", b"\x0b", b"\xef\xbb\xbf", b"\xff\xfe", b"\0" * 300,
)  # fmt: skip


def encoded(chance: Random, body: bytes) -> bytes:
    """Returns ``body`` in up to three codings; some are cut off or have more bytes after their end."""
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        compress = chance.choice([_gzip, zlib.compress, _raw_deflate, _brotli, zstandard.compress])
        body = compress(body)
    if chance.random() < 0.2:
        body = body[: chance.randrange(len(body) + 1)]
    return body + chance.choice([b"", b"", b"\0", b"\r\n", chance.randbytes(20)])


def odd_body(chance: Random) -> bytes:
    """Returns a body that is no HTML page by its beginning, or one that declares its character set in an odd way."""
    kind = chance.random()
    if kind < 0.4:
        return chance.choice([b"", b"\n", b"\xef\xbb\xbf"]) + chance.choice(SIGNATURES) + chance.randbytes(
            chance.choice([0, 9, 2000])
        )  # fmt: skip
    if kind < 0.9:
        return b"".join(_declaration(chance) for _ in range(chance.choice([1, 2, 9, 300]))) + chance.choice(
            [odd_page(chance), good_page(chance, 3), chance.randbytes(300), "мир 日本語 é".encode("utf-16")]
        )
    return odd_page(chance)


def content_type(chance: Random) -> bytes:
    """Returns the value of a Content-Type header, perhaps with another header after it."""
    return chance.choice(TYPES).replace(b"%s", chance.choice(CHARSETS))


def _declaration(chance: Random) -> bytes:
    """Returns markup that declares a character set, seems to, or hides a declaration."""
    charset = chance.choice(CHARSETS)
    meta = chance.choice([
        b"<meta charset=%s>", b"<meta charset='%s'>", b'<META/CHARSET = "%s"/>', b"<meta charset=%s",
        b"<meta charset='%s>", b"<meta http-equiv=content-type content='text/html; charset=%s'>",
        b"<meta content='charset=\"%s'>", b"<?xml version='1.0' encoding='%s'?>", b"<metax charset=%s>",
        b"<meta " + b"a=b " * 300 + b"charset=%s>",
    ]).replace(b"%s", charset)  # fmt: skip
    around = chance.choice([
        b"%s", b"%s", b"<!-- %s -->", b"<!-- %s", b"<!-->%s", b"<script>%s</script>", b"<script>%s",
        b"<title>%s</title>", b"<p a='%s'>", b"<p a=\"%s'>", b"<! %s>", b"<? %s", b"</ %s>",
        b"<%s %%s>" % chance.choice(TAGS).encode(),
    ])  # fmt: skip
    return around.replace(b"%s", meta)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def _brotli(data: bytes) -> bytes:
    return brotli.compress(data, quality=3)


def _raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()
