"""The kind of a body by its bytes."""

import random

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.body_types import (
    ContentType,
    binary_type,
    content_type,
    data_type,
    is_html_document,
    looks_like_html,
)
from headrace.data_prep.sources.html import decodable, html_of

FILES = {
    "application/pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3",
    "application/postscript": b"%!PS-Adobe-3.0",
    "application/rtf": b"{\\rtf1\\ansi",
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "image/png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "image/gif": b"GIF89a\x01\0",
    "image/webp": b"RIFF\x24\0\0\0WEBPVP8 ",
    "image/bmp": b"BM\x36\0\x0c\0\0\0\0\0\x36\0",
    "image/x-icon": b"\0\0\x01\0\x01\0",
    "image/tiff": b"II*\0\x08\0\0\0",
    "application/zip": b"PK\x03\x04\x14\0\x06\0",
    "application/gzip": b"\x1f\x8b\x08\0\0\0\0\0",
    "application/zstd": b"\x28\xb5\x2f\xfd\x04\x58",
    "application/x-bzip2": b"BZh91AY&SY",
    "application/x-xz": b"\xfd7zXZ\0\0\x04",
    "application/x-7z-compressed": b"7z\xbc\xaf\x27\x1c\0\x04",
    "application/x-rar": b"Rar!\x1a\x07\x01\0",
    "application/x-tar": b"name".ljust(257, b"\0") + b"ustar\x0000",
    "application/x-ole": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "application/x-elf": b"\x7fELF\x02\x01\x01",
    "application/x-dosexec": b"MZ\x90\0\x03\0\0\0",
    "application/wasm": b"\0asm\x01\0\0\0",
    "application/x-shockwave-flash": b"CWS\x09\x12\x34\0\0",
    "audio/mpeg": b"ID3\x03\0\0",
    "application/ogg": b"OggS\0\x02",
    "audio/wave": b"RIFF\x24\0\0\0WAVEfmt ",
    "video/mp4": b"\0\0\0\x20ftypisom",
    "video/webm": b"\x1a\x45\xdf\xa3\x9f",
    "font/ttf": b"\0\x01\0\0\0\x10",
    "font/woff": b"wOF2\0\x01\0\0",
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("before", [b"", b"\r\n\n ", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_signatures(kind, before):
    if kind in ("application/x-tar", "image/x-icon", "font/ttf", "video/mp4", "application/wasm") and before:
        return  # they begin with any byte or with zeros
    assert binary_type(before + FILES[kind]) == kind
    assert html_of(before + FILES[kind]) == Drop("binary", kind)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"<p>x", b"BM is a firm in the north of the country.", b"MZ was a car.\nIt drove.", b"ID3 is a tag.",
        b"GIF is a format", b"PK is a name", b"Rar! says the bear", b"RIFF and RAFF", b"FWS is short",
        b"%PDF is a file", b"7z is small", b"BZh9 is a beginning", b"{\\r}", b"OTTO is a name that", b"PAR1 is odd",
        b"\0", b"\0\0\0\0\0\0", "яы".encode("cp1251"), "ÿØ".encode("cp1252"), b"\xff\xfe<\0p\0>\0",
        b"\xef\xbb\xbf<html>", b"II* MM* 8BPS fLaC",
    ],
)  # fmt: skip
def test_texts_have_no_signature(text):
    assert binary_type(text) is None
    assert isinstance(html_of(text), str)


def test_bytes_without_a_signature_are_known_by_their_control_characters():
    noise = random.Random(1).randbytes(5000)
    drop = html_of(noise, "utf-8")
    assert isinstance(drop, Drop)
    assert (drop.rule, drop.value[-19:]) == ("binary", " control characters")
    page = "<p>漢字かな</p>" * 100
    assert html_of(page.encode("utf-16"), None) == page
    assert html_of(page.encode("utf-16-le"), "utf-16") == page
    assert html_of(b"<p>a\0b\x0cc\x1bd\t</p>" * 9) == "<p>ab\x0cc\x1bd\t</p>" * 9
    assert html_of(b"<p>one \x02 in many</p>" + b"x" * 100) == "<p>one \x02 in many</p>" + "x" * 100


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"a": [1]}', "application/json"),
        (b" \n[1, 2]\n", "application/json"),
        (b"\xef\xbb\xbf{}", "application/json"),
        (b"{ not JSON }<p>", None),
        (b"[1] is a footnote", None),
        (b'<rss version="2.0">', "application/rss+xml"),
        (b"<?xml version='1.0'?>\n<!-- x --><rss>", "application/rss+xml"),
        (b"<feed xmlns='http://www.w3.org/2005/Atom'>", "application/atom+xml"),
        (b"<?xml version='1.0'?><rdf:RDF xmlns='x'>", "application/rss+xml"),
        (b"<?xml version='1.0'?><urlset>", "application/xml"),
        (b"<?xml version='1.0'?><?xml-stylesheet href='x'?><sitemapindex >", "application/xml"),
        (b"<?xml version='1.0'?><html>", None),
        (b"<?xml version='1.0'?><!DOCTYPE html><html>", None),
        (b"<feedback>", None),
        (b"<p><rss>", None),
        (b"", None),
    ],
)
def test_data_that_is_no_page(body, kind):
    assert data_type(body) == kind


