"""Filter that masks personally identifiable information: e-mail addresses, phone, IP and card numbers.

    write to ann@example.org, 4111 1111 1111 1111  ──>  write to <email>, <card number>
    metadata["masked_pii"] = {"email": 1, "card_number": 1}

Each kind finds candidates by a regular expression and verifies them by a checksum, a range or a numbering plan. The
kinds are applied in the order of the list, so later kinds see the replacements of earlier ones. No page is dropped.
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
from headrace.data_prep.filters.pii_patterns import (
    DOTS,
    HEX,
    HYPHENS,
    JOINED,
    NAME,
    NEARBY,
    PHONE_FORMS,
    SPACES,
    WORD_HYPHENS,
    email_addresses,
    is_numbering,
    plain_number,
)
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import AnyText, TextList, settings

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
        return email_addresses(text)


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
        rf"\d(?<![{NAME}/]\d)(?:(?<=[Ii][Pp]:\d)|(?<![{NAME}:/][.\uff0e:{WORD_HYPHENS}]\d))"
        rf"(?:\d{{0,2}}([{DOTS}])\d{{1,3}}\1\d{{1,3}}\1\d{{1,3}}(?![{NAME}]|[{WORD_HYPHENS}](?![^\W{NAME}])|(?:\.|\1)\d)"
        rf"|(?<=[23\uff12\uff13])[{HEX}]{{3}}([:\uff1a])(?:[{HEX}]|\2){{1,34}}(?![{NAME}]|\2))"
    )

    def matches(self, text: str) -> Iterator[MatchedRange]:
        last_version = None
        for address in self._address.finditer(text):
            start, end = address.span()
            plain = plain_number(address.group())
            if is_public_address(plain):
                follows = last_version is not None and JOINED.fullmatch(text, last_version, start)
                if address[1] and (follows or is_numbering(text, start, end, [int(part) for part in plain.split(".")])):
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
        rf"\d(?<![017-9])(?!(?<=2)[01])(?<![{NAME}/=+]\d)(?<![{NAME}:/][.,:\uff0e\uff0c{WORD_HYPHENS}]\d)"
        rf"(?:\d{{12,18}}|\d{{3}}(?:{_groups}))"
        rf"(?![{NAME}=/]|[{WORD_HYPHENS}](?![^\W{NAME}])|[.,\uff0e\uff0c]\d)"
    )

    def matches(self, text: str) -> Iterator[MatchedRange]:
        for number in self._digits.finditer(text):
            start, end = number.span()
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
        rf"(?:(?<![{NAME}])IS[BS]N(?![^\W\d])\W*(?:1[03]\b\W*)?|[{NAME}][-=_&?]|/[!-~]*)\Z", re.IGNORECASE
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
        searches: list[tuple[str | None, int]] = [
            (region, phonenumbers.Leniency.STRICT_GROUPING) for region in self.regions
        ]
        if "+" in line:
            searches.append((None, phonenumbers.Leniency.VALID))
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
    revision: ClassVar[int] = 1
    """In revision 0, addresses and numbers that touch letters of other scripts were missed or swallowed their words."""
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
"""Lowest prefix, highest prefix, and the possible lengths of such numbers."""
