"""Filter that masks personally identifiable information: e-mail addresses, phone, IP and card numbers.

    write to ann@example.org, 4111 1111 1111 1111  ──>  write to <email>, <card number>
    metadata["masked_pii"] = {"email": 1, "card_number": 1}

Each kind finds candidates by a regular expression and verifies them by a checksum, a range or a numbering plan. The
kinds are applied in their order, so later ones see the replacements of earlier ones. Patterns are for all scripts:

    联系kefu@example.cn我们        an address in Latin letters ends where another script begins
    用户@例子.中国 (RFC 6531)       addresses of other scripts, one script a label
"""

import abc
import functools
import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal
from unicodedata import category, decimal, normalize

import numpy as np
import phonenumbers
from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.text.segments import JOINERS, alone_class, ranges_of
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import AnyText, TextList, settings

LATIN = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0300-\u036f\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff"
    "\uff21-\uff3a\uff41-\uff5a"
)
"""Latin letters, full-width ones and diacritics among them, as the inside of a character class."""
NAME = rf"{LATIN}\d_"
"""Characters of identifiers: a number that touches one is a part of it. Letters of other scripts are words that
touch the number, as phonenumbers decides, too."""
SPACES = " \u00a0\u1680\u2000-\u200b\u202f\u205f\u2060\u3000"
HYPHENS = "\\-\u00ad\u058a\u05be\u1806\u2010-\u2015\u2212\u30fc\ufe58\ufe63\uff0d"
DOTS = ".\u06d4\u2024\u3002\ufe52\uff0e\uff61"
"""Spaces, hyphens (with dashes, minus, long mark of Katakana) and full stops of Unicode, for the class of each."""
WORD_HYPHENS = "\\-\u2010\u2011\ufe63\uff0d"
"""Hyphens that join words. A dash separates them."""
AT = "@\ufe6b\uff20"
HEX = "0-9A-Fa-f\uff10-\uff19\uff21-\uff26\uff41-\uff46"
PHONE_FORMS = (
    dict.fromkeys([0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F], " ")
    | dict.fromkeys([0x058A, 0x05BE, 0x1806, 0xFE58, 0xFE63], "-")
    | dict.fromkeys([0x06D4, 0x2024, 0xFE52], ".")
    | {code: chr(code - 0xFEE0) for code in (0xFF0B, *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}
)
"""The spaces, hyphens, dots and full-width letters that phonenumbers does not know, and those that it knows."""
LOCAL_MARKS = ".%+\\-\uff0e\uff05\uff0b\uff0d\uff3f"
CAPITALS = "\u0391-\u03ab\u0400-\u042f\u0531-\u0556"
"""Greek, Cyrillic and Armenian capitals: after a dot they begin a sentence."""
UNBROKEN = (
    "\u0f00-\u0fff\u1100-\u11ff\u3100-\u318f\ua000-\ua4cf\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff"
    "\uff66-\uffdc"
)
"""Further scripts whose words touch their neighbours: Tibetan, Bopomofo, Yi, Burmese's extensions, and Hangul with its
particles."""
LONGEST_LOCAL, LONGEST_UNBROKEN = 64, 12
"""Characters of a local part (RFC 5321), and in such a script: there, a longer run before ``@`` is a clause."""
UNBROKEN_DOMAINS = (
    "中国|中國|公司|网络|網絡|网址|网站|网店|在线|商城|商店|商标|集团|公益|政务|政府|机构|组织机构|中文网|我爱你|手机|"
    "游戏|娱乐|新闻|信息|企业|餐厅|购物|移动|广东|佛山|广告|香港|台灣|台湾|澳門|新加坡|コム|みんな|ストア|セール|クラウド|"
    "ポイント|한국|닷컴|닷넷|삼성|ไทย|คอม|ລາວ"
)
"""Top-level domains in these scripts (IANA's root zone), by which a domain name ends inside a run of letters."""

NEARBY = 64
"""Characters before and after a number that are examined."""


@functools.cache
def email_patterns() -> "tuple[re.Pattern[str], re.Pattern[str]]":
    """Builds the expressions that match a local part with its ``@``, and the domain name after it.

    Local part, labels and top-level domain are each of Latin letters, of other letters (``spaced``), or of scripts
    whose words touch their neighbours (``unbroken``).
    """
    unbroken = alone_class() + UNBROKEN
    is_other = re.compile(f"[{LATIN}{unbroken}]").match
    others = (code for code in range(0x80, 0x10000) if category(chr(code))[0] in "LM" and not is_other(chr(code)))
    spaced = ranges_of(np.fromiter(others, np.intp)) + JOINERS
    locals_ = [f"{_not_after(NAME)}[{NAME}][{NAME}{LOCAL_MARKS}]{{0,{LONGEST_LOCAL - 1}}}"]
    labels = [f"[{LATIN}\\d][{NAME}\\-]{{0,62}}"]
    for letters, longest in ((spaced, LONGEST_LOCAL), (unbroken, LONGEST_UNBROKEN)):
        rest = f"[{letters}\\d_{LOCAL_MARKS}]{{0,{longest - 1}}}(?:(?<=[{letters}])|(?=[{AT}][{letters}]))"
        locals_.append(f"{_not_after(letters)}[{letters}]{rest}")
        labels.append(f"[{letters}][{letters}\\d\\-]{{0,62}}")
    after = f"(?![{NAME}{AT}]|-[{NAME}])"
    top_levels = (
        f"(?i:xn-(?:-[a-z\\d]{{1,59}}){{1,3}}){after}",
        f"(?<![\u3002\uff61])(?!(?i:png|jpe?g|gif|webp|svg)(?![{NAME}]))[{LATIN}]{{2,24}}{after}",
        f"(?<=[\u3002\uff61])(?:com|net|org|edu|gov|info|[a-z]{{2}}){after}",
        f"(?![{CAPITALS}])[{spaced}]{{2,24}}(?![{spaced}\\d_{AT}])",
        f"(?:{UNBROKEN_DOMAINS})(?![{AT}])",
        f"(?<=[{unbroken}].)[{unbroken}]{{2,6}}(?![{unbroken}{AT}])",
    )
    local, label, top_level = map("|".join, (locals_, labels, top_levels))
    domain = f"(?:{label})([{DOTS}])(?:(?:{label})\\1){{0,7}}(?:{top_level})"
    return re.compile(f"(?:{local})[{AT}]"), re.compile(domain)


def _not_after(letters: str) -> str:
    """Returns the condition that no path and no local part of such ``letters`` goes on here."""
    return f"(?<![/{letters}])(?<![/{letters}][{LOCAL_MARKS}])"


NUMBERED = (
    rf"(?<![{LATIN}])(?:v|ver|vers[^\W\d_]*|wersj\w*|verz\w*|phiên bản|sürüm\w*|release[sd]?|build|revision|patch|"
    r"hotfix|(?:up|upgra)(?:dated?|ded?) to|since|(?:new|fixed|introduced|added|changes?|changed|deprecated|removed) "
    r"in|oid|player|drivers?|chrome|firefox|section|chapter|clause|table|figure|appendix|abschnitt|kapitel|cap[ií]tulo|"
    r"secci[oó]n|se[cç]?ção|chapitre|sezione|capitolo|rozdział)|version|firmware|§|(?<!\w)[п제]|верс\w*|έκδοση|раздел\w*|"
    r"глав\w*|пункт\w*|إصدار|نسخه|نسخة|גרסה|גרסת|संस्करण|เวอร์ชัน|เวอร์ชั่น|รุ่น|版本|バージョン|버전|第|章|節|节"
)
"""Words before the number of a version or of a section."""
VERSION_BEFORE = re.compile(
    rf"(?:{NUMBERED})\W{{0,4}}\Z|(?:^|[\"'(,])(?:[=<>~!]=|~>|\^)\s?\Z"
    r"|[^\s\d](?<!addr)(?<!ip)(?<!host)(?<!src)(?<!dst)\s?(?:[=<>~!]=|~>)\s?\Z",
    re.IGNORECASE | re.MULTILINE,
)
COORDINATE = re.compile(rf"[{NAME}][:{WORD_HYPHENS}](?<!ip:)(?<!addr:)(?<!host:)(?<!server:)\Z", re.IGNORECASE)
RANGE, PART = re.compile(rf"[{WORD_HYPHENS}]\d"), re.compile(f"[^{WORD_HYPHENS}]+")
"""Before and after versions without spaces: ``core:2.9.10.8``, ``1.2.3.4-1.2.3.9``."""
VERSION_AFTER = re.compile(
    r"\s?(?:versi|release|beta\b|alpha\b|rc\d|版|バージョン|버전|верси|เวอร์ชัน)|\) [\w-]+; urgency="
    r"|\.(?:tar|zip|exe|deb|rpm|jar|msi|dll|whl|gem|apk|t[gx]z)\b",
    re.IGNORECASE,
)
HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}|={1,6})[ \t](?:(?!host|server|dns|ping|addr|resolver|\bip)[^\n])*\Z",
    re.IGNORECASE | re.MULTILINE,
)
LINE_START = re.compile(r"^[ \t]*([*•-][ \t]+)?[*_`]{0,2}([\[(]?)\Z", re.MULTILINE)
DATED = re.compile(
    r"[\])*_`:]{0,4}[ \t]*[-–—/|:,(]*[ \t]*(?:\d{4}[-./年]\s?\d\d?|\d\d?[-./]\d\d?[-./]\d{4}|"
    r"\d\d?\.? [^\W\d_]{3,9}\.? \d{4}|[^\W\d_]{3,9}\.? \d\d?, \d{4})(?![-./\d日]*[T ]+\d\d?:)"
)
"""A date after the number of a release, without a time, which a line of a log has."""
ALONE = re.compile(r"[^\n]{0,40}\n(?:={3,}|-{3,}|~{3,}|\^{3,})[ \t]*$|:?[ \t]*\n\s{0,8}[*+•-][ \t]", re.MULTILINE)
"""A rule, or a list of changes, below the number of a release that has a line of its own."""
TITLE = re.compile(r"[.)]?[ \t\u3000]+(?=[^\W\d_])([^\n]{1,80})$", re.MULTILINE)
END_MARKS = (".", "!", "?", "。", "！", "？", "।")
JOINED = re.compile(r"[ \t]*(?:[,、&/–—→-]|->|to|and|or|und|bis|et|à|y|e|и|до|和|至|到|から)[ \t]*")
"""Between two versions of one statement."""
SMALL, SMALLEST = 100, 32
"""The parts of most versions, and those of sections, are below. Of random addresses one in 38, or in 3,700, is."""