@pytest.mark.parametrize(
    ("body", "looks", "is_document"),
    [
        (b"<!doctype html>", True, True),
        (b"\xef\xbb\xbf<!DOCTYPE HTML PUBLIC 'x'>", True, True),
        ("\ufeff<html>".encode("utf-16-le"), True, True),
        ("\ufeff <html lang=x>".encode("utf-16-be"), True, True),
        (b"<?xml version='1.0'?><!DOCTYPE html [<!ENTITY a 'b'>]><html>", True, True),
        (b"<!-- a --><html>", True, True),
        (b"<p>x", True, False),
        (b"<iframe src=x>", True, False),
        (b"<font size=1>", True, False),
        (b"<b>x", True, False),
        (b"<html5>", False, False),
        (b"<rss>", False, False),
        (b"text <html>", False, False),
        (b"", False, False),
    ],
)
def test_pages(body, looks, is_document):
    assert (looks_like_html(body), is_html_document(body)) == (looks, is_document)


def test_text_that_could_not_be_decoded():
    assert decodable("bad \ufffd byte") == "bad \ufffd byte"
    assert decodable("\ufffd\ufffd \ufffd") == Drop("undecodable", "75.0% of the characters")


@pytest.mark.parametrize("piece", [b"<!--", b"<!---->", b"<?x?>", b"<!doctype ", b" ", b"MZ", b"RIFF", b"[", b"{"])
def test_the_time_is_linear(piece):
    for function in (binary_type, data_type, looks_like_html, is_html_document):
        function(piece * 100_000)


# The type and charset of a page from its Content-Type headers, as they occur.


@pytest.mark.parametrize(
    ("headers", "essence", "charset"),
    [
        # one header
        ([], "", None),
        ([""], "", None),
        (["text/html"], "text/html", None),
        (["TEXT/HTML; CHARSET=UTF-8"], "text/html", "UTF-8"),
        (["\ttext/html ;\tcharset=utf-8 "], "text/html", "utf-8"),
        (['text/html; charset="utf-8"'], "text/html", "utf-8"),
        (['text/html; charset="ut\\f-8'], "text/html", "utf-8"),
        (['text/html; charset="utf-8" ignored'], "text/html", "utf-8"),
        (["text/html;charset=utf-8;charset=koi8-r"], "text/html", "utf-8"),
        (["text/html;charset=;charset=koi8-r"], "text/html", "koi8-r"),
        (["text/html;a=b;;c;charset=koi8-r"], "text/html", "koi8-r"),
        (['text/html;a=";charset=big5";charset=koi8-r'], "text/html", "koi8-r"),
        (['text/html;a=",";charset=koi8-r'], "text/html", "koi8-r"),
        (["application/xhtml+xml;charset=koi8-r"], "application/xhtml+xml", "koi8-r"),
        (["*/*"], "", None),
        (["text/"], "", None),
        (["/html"], "", None),
        (["html"], "", None),
        (["text/html/xml"], "", None),
        (["text html"], "", None),
        # several headers, and lists
        (["text/html, text/html; charset=utf-8"], "text/html", "utf-8"),
        (["text/html; charset=utf-8", "text/html"], "text/html", "utf-8"),
        (["text/html; charset=utf-8, text/html; charset=koi8-r"], "text/html", "koi8-r"),
        (["text/plain; charset=koi8-r", "text/html"], "text/html", None),
        (["text/html", "text/plain"], "text/plain", None),
        (["text/html, */*"], "text/html", None),
        (["text/html,,"], "text/html", None),
        (["text/html;a=\",\", text/plain"], "text/plain", None),
        # what the standard refuses
        (["text/html charset=utf-8"], "text/html", "utf-8"),
        (["text/html, charset=utf-8"], "text/html", "utf-8"),
        (["text/html,charset=utf-8,text/html"], "text/html", "utf-8"),
        (["text/html;charset:utf-8"], "text/html", "utf-8"),
        (["text/html; x charset = 'utf-8'"], "text/html", "utf-8"),
        (['"text/html"'], "text/html", None),
        (["text/html (x)"], "text/html", None),
        (["charset=koi8-r"], "", "koi8-r"),
        (["; charset=koi8-r"], "", "koi8-r"),
        (["text/html; oldcharset=koi8-r"], "text/html", None),
        (["text/plain; charset=koi8-r", "text/html charset=utf-8"], "text/plain", "koi8-r"),
    ],
)  # fmt: skip
def test_content_types(headers, essence, charset):
    assert content_type(headers) == ContentType(essence, charset)
