"""Character encodings of the Encoding standard (encoding.spec.whatwg.org): their labels, and decoders from Python's.

    " Latin1 " ── encoding_of ──> "windows-1252"        "utf8mb4" ──> None

Names of encodings are those of the standard, in lower case.

    bytes, "euc-jp" ── decoded ──> str; what is invalid becomes U+FFFD, as in a browser

Python's codecs differ from the standard in some characters, and in the bytes that an invalid sequence takes. So text
that a codec reads without an error is taken from it, at its speed, and these characters are replaced. Other text is
read sequence by sequence. tests/data_prep/sources/test_encodings.py compares all sequences with the standard's tables.
"""

import codecs
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping

SPACE = "\t\n\f\r "
"""ASCII whitespace, as the standards for the web define it."""
LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866 ibm866",
    "iso-8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso-8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
        "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "iso-8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
        "iso_8859-7:1987 sun_eu_greek"
    ),
    "iso-8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 "
        "iso_8859-8 iso_8859-8:1988 visual"
    ),
    "iso-8859-8-i": "csiso88598i iso-8859-8-i logical",
    "iso-8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso-8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "windows-1250": "cp1250 windows-1250 x-cp1250",
    "windows-1251": "cp1251 windows-1251 x-cp1251",
    "windows-1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
        "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
    ),
    "windows-1253": "cp1253 windows-1253 x-cp1253",
    "windows-1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
        "windows-1254 x-cp1254"
    ),
    "windows-1255": "cp1255 windows-1255 x-cp1255",
    "windows-1256": "cp1256 windows-1256 x-cp1256",
    "windows-1257": "cp1257 windows-1257 x-cp1257",
    "windows-1258": "cp1258 windows-1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "gb18030": "gb18030",
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso-2022-jp": "csiso2022jp iso-2022-jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "euc-kr": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949"
    ),
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement",
    "utf-16be": "unicodefffe utf-16be",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "x-user-defined": "x-user-defined",
}
"""The labels of each encoding, separated by spaces."""
ENCODINGS = {label: name for name, labels in LABELS.items() for label in labels.split()}


def encoding_of(label: str | None) -> str | None:
    """Returns the encoding that ``label`` names (Encoding standard, "get an encoding"), or None if it names none."""
    return ENCODINGS.get(label.strip(SPACE).lower()) if label and label.isascii() else None


REPLACEMENT = "\ufffd"
UNDEFINED = "\ufffe"
"""The mark of ``codecs.charmap_decode`` for a byte without a character."""

PYTHON_NAMES = {"macintosh": "mac_roman", "x-mac-cyrillic": "mac_cyrillic", "windows-874": "cp874"}
PYTHON_NAMES |= {"iso-8859-8-i": "iso-8859-8", "ibm866": "cp866"}
"""Python's codecs of single-byte encodings that have another name there."""
SINGLE_BYTES = {"koi8-u": {0xAE: "ў", 0xBE: "Ў"}, "windows-1255": {0xCA: "\u05ba"}}
"""Characters that Python's codecs do not have, or have elsewhere. The standard also gives each of the bytes 0x80 to
0x9F that a codec leaves undefined its control character."""

BIG5 = (
    "877a:㡵𡵓𣚞𦀡㻬𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇垳 "
    "87c4:䤯呌䄱𣚎堘穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋 8e69:箸 8e6f:簆 8e7e:糎 8eab:緒 8eb4:縝 "
    "8ecd:者 8ed0:耨 8f57:菁 8f69:蒨 8f6e:萏 8fcb:覦覩 8ffe:起 906d:都 907a:銹 90dc:靜 90f1:響 91bf:鼖 9244:蔃 "
    "92af:兙兛兝兞 92c8:鍮 92d1:瑹 9447:浧 94ca:禛 95d9:邗 9644:靝 96ed:瀞 96fc:嬨 9b76:爁 9b78:矗 9b7b:纇 "
    "9bc6:駖 9bde:釔 9bec:惞 9bf6:澶 9c42:輶 9c53:侻 9c62:營 9c68:鄄 9c6b:鷰 9c77:菏 9cbc:尐秣 9cd0:婧 9d57:輋 "
    "9d5a:筑 9dc4:拐 9ea9:恢 9eef:痹 9efd:汊 9f60:鬮 9f66:鼗 9fcb:僭 9fd8:弌 a063:蠏 a077:拎 a0d5:瑨 a0df:煢 "
    "a0e4:牐 a145:‧ a14e:﹑ a1c2:¯ a1e3:～ a1f2:⊕⊙ a241:∕﹨ a244:￥ a246:￠￡ "
    "a3c0:␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€ c6cf:廴 c6d3:无 c6d5:癶 c6d7:隶 c6de:〃仝 fa5f:倩 fa66:偽 fabd:包 "
    "fac5:卄 fad5:卿 fb48:嘅 fbb8:婷 fbf3:幵 fbf9:廐 fc4f:彘 fc6c:悤 fcb9:撐 fce2:晴 fcf1:杞 fdb7:沜渝 fdbb:港 "
    "fdf1:煮 fe52:猪 fe6f:瑜 feaa:瓩 fedd:砉"
)
"""Big5: the first two bytes of a run, and its characters, where Python's big5hkscs has others or none."""
GB18030 = (
    "a3a0:\u3000 a6d9:︐︒︑︓︔︕︖ a6ec:︗︘ a6f3:︙ a8bc:ḿ fe59:龴 fe61:龵 fe66:龶龷 fe6d:龸 fe7e:龹 fe90:龺 fea0:龻"
)
"""The same for gb18030."""