def is_numbering(text: str, start: int, end: int, largest: int) -> bool:
    """Whether four numbers, ``start`` to ``end`` in ``text``, are a version or a section, as what is around shows."""
    before, after = text[max(0, start - NEARBY) : start], text[end : end + 2 * NEARBY]
    is_small = largest < SMALL
    is_joined = is_small and (COORDINATE.search(before) or RANGE.match(after))
    if is_joined or VERSION_BEFORE.search(before) or VERSION_AFTER.match(after):
        return True
    if "\n" not in before and start > NEARBY:
        return False
    if HEADING.search(before):
        return is_small or before.endswith("[")
    line = LINE_START.search(before)
    if line is None or not is_small:
        return False
    if any(line.groups()):
        return bool(DATED.match(after))
    title = TITLE.match(after) if largest < SMALLEST else None
    is_title = title is not None and not title[1][0].islower() and not title[1].rstrip().endswith(END_MARKS)
    return is_title or bool(DATED.match(after) or ALONE.match(after))


URL = re.compile(r"://[^\s\"'<>,]*:\Z")
MatchedRange = tuple[int, int]
"""Start and end of a match in the text."""


class PiiKind(abc.ABC):
    """Finds one kind of information. Subclasses are ``@settings`` classes; their ``type`` tag names the kind."""

    replacement: AnyText

    @abc.abstractmethod
    def matches(self, text: str) -> Iterator[MatchedRange]:
        """Yields the matches in ``text`` from left to right, without overlaps."""


