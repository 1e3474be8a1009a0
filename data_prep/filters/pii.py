"""Personally identifiable information, masked: e-mail addresses, phone numbers, public IP addresses, card numbers.

    write to ann@example.org, 4111 1111 1111 1111  ──>  write to <email>, <card number>
    metadata["masked_pii"] = {"email": 1, "card_number": 1}

A kind says where it may stand (an expression) and what makes it real (a checksum, a range, a numbering plan). The kinds
are gone through in the order of the list; what one has masked no other sees. No page is dropped.
"""

import abc
import ipaddress
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import phonenumbers
from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import AnyText, settings

Place = tuple[int, int]
"""Where something stands in a text: start, end."""

CONTEXT_CHARACTERS = 64
"""How much of what stands before a number is looked at."""


class Kind(abc.ABC):
    """Finds one kind of information. Subclasses are ``@settings`` classes with a ``type`` tag, which names the kind."""

    replacement: AnyText

    @abc.abstractmethod
    def places(self, text: str) -> Iterator[Place]:
        """Where ``text`` holds it, from left to right, without overlaps."""


@settings
class Email(Kind):
    """E-mail addresses: up to 64 letters, digits and ``._%+-``, ``@``, a domain name (RFC 5321's lengths)."""

    type: Literal["email"] = "email"
    replacement: AnyText = "<email>"
    """What stands in its place."""
    _address: ClassVar["re.Pattern[str]"] = re.compile(
        r"(?<![\w.%+/-])[\w%+-][\w.%+-]{0,63}@(?:[^\W_][\w-]{0,62}\.){1,8}"
        r"(?!(?:png|jpe?g|gif|webp|svg)\b)[^\W\d_]{2,24}(?![\w@-])"
    )
    """The end rules out names of image files: ``logo@2x.png``."""

    def places(self, text: str) -> Iterator[Place]:
        return (found.span() for found in self._address.finditer(text)) if "@" in text else iter(())


@settings
class IpAddress(Kind):
    """IP addresses that the public internet routes, version 4 and 6; private and reserved ones name nobody.

    datatrove's PIIFormatter (FineWeb) masks public ones too, of version 4 only. ``ipaddress`` knows the ranges (IANA's
    special-purpose registries); of version 6, global unicast (2000::/3) alone is in use. A number that follows
    ``version``, ``section`` or the like is none.
    """

    type: Literal["ip_address"] = "ip_address"
    replacement: AnyText = "<ip address>"
    """What stands in its place."""
    _address: ClassVar["re.Pattern[str]"] = re.compile(
        r"(?<![\w.:/-])(?:(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)|[23][0-9a-f]{3}:[0-9a-f:]{1,34}(?![\w:]))",
        re.IGNORECASE,
    )
    _numbering: ClassVar["re.Pattern[str]"] = re.compile(
        r"(?:\bv|\bver|version|release|firmware|build|section|chapter|clause|table|figure|§)\W{0,3}\Z", re.IGNORECASE
    )

    def places(self, text: str) -> Iterator[Place]:
        for found in self._address.finditer(text):
            before = text[max(0, found.start() - CONTEXT_CHARACTERS) : found.start()]
            if is_public_address(found.group()) and not self._numbering.search(before):
                yield found.span()


@settings
class CardNumber(Kind):
    """Payment card numbers: an issuer's first digits with its length (ISO/IEC 7812), and a right Luhn checksum.

    Written without separators, or in groups with one kind of separator, space or hyphen.
    """

    type: Literal["card_number"] = "card_number"
    replacement: AnyText = "<card number>"
    """What stands in its place."""
    _digits: ClassVar["re.Pattern[str]"] = re.compile(
        r"(?<![\w.,:/=+-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?|\d{4}([ -])\d{6}\2\d{4,5})"
        r"(?![\w=/-]|[.,]\d)"
    )

    def places(self, text: str) -> Iterator[Place]:
        return (found.span() for found in self._digits.finditer(text) if is_card(re.sub(r"\D", "", found.group())))