AMBIGUOUS = (b"\xa2\x41", b"\xa2\x42", b"\x8f\xa2\xb7")
"""Sequences of Big5 and EUC-JP that a codec reads wrongly, as characters that other sequences have by right."""


def decoded(data: bytes, encoding: str) -> str:
    """Decodes ``data`` with the decoder of ``encoding``, a name of the Encoding standard in lower case.

    A byte order mark is a character here: the caller removes it.
    """
    return _decoder(encoding)(data)


@functools.cache
def _decoder(encoding: str) -> Callable[[bytes], str]:
    if encoding in ("utf-8", "utf-16le", "utf-16be"):
        return lambda data: data.decode(encoding, "replace")
    if encoding == "replacement":  # encodings with which pages were attacked
        return lambda data: REPLACEMENT if data else ""
    if encoding == "iso-2022-jp":
        return _iso_2022_jp
    if encoding in MULTIPLE_BYTES:
        return MULTIPLE_BYTES[encoding]()
    table = _single_bytes(encoding)
    return lambda data: codecs.charmap_decode(data, "replace", table)[0]


def _single_bytes(encoding: str) -> str:
    """Returns the 256 characters of a single-byte encoding."""
    if encoding == "x-user-defined":
        return "".join(map(chr, range(0x80))) + "".join(map(chr, range(0xF780, 0xF800)))
    codec = PYTHON_NAMES.get(encoding, encoding)
    characters = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    for byte, character in enumerate(characters):
        if character == REPLACEMENT:
            characters[byte] = chr(byte) if 0x80 <= byte < 0xA0 else UNDEFINED
    for byte, character in SINGLE_BYTES.get(encoding, {}).items():
        characters[byte] = character
    return "".join(characters)


class _MultipleBytes:
    """A decoder of sequences of one to four bytes."""

    def __init__(self, codec: str, sequences: str, corrections: Mapping[bytes, str]) -> None:
        """``sequences`` matches one sequence beyond ASCII, valid or not. ``corrections`` are against ``codec``."""
        self._codec, self._corrections = codec, corrections
        self._sequences = re.compile(rb"[\x00-\x7f]+|" + sequences.encode("latin-1"), re.DOTALL)
        self._character = functools.lru_cache(maxsize=1 << 16)(self._uncached_character)
        read = {sequence: character for sequence in corrections if (character := self._read(sequence)) is not None}
        self._right = {
            misread: corrections[sequence] for sequence, misread in read.items() if sequence not in AMBIGUOUS
        }
        self._wrong = re.compile(f"[{''.join(self._right)}]") if self._right else None
        self._ambiguous = [sequence for sequence in AMBIGUOUS if sequence in read]

    def __call__(self, data: bytes) -> str:
        text = self._read(data)
        if text is None or any(sequence in data for sequence in self._ambiguous):
            return "".join(self._characters(data))
        return self._wrong.sub(lambda match: self._right[match[0]], text) if self._wrong else text

    def _characters(self, data: bytes) -> Iterator[str]:
        for match in self._sequences.finditer(data):
            sequence = match[0]
            yield sequence.decode("ascii") if sequence[0] < 0x80 else self._character(sequence)

    def _uncached_character(self, sequence: bytes) -> str:
        """Returns the character of ``sequence``. An ASCII byte after an invalid lead byte stands for itself."""
        character = self._corrections.get(sequence) or self._read(sequence)
        if character is not None:
            return character
        return REPLACEMENT + (chr(sequence[1]) if len(sequence) == 2 and sequence[1] < 0x80 else "")

    def _read(self, data: bytes) -> str | None:
        try:
            return data.decode(self._codec)
        except UnicodeDecodeError:
            return None


def _gb18030() -> _MultipleBytes:
    """Returns the decoder of GBK and gb18030, which is one in the standard."""
    four = r"[\x81-\xfe][0-9][\x81-\xfe][0-9]|[\x81-\xfe][0-9][\x81-\xfe]?\Z"
    halves = dict.fromkeys(map(bytes, itertools.product(range(0x81, 0xFF), b"0123456789")), REPLACEMENT)
    others = halves | {b"\x80": "€", b"\x81\x35\xf4\x37": "\ue7c7"}
    return _MultipleBytes("gb18030", four + r"|[\x81-\xfe][^0-9]|[\x80-\xff]", _runs(GB18030, 0xFF) | others)


