"""The bytes of a page: labels, byte order marks, detection, text that JSON accepts; the kind of a body."""

import random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.html import decodable, html_of
from headrace.data_prep.sources.page_bytes import (
    ContentType,
    binary_type,
    content_type,
    data_type,
    decode,
    encoding_of_page,
    is_html_document,
    looks_like_html,
    sanitize,
)

RUSSIAN = "Широкая электрификация южных губерний даст мощный толчок подъёму сельского хозяйства. " * 5
JAPANESE = "色は匂へど散りぬるを我が世誰ぞ常ならむ。いろはにほへと。" * 5
KOREAN = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. " * 5
CHINESE = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。" * 5
THAI = "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ " * 5
FRENCH = "Tous les êtres humains naissent libres et égaux en dignité et en droits. " * 5


@pytest.mark.parametrize(
    ("data", "declared", "expected"),
    [
        (RUSSIAN.encode("koi8-r"), "KOI8-R", RUSSIAN),
        (JAPANESE.encode("cp932"), "x-sjis", JAPANESE),
        ("①髙".encode("cp932"), "shift_jis", "①髙"),
        ("한글 똠".encode("cp949"), "euc-kr", "한글 똠"),
        ("汉字 €".encode("gb18030"), "gb2312", "汉字 €"),
        ("naïve “quotes”".encode("cp1252"), "iso-8859-1", "naïve “quotes”"),
        (b"\x81\x8d\x90", "latin1", "\x81\x8d\x90"),
        ("naïve".encode(), "iso-8859-1", "naïve"),
        (b"caf\xe9", "iso-8859-1", "café"),
        ("naïve".encode(), "no-such-charset", "naïve"),
        (RUSSIAN.encode("cp1251"), " Windows-1251\t", RUSSIAN),
        (RUSSIAN.encode("cp1251"), "'windows-1251'", RUSSIAN),
        ("\ufeffbom".encode(), "windows-1251", "bom"),
        ("\ufeffwide".encode("utf-16-le"), None, "wide"),
        ("\ufeffwide".encode("utf-16-be"), "utf-8", "wide"),
        ("wide".encode("utf-16-le"), "utf-16le", "wide"),
        ("wide".encode("utf-16-le"), "utf-16", "wide"),
        ("wide".encode("utf-16-be"), "utf-16be", "wide"),
        ("<p>мир</p>".encode("utf-16-le"), None, "<p>мир</p>"),
        ("<p>wide</p>".encode("utf-16-be"), None, "<p>wide</p>"),
        (b'<meta charset="koi8-r">' + "мир".encode("koi8-r"), None, '<meta charset="koi8-r">мир'),
        (b"<meta charset=koi8-r>" + "мир".encode(), "utf-8", "<meta charset=koi8-r>мир"),
        (b'<meta charset="utf-16">' + "é".encode(), None, '<meta charset="utf-16">é'),
        (b'<?xml version="1.0" encoding="koi8-r"?>\xcd', None, '<?xml version="1.0" encoding="koi8-r"?>м'),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        (b"\xb9\xfa~", "hz-gb-2312", "\ufffd"),
        (b"", None, ""),
        (b"", "replacement", ""),
    ],
)
def test_decode(data, declared, expected):
    assert decode(data, declared) == expected


def test_a_comment_before_the_declaration_is_passed_over():
    page = '<!-- <meta charset="windows-1251"> --><meta charset="utf-8"><title>Привет</title>'
    assert decode(page.encode()) == page


@pytest.mark.parametrize(
    ("text", "codec", "encoding"),
    [
        (RUSSIAN, "cp1251", "windows-1251"),
        (RUSSIAN, "koi8-r", "koi8-r"),
        (RUSSIAN, "utf-8", "utf-8"),
        (JAPANESE, "euc-jp", "euc-jp"),
        (JAPANESE, "cp932", "shift_jis"),
        (JAPANESE, "iso2022_jp", "iso-2022-jp"),
        (KOREAN, "euc-kr", "euc-kr"),
        (CHINESE, "gb2312", "gb18030"),
        (THAI, "cp874", "windows-874"),
        (FRENCH, "cp1252", "windows-1252"),
        (FRENCH, "utf-8", "utf-8"),
        ("plain", "ascii", "utf-8"),
    ],
)
def test_a_page_that_declares_nothing(text, codec, encoding):
    """The detector's own translation of names read Korean as UTF-8."""
    assert encoding_of_page(text.encode(codec)) == encoding
    assert decode(text.encode(codec)) == text


@pytest.mark.parametrize("damage", [b"\xff", b"\xd0", b"\x80"])
def test_a_bad_byte_does_not_hide_utf8(damage):
    data = RUSSIAN.encode()
    for at in (0, 51, len(data)):
        assert decode(data[:at] + damage + data[at:]).replace("\ufffd", "")[:20] in (RUSSIAN[:20], RUSSIAN[1:21])
    assert decode(b"abc" + damage + "мир это".encode()) == "abc\ufffdмир это"


def test_the_last_character_may_be_cut_off():
    assert decode(RUSSIAN.encode()[:301], "iso-8859-1") == RUSSIAN.encode()[:301].decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\0b", "ab"), ("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "😀"), ("é😀", "é😀")],
)
def test_clean(text, expected):
    assert sanitize(text) == expected


LABELS = [None, "utf-8", "utf-16", "shift_jis", "iso-2022-jp", "big5", "gbk", "euc-jp", "x-user-defined", "x", ""]


@given(st.binary(max_size=60), st.sampled_from(LABELS))
def test_any_bytes_give_text_that_json_accepts(data, declared):
    text = decode(data, declared)
    assert orjson.loads(orjson.dumps(text)) == text
    assert "\0" not in text


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
        (['text/html; charset="utf-8" ignored'], "text/html", "utf-8"),
        (["text/html;charset=utf-8;charset=koi8-r"], "text/html", "utf-8"),
        (["text/html;charset=;charset=koi8-r"], "text/html", "koi8-r"),
        (["text/html;a=b;;c;charset=koi8-r"], "text/html", "koi8-r"),
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
    ],
)  # fmt: skip
def test_content_types(headers, essence, charset):
    assert content_type(headers) == ContentType(essence, charset)
