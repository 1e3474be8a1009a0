"""Bytes to text: labels, byte order marks, detection, and text that JSON accepts."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.sources.charset import decode, encoding_of_page, encoding_of_text, sanitize

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


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"# -*- coding: latin-1 -*-\n'\xe9'", "windows-1252"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=koi8-r :\n", "koi8-r"),
        (b"#\n#\n# coding: koi8-r", "utf-8"),
        (b"'coding: koi8-r'", "utf-8"),
        (b"# coding: no-such", "utf-8"),
        (b"Write <meta charset=koi8-r> into the head.", "utf-8"),
        (FRENCH.encode("cp1252"), "windows-1252"),
        (FRENCH.encode(), "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_a_text_that_is_no_page(data, encoding):
    assert encoding_of_text(data) == encoding


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