def _big5() -> _MultipleBytes:
    return _MultipleBytes("big5hkscs", r"[\x81-\xfe].|[\x80-\xff]", _runs(BIG5, 0xA1))


def _euc_kr() -> _MultipleBytes:
    return _MultipleBytes("cp949", r"[\x81-\xfe].|[\x80-\xff]", {})


def _shift_jis() -> _MultipleBytes:
    """Returns the decoder of Shift_JIS, which is Windows' code page 932 without four bytes of Apple's."""
    not_defined = dict.fromkeys((b"\xa0", b"\xfd", b"\xfe", b"\xff"), REPLACEMENT)
    return _MultipleBytes("cp932", r"[\x81-\x9f\xe0-\xfc].|[\x80-\xff]", not_defined)


@functools.cache
def _euc_jp() -> _MultipleBytes:
    """Returns the decoder of EUC-JP, with the characters of code page 932 for JIS X 0208."""
    corrections = {b"\x8f\xa2\xb7": "～"}
    for row, cell in itertools.product(range(0x21, 0x7F), repeat=2):
        pair, character = bytes([row | 0x80, cell | 0x80]), _jis_x_0208(row, cell)
        if pair.decode("euc_jp", "replace") != character:
            corrections[pair] = character
    three = r"\x8f[\xa1-\xfe][\x80-\xff]|\x8f[\xa1-\xfe]"
    return _MultipleBytes("euc_jp", three + r"|[\x8e\x8f\xa1-\xfe].|[\x80-\xff]", corrections)


def _jis_x_0208(row: int, cell: int) -> str:
    """Returns the character of the two bytes of ISO-2022-JP, from the same character in Shift_JIS."""
    lead = (row - 0x21) // 2 + 0x81
    second = cell + (0x7E if row % 2 == 0 else 0x1F if cell < 0x60 else 0x20)
    return bytes([lead if lead < 0xA0 else lead + 0x40, second]).decode("cp932", "replace")[:1]


MULTIPLE_BYTES: dict[str, Callable[[], _MultipleBytes]] = {
    "gbk": _gb18030, "gb18030": _gb18030, "big5": _big5, "euc-kr": _euc_kr, "shift_jis": _shift_jis, "euc-jp": _euc_jp,
}  # fmt: skip


def _runs(table: str, second_range: int) -> dict[bytes, str]:
    """Returns the characters of ``table`` by their bytes. After 0x7E the second byte continues at ``second_range``."""
    characters = {}
    for run in table.split(" "):
        lead, second = bytes.fromhex(run[:4])
        for character in run[5:]:
            characters[bytes([lead, second])] = character
            second += 1 if second != 0x7E else second_range - 0x7E
    return characters


ESCAPE = re.compile(rb"\x1b(\([BJI]|\$[@B])")
"""Sequences that choose the set of characters of what follows in ISO-2022-JP."""
PAIRS = re.compile(rb"([\x21-\x7e])([\x21-\x7e]|(?=\x1b|\Z)|[^\x1b])|.", re.DOTALL)
_7_BITS = [chr(byte) if byte < 0x80 and byte not in (0x0E, 0x0F, 0x1B) else UNDEFINED for byte in range(256)]
ASCII = "".join(_7_BITS)
ROMAN = ASCII.replace("\\", "¥").replace("~", "‾")
KATAKANA = "".join(chr(0xFF61 - 0x21 + byte) if 0x21 <= byte <= 0x5F else UNDEFINED for byte in range(256))
SETS = {b"(B": ASCII, b"(J": ROMAN, b"(I": KATAKANA}


def _iso_2022_jp(data: bytes) -> str:
    """Decodes ISO-2022-JP. Of two escape sequences without a character between them the second is an error, too."""
    first, *rest = ESCAPE.split(data)
    texts = [_of_set(b"(B", first)]
    for number, (escape, part) in enumerate(zip(rest[::2], rest[1::2], strict=True)):
        follows_another = number > 0 and not rest[2 * number - 1]
        texts += [REPLACEMENT * follows_another, _of_set(escape, part)]
    return "".join(texts)


def _of_set(escape: bytes, part: bytes) -> str:
    """Decodes what follows ``escape``."""
    if escape in SETS:
        return codecs.charmap_decode(part, "replace", SETS[escape])[0]
    return "".join(
        _jis_x_0208(pair[1][0], pair[2][0]) if pair[2] and 0x21 <= pair[2][0] <= 0x7E else REPLACEMENT
        for pair in PAIRS.finditer(part)
    )
