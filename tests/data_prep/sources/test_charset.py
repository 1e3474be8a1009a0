"""Bytes to text: labels, byte order marks, detection, and text that JSON accepts."""

import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.sources.charset import (
    LATE_BYTES,
    declared_encoding,
    decode,
    encoding_of_page,
    encoding_of_text,
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


# The encoding that a page declares: one case for each step of the standard's algorithm, and for what differs.


META = b"<meta charset=koi8-r>"
PRAGMA = b"http-equiv=content-type"


@pytest.mark.parametrize(
    ("page", "encoding"),
    [
        # how an attribute is written
        (b"<meta charset=koi8-r>", "koi8-r"),
        (b'<META CHARSET="KOI8-R">', "koi8-r"),
        (b"<meta\tcharset\n=\f'koi8-r'\r>", "koi8-r"),
        (b"<meta/charset=koi8-r>", "koi8-r"),
        (b"<meta charset=koi8-r/>", None),
        (b"<meta charset=koi8-r />", "koi8-r"),
        (b'<meta charset="koi8-r"/>', "koi8-r"),
        (b'<meta charset=" koi8-r\n">', "koi8-r"),
        (b"<meta charset=\"koi8-r'>", None),
        (b"<meta a=b charset=koi8-r c>", "koi8-r"),
        (b"<meta a='>' charset=koi8-r>", "koi8-r"),
        (b'<meta " charset=koi8-r>', "koi8-r"),
        (b"<meta a charset=koi8-r>", "koi8-r"),
        (b"<meta a = charset=koi8-r>", None),
        (b"<meta = charset=koi8-r>", "koi8-r"),
        (b"<meta charset= >" + META, "koi8-r"),
        (b"<meta charset>" + META, "koi8-r"),
        (b"<meta charset=ascii charset=koi8-r>", "windows-1252"),
        (b"<meta charset=big5><meta charset=koi8-r>", "big5"),
        (b"<meta charset=no-such><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=\xeb><meta charset=koi8-r>", "koi8-r"),
        (b"<meta charset=koi8-r", None),
        (b"<meta charset='koi8-r", None),
        (b"<meta charset=", None),
        (b"<meta", None),
        (b"<", None),
        (b"", None),
        # what is no <meta>
        (b"<metax charset=koi8-r>", None),
        (b"<metacharset=koi8-r>", None),
        (b"<meta>charset=koi8-r", None),
        (b"</meta charset=koi8-r>", None),
        (b"<\xc3\xa9 <meta charset=koi8-r>", "koi8-r"),
        (b"&lt;meta charset=big5>" + META, "koi8-r"),
        (b"<p title='<meta charset=big5>'>" + META, "koi8-r"),
        (b"<p title=<meta charset=big5>" + META, "koi8-r"),
        (b"<p title=\"<meta charset=big5>'>" + META, None),
        (b"</p title='<meta charset=big5>'>" + META, "koi8-r"),
        # comments and other markup
        (b"<!-- <meta charset=big5> -->" + META, "koi8-r"),
        (b"<!-->" + META, "koi8-r"),
        (b"<!--->" + META, "koi8-r"),
        (b"<!-- > <meta charset=big5> --!> -->" + META, "koi8-r"),
        (b"<!-- <meta charset=koi8-r>", None),
        (b"<!doctype html '<meta charset=big5>'>" + META, "koi8-r"),
        (b"<! <meta charset=big5>" + META, "koi8-r"),
        (b"<? <meta charset=big5>" + META, "koi8-r"),
        (b"</ <meta charset=big5>" + META, "koi8-r"),
        (b"</>" + META, "koi8-r"),
        (b"<!", None),
        # http-equiv
        (b"<meta " + PRAGMA + b" content='text/html; charset=koi8-r'>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r' " + PRAGMA + b">", "koi8-r"),
        (b"<meta HTTP-EQUIV=Content-Type CONTENT='Charset=KOI8-R'>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r'>", None),
        (b"<meta http-equiv=refresh content='text/html; charset=koi8-r'>", None),
        (b"<meta http-equiv='content-type ' content='charset=koi8-r'>", None),
        (b"<meta name=content-type content='charset=koi8-r'>", None),
        (b"<meta " + PRAGMA + b" content='charset=koi8-r' charset=big5>", "big5"),
        (b"<meta " + PRAGMA + b" charset=big5 content='charset=koi8-r'>", "big5"),
        (b"<meta " + PRAGMA + b" charset=no-such content='charset=koi8-r'>", None),
        (b"<meta content='charset=no-such' charset=big5>", "big5"),
        (b"<meta charset=big5 content='charset=koi8-r'>", "big5"),
        # extracting an encoding from the value of content
        (b"<meta " + PRAGMA + b" content='charset  =\n koi8-r ; x'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset=\"koi8-r\"'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset=\"koi8-r'>", None),
        (b"<meta " + PRAGMA + b" content=\"charset='koi8-r'\">", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset charset=koi8-r'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='xcharset=koi8-r'>", "koi8-r"),
        (b"<meta " + PRAGMA + b" content='charset=koi8-r,charset=big5'>", None),
        (b"<meta " + PRAGMA + b" content='charset='>", None),
        (b"<meta " + PRAGMA + b" content='koi8-r'>", None),
        # encodings that a declaration in ASCII cannot mean
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=UTF-16BE>", "utf-8"),
        (b"<meta charset=ucs-2>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<meta charset=iso-2022-kr>", "replacement"),
        # XML
        (b"<?xml version='1.0' encoding='koi8-r'?><p>", "koi8-r"),
        (b'<?xml version="1.0" encoding = "utf-16"?>', "utf-8"),
        (b"<?xml encoding='koi8-r'?><meta charset=big5>", "big5"),
        (b"<?xml encoding='koi8-r'", None),
        (b"<?xml encoding=koi8-r?>", None),
        (b"<?xml encoding='koi8-r\"?>", None),
        (b"<?xml encoding='koi8 -r'?>", None),
        (b"<?XML encoding='koi8-r'?>", None),
        (b" <?xml encoding='koi8-r'?>", None),
        (b"<?xml encoding encoding='koi8-r'?>", None),
        ("<?xml version='1.0'?>".encode("utf-16-le"), "utf-16le"),
        ("<?xml version='1.0'?>".encode("utf-16-be"), "utf-16be"),
        # where the parser of a browser sees no tag
        (b"<script>'<meta charset=big5>'</script>" + META, "koi8-r"),
        (b"<SCRIPT type=x>if (a<b) x = \"'\" + '<meta charset=big5>'</SCRIPT >" + META, "koi8-r"),
        (b"<style><meta charset=big5></style>" + META, "koi8-r"),
        (b"<title><meta charset=big5></title>" + META, "koi8-r"),
        (b"<textarea></title><meta charset=big5></textarea>" + META, "koi8-r"),
        (b"<scripts><meta charset=big5></scripts>" + META, "big5"),
        (b"<script>'<meta charset=big5>'</script>", "big5"),
        (b"<script>'<meta charset=big5>'", "big5"),
        (b"<script></scripty>'<meta charset=big5>'</script>" + META, "koi8-r"),
        # after the first 1,024 bytes
        (b"<!--" + b"x" * 2000 + b"-->" + META, "koi8-r"),
        (b"<p>" * 1000 + META, "koi8-r"),
        (b"<style>" + b"x" * 20_000 + b"</style>" + META, "koi8-r"),
        (b" " * LATE_BYTES + META, None),
        (b" " * 2000 + b"<script>'<meta charset=big5>'</script>", None),
    ],
)
def test_declarations(page, encoding):
    assert declared_encoding(page) == encoding


@pytest.mark.parametrize(
    "piece",
    [b"<", b"<!--", b"<a ", b"<meta ", b"<meta charset", b"<p a='", b"=", b"charset=", b"<script>", b"</", b"<?xml "],
)
def test_the_time_does_not_grow_with_the_square_of_the_bytes(piece):
    start = time.process_time()
    declared_encoding((b"charset=" + piece * LATE_BYTES)[:LATE_BYTES])
    assert time.process_time() - start < 1
