"""Bytes to text: labels, byte order marks, detection, and text that JSON accepts."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.sources.charset import decode, sanitize

RUSSIAN = "Широкая электрификация южных губерний даст мощный толчок подъёму сельского хозяйства. " * 5
JAPANESE = "色は匂へど散りぬるを我が世誰ぞ常ならむ。いろはにほへと。" * 5


@pytest.mark.parametrize(
    ("data", "declared", "expected"),
    [
        (RUSSIAN.encode("koi8-r"), "KOI8-R", RUSSIAN),
        (RUSSIAN.encode("cp1251"), None, RUSSIAN),
        (JAPANESE.encode("euc-jp"), None, JAPANESE),
        (JAPANESE.encode("cp932"), "x-sjis", JAPANESE),
        ("①髙".encode("cp932"), "shift_jis", "①髙"),
        ("한글 똠".encode("cp949"), "euc-kr", "한글 똠"),
        ("汉字 €".encode("gb18030"), "gb2312", "汉字 €"),
        ("naïve “quotes”".encode("cp1252"), "iso-8859-1", "naïve “quotes”"),
        ("naïve".encode(), "iso-8859-1", "naïve"),
        ("naïve".encode(), "no-such-charset", "naïve"),
        ("\ufeffbom".encode(), "windows-1251", "bom"),
        ("\ufeffwide".encode("utf-16-le"), None, "wide"),
        ("\ufeffwide".encode("utf-16-be"), "utf-8", "wide"),
        ("wide".encode("utf-16-le"), "utf-16le", "wide"),
        (b'<meta charset="koi8-r">' + "мир".encode("koi8-r"), None, '<meta charset="koi8-r">мир'),
        (b"<meta http-equiv=x content='text/html; charset=koi8-r'>\xcd", "utf-8", None),
        (b'<meta charset="utf-16">' + "é".encode(), None, '<meta charset="utf-16">é'),
        (b'<?xml version="1.0" encoding="koi8-r"?>\xcd', None, '<?xml version="1.0" encoding="koi8-r"?>м'),
        (b"a\xffb", "utf-8", "a\ufffdb"),
        (b"", None, ""),
    ],
)
def test_decode(data, declared, expected):
    text = decode(data, declared)
    assert text == expected if expected is not None else text.endswith("\ufffd")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\0b", "ab"), ("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "😀"), ("é😀", "é😀")],
)
def test_clean(text, expected):
    assert sanitize(text) == expected


@given(st.binary(max_size=60), st.sampled_from([None, "utf-8", "utf-16", "shift_jis", "iso-2022-jp", "big5", "x", ""]))
def test_any_bytes_give_text_that_json_accepts(data, declared):
    text = decode(data, declared)
    assert orjson.loads(orjson.dumps(text)) == text
    assert "\0" not in text
