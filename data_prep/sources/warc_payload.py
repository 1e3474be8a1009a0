"""The parts of a WARC record: its headers, the HTTP message in it with the facts of a page that it states, the body.

    record bytes ── parse ──> Parsed(headers, http=HttpHead(200, headers), body) ── payload ──> page bytes | Drop
    X-Robots-Tag: noai        facts {"robots": "noindex"}      ── with_http ──> {"robots": "noindex, noai"}

Names of headers have no case. A line that begins with a space continues the one before it (RFC 9112, section 5.2).
Directives for one robot only (``X-Robots-Tag: googlebot: noindex``) are left out, as those of meta tags are.
Sources: the robots specification of Google Search; the TDM reservation protocol of the W3C community group.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.licence_places import MENTIONED, OF_PART, OWN
from headrace.data_prep.extraction.page_facts import PageFacts
from headrace.data_prep.extraction.robots import with_directives
from headrace.data_prep.sources.body_types import content_type
from headrace.data_prep.sources.charset import sanitize
from headrace.data_prep.sources.content_codings import decoded_body

HEADER_END = re.compile(rb"\r?\n\r?\n")
FOLD = re.compile(rb"\r?\n[ \t]+")
STATUS_LINE = re.compile(rb"[\r\n]*(?:HTTP/\d{1,3}(?:\.\d{1,3})?|ICY)[ \t]+(\d{3})(?!\d)[^\r\n]*", re.IGNORECASE)
PAGES = ("response", "resource", "conversion")
"""The types of records that may be pages."""
MOST_INTERIM = 5
"""Responses of status 1xx that may come before the one that has a body."""

Headers = Mapping[str, Sequence[str]]
"""The values of each header, by its name in lower case."""


@dataclass(frozen=True)
class HttpHead:
    """The part of an HTTP response before its body. ``status`` is None without a valid status line."""

    status: int | None
    headers: Headers


@dataclass(frozen=True)
class Parsed:
    """A record. ``body`` is that of the HTTP message if there is one, else the whole block."""

    headers: Headers
    http: HttpHead | None
    body: bytes

    def header(self, name: str) -> str:
        """Returns the first value of the record's header ``name``, or ""."""
        return next(iter(self.headers.get(name, ())), "")

    @property
    def kind(self) -> str:
        """The type of the record in lower case: ``response``, ``conversion``, …"""
        return self.header("warc-type").lower()

    @property
    def cut(self) -> str:
        """Why this is only a part of what the server sent: ``length``, ``time``, …, ``segment``; "": all of it."""
        is_segment = "warc-segment-number" in self.headers
        return sanitize(self.header("warc-truncated")).lower() or "segment" * is_segment

    @property
    def content_types(self) -> Sequence[str]:
        """The values of Content-Type: of the HTTP message if there is one, else of the record."""
        return (self.http or self).headers.get("content-type", ())


def parse(data: bytes) -> Parsed:
    """Parses the record in ``data``: a header that ends in an empty line, and a block.

    The block is an HTTP message if the record's Content-Type says so, or if there is none and it begins like one. The
    block of a record that is not one of PAGES is left out.
    """
    head, start = _head(data, 0)
    headers = _headers(head.partition(b"\n")[2], "utf-8")
    parsed = Parsed(headers, None, b"")
    if parsed.kind not in PAGES:
        return parsed
    essence = content_type(parsed.content_types).essence
    if essence == "application/http" or (not essence and STATUS_LINE.match(data, start)):
        http, start = _http(data, start)
        return Parsed(headers, http, data[start:])
    return Parsed(headers, None, data[start:])


def payload(parsed: Parsed, limit_bytes: int) -> bytes | Drop:
    """Returns the bytes of the page. Drops: ``record_too_large`` (more than ``limit_bytes``), ``content_encoding``."""
    headers: Headers = parsed.http.headers if parsed.http else {}
    codings = headers.get("content-encoding", ()), headers.get("transfer-encoding", ())
    return decoded_body(parsed.body, *codings, limit_bytes)


def _http(data: bytes, start: int) -> tuple[HttpHead, int]:
    """Parses the HTTP response at ``start``; returns the offset of its body, too.

    Interim responses before it are passed over (RFC 9110, section 15.2).
    """
    for _ in range(MOST_INTERIM):
        line = STATUS_LINE.match(data, start)
        status = int(line[1]) if line else None
        head, start = _head(data, line.end() if line else start)
        if status is None or status >= 200 or not STATUS_LINE.match(data, start):
            break
    return HttpHead(status, _headers(head, "latin-1")), start


def _head(data: bytes, start: int) -> tuple[bytes, int]:
    """Returns the bytes from ``start`` to the first empty line, and the offset after it."""
    match = HEADER_END.search(data, start)
    return (data[start : match.start()], match.end()) if match else (data[start:], len(data))


def _headers(lines: bytes, codec: str) -> Headers:
    """Parses lines of ``name: value``. Others are left out."""
    headers: dict[str, list[str]] = {}
    if b"\n " in lines or b"\n\t" in lines:
        lines = FOLD.sub(b" ", lines)
    for line in lines.decode(codec, "replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().lower(), []).append(value.strip())
    return headers


LICENCE_LINK = re.compile(r"<([^>]*)>(?:[^,<]|,(?!\s*<))*;\s*rel=[\"']?[^;,\"']*\blicense\b", re.IGNORECASE)
"""A licence in the header Link (RFC 8288)."""
HEADERS = {"tdm-reservation": "tdm_reservation", "tdm-policy": "tdm_policy", "content-language": "language"}
"""Header → fact. What the page itself says counts first, but for reservations: the protocol has the header first."""


def with_http(facts: PageFacts, headers: Mapping[str, Sequence[str]], url: str) -> PageFacts:
    """Returns ``facts`` with those of ``headers``, and absolute addresses if ``url`` is that of the page."""
    facts_with_http = with_directives(facts, map(sanitize, headers.get("x-robots-tag", ())))
    linked = [sanitize(address) for value in headers.get("link", ()) for address in LICENCE_LINK.findall(value)]
    if linked:
        facts_with_http[OWN] = " ".join(dict.fromkeys([*facts.get(OWN, "").split(), *linked]))
    for header, fact in HEADERS.items():
        value = " ".join(sanitize(next(iter(headers.get(header, ())), "")).split())
        if value and (fact not in facts or fact != "language"):
            facts_with_http[fact] = value
    for fact in ("canonical", OWN, OF_PART, MENTIONED, "tdm_policy"):
        if url and fact in facts_with_http:
            facts_with_http[fact] = " ".join(_absolute(url, address) for address in facts_with_http[fact].split())
    return {fact: facts_with_http[fact] for fact in sorted(facts_with_http)}


def _absolute(url: str, address: str) -> str:
    """Returns ``address`` as it is seen from ``url``; unchanged if it is no address."""
    if "/" not in address:
        return address
    try:
        return urljoin(url, address)
    except ValueError:
        return address