@settings
class Email(PiiKind):
    """E-mail addresses: up to 64 letters, digits and ``._%+-``, then ``@`` and a domain name (RFC 5321's lengths).

    Each part is of one script, other than Latin too (RFC 6531), so that an address may touch words of another script.
    """

    type: Literal["email"] = "email"
    replacement: AnyText = "<email>"
    """Text that replaces a match."""

    def matches(self, text: str) -> Iterator[MatchedRange]:
        start = 0
        for at in re.finditer(f"[{AT}]", text):
            local_part, domain = email_patterns()
            cut = start + 1 if start and text[start] == "/" and text[start - 1] not in AT else 0  # after an address
            piece = text[cut : at.end() + 1] if cut else text
            local = local_part.search(piece, max(0, start - cut, at.start() - cut - LONGEST_LOCAL), at.end() + 1 - cut)
            address = local and domain.match(text, at.end())
            start = address.end() if address else at.end()
            if local and address:
                yield cut + local.start(), start


@settings
class IpAddress(PiiKind):
    """Public IP addresses, versions 4 and 6. Private and reserved addresses identify no person and are kept.

    datatrove's PIIFormatter (FineWeb) masks public addresses of version 4. Python's ``ipaddress`` has the ranges of
    IANA's special-purpose registries. Of version 6 only global unicast (2000::/3) is in use. The number of a version or
    of a section (``is_numbering``) is not an address.
    """

    type: Literal["ip_address"] = "ip_address"
    replacement: AnyText = "<ip address>"
    """Text that replaces a match."""
    _address: ClassVar["re.Pattern[str]"] = re.compile(
        rf"\d(?<![{NAME}]\d)(?<![^/]/\d)(?<![{NAME}:/][.\uff0e{WORD_HYPHENS}]\d)(?:\d{{0,2}}([{DOTS}])\d{{1,3}}"
        rf"(?:\1\d{{1,3}}){{2}}(?:[{WORD_HYPHENS}]\d{{1,3}}(?:\1\d{{1,3}}){{3}})?"
        rf"(?![{NAME}]|[{WORD_HYPHENS}](?![^\W{NAME}])|(?:\.|\1)\d)"
        rf"|(?<=[23\uff12\uff13])(?<![{NAME}:/]:.)[{HEX}]{{3}}([:\uff1a])(?:[{HEX}]|\2){{0,33}}(?:[{HEX}]|\2\2)"
        rf"(?![{NAME}]|\2(?:[{NAME}]|\2)))"
    )

    def matches(self, text: str) -> Iterator[MatchedRange]:
        last_version = None
        for address in (part for both in self._address.finditer(text) for part in PART.finditer(text, *both.span())):
            start, end = address.span()
            plain = "".join(
                "." if mark in DOTS else str(decimal(mark, "")) or normalize("NFKC", mark) for mark in address[0]
            )
            if is_public_address(plain):
                follows = last_version is not None and JOINED.fullmatch(text, last_version, start)
                if "." in plain and (follows or is_numbering(text, start, end, max(map(int, plain.split("."))))):
                    last_version = end
                else:
                    yield start, end


