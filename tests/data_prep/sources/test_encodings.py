"""Decoders against the tables of the Encoding standard, and its rules for invalid bytes."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from random import Random

import pytest

from headrace.data_prep.sources.encodings import LABELS, MULTIPLE_BYTES, decoded, encoding_of

DIGESTS: dict[str, str] = {
    "gbk": "576ae0a38334af564c6a9a53e645aaae",
    "gb18030": "78e834b54ac56de4cd930aa91042bd32",
    "big5": "98c9495d19dbd109be83264b5de297c9",
    "euc-kr": "d24ec1fa9c257ec03628778e29bac524",
    "shift_jis": "7375da2bc44b80a71e50df1b81d3ed9d",
    "euc-jp": "530b964f84e42ab313f247c9f74fcb59",
    "iso-2022-jp": "ba62705c96037bee7c52895c05e36d90",
    "utf-8": "45ae24d533cf265f9148c6a420e88fc1",
    "utf-16le": "7dce7f23370745d93eb273e75727efd5",
    "utf-16be": "bdf608a122478f1866fcb80d06c671f4",
    "replacement": "c53659540567cab873439f407e21e35f",
    "x-user-defined": "46bb884bf7db164e68d360392d846c5c",
    "ibm866": "5371401960ff7a3bd376b68c6cbf3988",
    "iso-8859-2": "1b23eff04465c1118a6b54c7271fd2ef",
    "iso-8859-3": "ba9d27ea05028b809c0725e9d353ee5a",
    "iso-8859-4": "7e14f245527ad54f99028396d34ec494",
    "iso-8859-5": "92896cce6499194d6b5bc9edac4c5257",
    "iso-8859-6": "fda8ee2597a13cf09fc5f7837c4bf652",
    "iso-8859-7": "84c78f025be9ae07bedde65d93b093af",
    "iso-8859-8": "8b9498fc6ff7dac986106f6d5a19da7d",
    "iso-8859-8-i": "87bfd83a4486877e9881d3491ed65e7a",
    "iso-8859-10": "4eaa2c9ee64024c71f921ec2f0ef20a4",
    "iso-8859-13": "f1887755212a104022f7b0ec8f6d2a8a",
    "iso-8859-14": "0c1469250c6098ad1779fe3a0bf0a5be",
    "iso-8859-15": "4bbe2b02b76755b5d99833fa2fa6959c",
    "iso-8859-16": "7f284db63d8b9df4a515d0b6ac80257d",
    "koi8-r": "7862850b7558a4227bd283aeb3ca2fba",
    "koi8-u": "b135185ef2e0732a4a887656a2a91f31",
    "macintosh": "162e23ec058bf9e3efd92d8c95976359",
    "windows-874": "7e42d42eaf0b692bbbdd87e3fc689ec8",
    "windows-1250": "2451e7cdc738886a2fbfc83f3dcfaffa",
    "windows-1251": "9171cab1d379a8c3f232dc585caf163a",
    "windows-1252": "3169aaf3d3c20c78d2e7925624ad8d1d",
    "windows-1253": "be5aa98f981f02d3b697fc8470864c4f",
    "windows-1254": "4bbf5397b6ddead8aa85ae3adb67f50e",
    "windows-1255": "96287f51da3148b7efebb541aa06f9b3",
    "windows-1256": "400b9ecd02d4ee467d7ab7b001496952",
    "windows-1257": "8c2e863d41efbb00be5aad8ca0d7a79d",
    "windows-1258": "62f7d58f9891d259e1bf43f766feaf3f",
    "x-mac-cyrillic": "8fe89e03477a5f21825580249284789a",
}
"""The ``digest`` of slow decoders that were written from the text of the standard and read its index files (version of
2026-05-21)."""


def sequences(encoding: str) -> Iterator[bytes]:
    """Yields every byte, every pair with a first byte beyond ASCII, and longer sequences of the encoding."""
    yield from (bytes([byte]) for byte in range(256))
    if encoding in MULTIPLE_BYTES:
        yield from map(bytes, itertools.product(range(0x80, 0x100), range(256)))
    if encoding == "euc-jp":
        yield from (b"\x8f" + bytes(pair) for pair in itertools.product(range(0x80, 0x100), repeat=2))
    if encoding == "gb18030":
        digits, bytes_3 = b"0123456789", range(0x81, 0xFF, 5)
        yield from map(
            bytes, itertools.product((0x81, 0x82, 0x84, 0x85, 0x90, 0xE3, 0xE4, 0xFE), digits, bytes_3, digits)
        )
    if encoding == "iso-2022-jp":
        yield from (b"\x1b$B" + bytes(pair) for pair in itertools.product(range(0x20, 0x80), repeat=2))
    chance = Random(encoding)
    common = b"\x1b$(BJI@09A<\x81\x84\x8e\x8f\xa1\xa2\xb7\xd8\xdc\xe0\xf0"
    for _ in range(3000):
        size = chance.choice((2, 3, 5, 9))
        yield bytes(chance.choice((*common, chance.randrange(256), chance.randrange(0x80, 0x100))) for _ in range(size))


def digest(encoding: str, decode: Callable[[bytes], str]) -> str:
    """Returns the SHA-256 of the texts of all ``sequences``, with their lengths."""
    total = hashlib.sha256()
    for sequence in sequences(encoding):
        text = decode(sequence)
        total.update(f"{len(text)}:{text}".encode("utf-8", "surrogatepass"))
    return total.hexdigest()[:32]


@pytest.mark.parametrize("encoding", LABELS)
def test_every_sequence_is_decoded_as_in_the_standard(encoding):
    assert digest(encoding, lambda data: decoded(data, encoding)) == DIGESTS[encoding]


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("shift_jis", b"\x81<p>", "\ufffd<p>"),
        ("shift_jis", b"\x81\xad\x82\xa0", "\ufffdあ"),
        ("euc-kr", b"\xc9\xa1\xb0\xa1\xb0\xa2", "\ufffd가각"),
        ("euc-jp", b"\xad\xa1\xa1\xc1\x8e\xb1\x8f\xb0\xa1", "①～ｱ丂"),
        ("gbk", b"\x80\xa8\xbf\xfe\xfe", "€ǹ\ue4c5"),
        ("gb18030", b"\x81\x30\x81\x30\xa6\xd9\x81\x30", "\x80︐\ufffd"),
        ("big5", b"\x88\x62\xa1\x45\x87\x7a\x80", "Ê̄‧㡵\ufffd"),
        ("iso-2022-jp", b"\x1b$B$\"\x1b(J\\~\x1b(I1\x1b(B\\", "あ¥‾ｱ\\"),
        ("iso-2022-jp", b"\x1b$B\x1b(Ba\x1bb", "\ufffda\ufffdb"),
        ("koi8-u", b"\xae\xbe", "ўЎ"),
        ("windows-1255", b"\xca", "\u05ba"),
        ("windows-1253", b"\xd2\x81", "\ufffd\x81"),
        ("x-mac-cyrillic", b"\xff", "€"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("utf-8", b"\xed\xa0\x80\xf0\x9f\x98<", "\ufffd\ufffd\ufffd\ufffd<"),
        ("utf-16le", b"\x00\xd8a\0\0", "\ufffda\ufffd"),
    ],
)  # fmt: skip
def test_characters_that_are_easily_got_wrong(encoding, data, text):
    assert decoded(data, encoding) == text


@pytest.mark.parametrize("encoding", MULTIPLE_BYTES)
def test_text_with_an_error_is_read_as_the_rest(encoding):
    text = "The mill 水車 turns. " * 50 if encoding != "euc-kr" else "The mill 물방아 turns. " * 50
    codec = {"shift_jis": "cp932", "big5": "big5hkscs"}.get(encoding, encoding)
    data = text.encode(codec)
    assert decoded(data, encoding) == text
    assert decoded(data + b"\xff" + data, encoding) == f"{text}\ufffd{text}"


@pytest.mark.parametrize(
    ("label", "encoding"),
    [
        ("utf8", "utf-8"), (" UTF-8\n", "utf-8"), ("latin1", "windows-1252"), ("us-ascii", "windows-1252"),
        ("iso-8859-9", "windows-1254"), ("tis-620", "windows-874"), ("gb2312", "gbk"), ("ks_c_5601-1987", "euc-kr"),
        ("unicode", "utf-16le"), ("x-sjis", "shift_jis"), ("iso-8859-8-i", "iso-8859-8-i"), ("logical", "iso-8859-8-i"),
        ("koi8-ru", "koi8-u"), ("iso-2022-cn", "replacement"), ("utf-7", None), ("utf-32", None), ("cp437", None),
        ("\u212aoi8-r", None), ("utf-8\xa0", None), ("utf-8\0", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_labels(label, encoding):
    assert encoding_of(label) == encoding


def test_the_table_of_labels_is_that_of_the_standard():
    """The digest is that of the standard's encodings.json, of the same day as DIGESTS."""
    pairs = sorted((label, name) for name, labels in LABELS.items() for label in labels.split())
    assert len(pairs) == 228
    assert hashlib.sha256(repr(pairs).encode()).hexdigest()[:32] == "1f504959c8e90088a85a0ecba94f6671"