@settings
class PhoneNumber(Kind):
    """Phone numbers that their country's numbering plan knows, by Google's metadata (the package phonenumbers).

    On one line. Numbers without ``+`` are read as dialled in ``regions`` and must be in the groups that their country
    writes them in: other digits are as often an order number, a date, a size. What follows ISBN or ISSN, or is a piece
    of an address or a longer name, is none.
    """

    type: Literal["phone_number"] = "phone_number"
    replacement: AnyText = "<phone number>"
    """What stands in its place."""
    regions: tuple[str, ...] = ("US",)
    """ISO 3166-1 codes of the countries whose national numbers are recognized; none: only numbers with ``+``."""
    _candidate: ClassVar["re.Pattern[str]"] = re.compile(r"\d(?:[^\w\n]{0,4}\d){6}")
    _other: ClassVar["re.Pattern[str]"] = re.compile(
        r"(?:\bIS[BS]N\b\W*(?:1[03]\b\W*)?|\w[-=_&?]|/\S*)\Z", re.IGNORECASE
    )

    def __post_init__(self) -> None:
        for region in self.regions:
            if region not in phonenumbers.SUPPORTED_REGIONS:
                known = suggestion(region, phonenumbers.SUPPORTED_REGIONS)
                raise ConfigError("pii.kinds.phone_number.regions", f"unknown region {region!r}", known)

    def places(self, text: str) -> Iterator[Place]:
        start = 0
        for line in text.split("\n") if self._candidate.search(text) else ():
            if self._candidate.search(line):
                yield from self._in_line(line, start)
            start += len(line) + 1

    def _in_line(self, line: str, offset: int) -> Iterator[Place]:
        searches: list[tuple[str | None, int]] = [
            (region, phonenumbers.Leniency.STRICT_GROUPING) for region in self.regions
        ]
        if "+" in line:
            searches.append((None, phonenumbers.Leniency.VALID))
        found = {
            (match.start, match.end)
            for region, leniency in searches
            for match in phonenumbers.PhoneNumberMatcher(line, region, leniency)
            if not self._is_other(line[max(0, match.start - CONTEXT_CHARACTERS) : match.start], match.raw_string)
        }
        last = 0
        for start, end in sorted(found, key=lambda place: (place[0], -place[1])):
            if start >= last:
                yield offset + start, offset + end
                last = end

    def _is_other(self, before: str, number: str) -> bool:
        """Whether a valid number is written as phone numbers are not, or follows what makes it something else."""
        return number.isdigit() or number.count("/") > 1 or bool(self._other.search(before))


AnyKind = Annotated[Email | IpAddress | CardNumber | PhoneNumber, Field(discriminator="type")]


@filter_settings
class MaskPii(Filter):
    """Replaces what ``kinds`` find; ``metadata["masked_pii"]`` counts it. The URL of a page is left as it is."""

    type: Literal["pii"] = "pii"
    kinds: tuple[AnyKind, ...] = (Email(), IpAddress(), CardNumber(), PhoneNumber())
    """What is masked, in this order."""

    def judge(self, document: Document) -> Drop | None:
        for kind in self.kinds:
            places = list(kind.places(document.text))
            if places:
                document.text = masked(document.text, places, kind.replacement)
                counts = document.metadata.setdefault("masked_pii", {})
                counts[kind.type] = counts.get(kind.type, 0) + len(places)
        return None


def masked(text: str, places: list[Place], replacement: str) -> str:
    """``text`` with ``replacement`` at ``places``."""
    ends = [0, *(end for _, end in places)]
    starts = [*(start for start, _ in places), len(text)]
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
    """Whether an issuer gives numbers that begin and are as long as ``digits``, and the checksum is right."""
    return luhn(digits) and any(
        len(digits) in lengths and first <= int(digits[: len(str(first))]) <= last for first, last, lengths in ISSUERS
    )


def luhn(digits: str) -> bool:
    """Whether ``digits`` end in their check digit (ISO/IEC 7812-1, annex B)."""
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[::2]) + sum(sum(divmod(2 * value, 10)) for value in values[1::2])) % 10 == 0


ISSUERS = (
    (4, 4, (13, 16, 19)),  # Visa
    (51, 55, (16,)),  # Mastercard
    (2221, 2720, (16,)),
    (34, 34, (15,)),  # American Express
    (37, 37, (15,)),
    (300, 305, (14,)),  # Diners Club
    (36, 36, (14,)),
    (38, 39, (14,)),
    (6011, 6011, (16, 19)),  # Discover
    (644, 659, (16, 19)),
    (3528, 3589, (16, 19)),  # JCB
    (62, 62, (16, 17, 18, 19)),  # UnionPay
)
"""First digits from … to …, and the lengths that such numbers have."""