@settings
class CardNumber(PiiKind):
    """Payment card numbers with the prefix and length of an issuer (ISO/IEC 7812) and a correct Luhn checksum.

    The digits have no separators, or form groups separated by spaces only or by hyphens only (Unicode's). No issuer has
    numbers that begin with 0, 1, 7, 8, 9, 20 or 21: a group such as a year may stand before the number.
    """

    type: Literal["card_number"] = "card_number"
    replacement: AnyText = "<card number>"
    """Text that replaces a match."""
    _groups: ClassVar[str] = "|".join(
        rf"(?:[{mark}]\d{{4}}){{3}}([{mark}]\d{{1,3}})?|[{mark}]\d{{6}}[{mark}]\d{{4,5}}" for mark in (SPACES, HYPHENS)
    )
    _digits: ClassVar["re.Pattern[str]"] = re.compile(
        rf"\d(?<![017-9])(?!(?<=2)[01])(?<![{NAME}/=+]\d)(?<![{NAME}:/][.\uff0e{WORD_HYPHENS}]\d)"
        rf"(?<!(?<!\d{{3}})\d[,\uff0c]\d)(?:\d{{12,18}}|\d{{3}}(?:{_groups}))"
        rf"(?![{NAME}=/]|[{WORD_HYPHENS}](?![^\W{NAME}])|[.\uff0e]\d|[,\uff0c]\d{{1,2}}(?![\d/,]))"
    )

    def matches(self, text: str) -> Iterator[MatchedRange]:
        for number in self._digits.finditer(text):
            start, end = number.span()
            if URL.search(text, max(0, start - NEARBY), start):
                continue
            last_space = number.start(1)  # after it may stand another number of the sentence
            for stop in (end, last_space) if last_space >= 0 else (end,):
                if is_card(re.sub(r"\D", "", text[start:stop])):
                    yield start, stop
                    break


@settings
class PhoneNumber(PiiKind):
    """Phone numbers that are valid in the numbering plan of their country.

    The plans are Google's metadata in the package phonenumbers. A number is on one line. Numbers without ``+`` are read
    as dialled in ``regions``. They must have the digit groups of their country, because other digits may be an order
    number, a date or a size. Numbers after ISBN or ISSN, and parts of an address or of a longer name, are not phone
    numbers.
    """

    type: Literal["phone_number"] = "phone_number"
    replacement: AnyText = "<phone number>"
    """Text that replaces a match."""
    regions: TextList = ("US",)
    """ISO 3166-1 codes of the countries whose national numbers are recognized; empty: only numbers with ``+``."""
    _candidate: ClassVar["re.Pattern[str]"] = re.compile(r"\d(?:(?:[^\w\n]|\u30fc){0,4}\d){6}")
    _other: ClassVar["re.Pattern[str]"] = re.compile(
        rf"(?i:(?<![{NAME}])IS[BS]N(?![^\W\d])\W*(?:1[03]\b\W*)?|[{NAME}][-=_&?]|(?:/|\w\.\w[!-~]*)/[!-~]*|/[!-9;-~]+"
        r"|(?<!\d{4})/)\Z"
    )

    def __post_init__(self) -> None:
        for region in self.regions:
            if region not in phonenumbers.SUPPORTED_REGIONS:
                known = suggestion(region, phonenumbers.SUPPORTED_REGIONS)
                raise ConfigError("pii.kinds.phone_number.regions", f"unknown region {region!r}", known)

    def matches(self, text: str) -> Iterator[MatchedRange]:
        start = 0
        for line in text.split("\n") if self._candidate.search(text) else ():
            if self._candidate.search(line):
                yield from self._in_line(line if line.isascii() else line.translate(PHONE_FORMS), start)
            start += len(line) + 1

    def _in_line(self, line: str, offset: int) -> Iterator[MatchedRange]:
        """Yields the matches of a line that begins at ``offset`` in the text."""
        strict, valid = phonenumbers.Leniency.STRICT_GROUPING, phonenumbers.Leniency.VALID
        searches: list[tuple[str | None, int]] = [(region, strict) for region in self.regions]
        searches += [(None, valid)] * ("+" in line)
        candidates = {
            (match.start, match.end)
            for region, leniency in searches
            for match in phonenumbers.PhoneNumberMatcher(line, region, leniency)
            if not self._is_other(line[max(0, match.start - NEARBY) : match.start], match.raw_string)
        }
        last_end = 0
        for start, end in sorted(candidates, key=lambda match: (match[0], -match[1])):
            if start >= last_end:
                yield offset + start, offset + end
                last_end = end

    def _is_other(self, before: str, number: str) -> bool:
        """Whether the form of a valid ``number``, or the text ``before`` it, shows that it is not a phone number."""
        return number.isdigit() or number.count("/") > 1 or bool(self._other.search(before))


AnyPiiKind = Annotated[Email | IpAddress | CardNumber | PhoneNumber, Field(discriminator="type")]


@filter_settings
class MaskPii(Filter):
    """Replaces the matches of ``kinds`` and counts them in ``metadata["masked_pii"]``. URLs in metadata are kept."""

    type: Literal["pii"] = "pii"
    revision: ClassVar[int] = 2
    """In revision 1, what follows a colon, a comma or an address was missed; in revision 0, what touches letters."""
    kinds: tuple[AnyPiiKind, ...] = (Email(), IpAddress(), CardNumber(), PhoneNumber())
    """Kinds of information to mask, in this order."""

    def judge(self, document: Document) -> Drop | None:
        for kind in self.kinds:
            matches = list(kind.matches(document.text))
            if matches:
                document.text = mask(document.text, matches, kind.replacement)
                counts = document.metadata.setdefault("masked_pii", {})
                counts[kind.type] = counts.get(kind.type, 0) + len(matches)
        return None


def mask(text: str, matches: list[MatchedRange], replacement: str) -> str:
    """Returns ``text`` with ``replacement`` in place of ``matches``."""
    ends = [0, *(end for _, end in matches)]
    starts = [*(start for start, _ in matches), len(text)]
    return replacement.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def is_public_address(text: str) -> bool:
    """Whether ``text`` is an IP address of the public internet."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    is_unicast = address.version == 4 or int(address) >> 125 == 1
    return address.is_global and not address.is_multicast and is_unicast


def is_card(digits: str) -> bool:
    """Whether ``digits`` have the prefix and length of an issuer and a correct checksum."""
    return luhn(digits) and any(
        len(digits) in lengths and first <= int(digits[: len(str(first))]) <= last for first, last, lengths in ISSUERS
    )


def luhn(digits: str) -> bool:
    """Whether the last of ``digits`` is their check digit (ISO/IEC 7812-1, annex B)."""
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[::2]) + sum(sum(divmod(2 * value, 10)) for value in values[1::2])) % 10 == 0


ISSUERS = (
    *((4, 4, (13, 16, 19)), (51, 55, (16,)), (2221, 2720, (16,))),  # Visa, Mastercard
    *((34, 34, (15,)), (37, 37, (15,))),  # American Express
    *((300, 305, (14,)), (36, 36, (14,)), (38, 39, (14,))),  # Diners Club
    *((6011, 6011, (16, 19)), (644, 659, (16, 19)), (3528, 3589, (16, 19))),  # Discover, JCB
    (62, 62, (16, 17, 18, 19)),  # UnionPay
)
"""Lowest prefix, highest prefix, and the possible lengths of such numbers."""
