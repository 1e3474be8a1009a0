"""Tags that state facts of the page, and the names by which they do.

    <meta property="og:title" content="Mills"> ──> fact "og:title": the bytes of "Mills"

Sources: HTML standard 4.2.5 (meta names), ogp.me (Open Graph), dublincore.org (DCMI terms), schema.org, the names that
Google Scholar reads (citation_…), RFC 4946 (rel=license), ccREL (licences in RDFa), the TDM reservation protocol of the
W3C community group, the robots specification of Google Search, DeviantArt's noai and noimageai.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.markup import (
    begins_with,
    hash_table,
    is_letter,
    is_space,
    lower_hash,
    name_hash,
    number_of,
    numbers,
)
from headrace.data_prep.extraction.parsing.scan import F, R, S, Scan, T
from headrace.data_prep.kernel import kernel_in_place

FACT_NAMES = {
    "title": ("og:title", "citation_title", "title"),
    "language": ("lang", "content-language"),
    "canonical": ("canonical", "og:url"),
    "site": ("og:site_name", "application-name"),
    "date": (
        "article:published_time", "datepublished", "citation_publication_date", "citation_date", "dc.date.issued",
        "dcterms.issued", "dc.date", "dcterms.date", "date", "parsely-pub-date", "pubdate", "datetime",
    ),
    "author": ("author", "citation_author", "dc.creator", "dcterms.creator", "parsely-author", "article:author"),
    "licence": (
        "license", "dcterms.license", "dcterms:license", "dc.license", "dct:license", "cc:license", "xhv:license",
        "schema:license", "dc.rights", "dcterms.rights", "cc",
    ),
    "robots": ("robots",),
    "robots_by_agent": ("x-robots-tag", "(agent)"),
    "tdm_reservation": ("tdm-reservation",),
    "tdm_policy": ("tdm-policy",),
    "type": ("og:type",),
    "description": ("description", "og:description"),
}  # fmt: skip
"""Fact → names that state it, the most trusted one first: values of ``name``, ``property``, ``itemprop`` and
``http-equiv`` of meta, and of ``rel`` of links; ``lang`` of html and ``datetime`` of time. ``title`` is the element,
``cc`` a link to a licence of Creative Commons, ``(agent)`` a meta with another name and directives for robots."""
JSON_LD, CC_LINK, AGENT, SUBJECT_TYPE, SUBJECT = "json-ld", "cc", "(agent)", "(type)", "(subject)"
"""A script of linked data, the names of such a link and of such a meta, and what microdata and RDFa in an element are
about: its types (``itemtype``, ``typeof``), its address (``about``)."""
DIRECTIVES = (
    "noindex", "nofollow", "noarchive", "nosnippet", "noimageindex", "noimageai", "noai", "notranslate", "nocache",
    "noodp", "noydir", "none", "max-snippet", "max-image-preview", "max-video-preview", "unavailable_after",
    "indexifembedded", "index", "follow", "all",
)  # fmt: skip
"""Directives for robots."""
KINDS = (*(name for names in FACT_NAMES.values() for name in names), JSON_LD, SUBJECT_TYPE, SUBJECT)
KIND = {name: number for number, name in enumerate(KINDS, 1)}
"""The number of each name."""


ITEMPROP, HREF, TYPE = map(name_hash, (b"itemprop", b"href", b"type"))
NAME_NAME, PROPERTY, HTTP_EQUIV, CONTENT = map(name_hash, (b"name", b"property", b"http-equiv", b"content"))
REL, LANG, DATETIME = map(name_hash, (b"rel", b"lang", b"datetime"))
FACT_ELEMENTS = numbers("a html link meta script time")
"""Elements whose tags state facts."""
A, HTML_NAME, LINK, META, SCRIPT, TIME = FACT_ELEMENTS

KIND_HASHES, KIND_NUMBERS = hash_table({name.encode(): number for name, number in KIND.items()}, 256)
TITLE_KIND, LANG_KIND, DATETIME_KIND, JSON_LD_KIND, CC_KIND = map(
    KIND.__getitem__, ("title", "lang", "datetime", JSON_LD, CC_LINK)
)
AGENT_KIND, TYPE_KIND, SUBJECT_KIND = KIND[AGENT], KIND[SUBJECT_TYPE], KIND[SUBJECT]
LICENCE_KIND = KIND[FACT_NAMES["licence"][0]]
"""The first kind of licences; the others follow, up to CC_KIND."""
DIRECTIVE_HASHES, DIRECTIVE_NUMBERS = hash_table({name.encode(): 1 for name in DIRECTIVES}, 64)


@kernel_in_place
def understand_fact(scan: Scan, name: int, tag: NDArray[np.int64]) -> None:
    """Notes which fact the tag states, or what it says of it."""
    page, start, end, element = scan.page, tag[T.value_start], tag[T.value_end], tag[T.name]
    is_value = False
    if element == META:
        is_value = name == CONTENT
        if name in (NAME_NAME, PROPERTY, HTTP_EQUIV, ITEMPROP) and tag[T.fact] in (0, AGENT_KIND):
            tag[T.fact] = number_of(lower_hash(page, start, end), KIND_HASHES, KIND_NUMBERS) or tag[T.fact]
        elif is_value and not tag[T.fact] and _begins_with_directive(page, start, end):
            tag[T.fact] = AGENT_KIND
    elif element == HTML_NAME:
        is_value = name == LANG
        if is_value:
            tag[T.fact] = LANG_KIND
    elif element == TIME:
        is_value = name == DATETIME
        if name == ITEMPROP:
            tag[T.fact] = number_of(lower_hash(page, start, end), KIND_HASHES, KIND_NUMBERS)
        elif is_value and not tag[T.fact]:
            tag[T.fact] = DATETIME_KIND
    elif element == SCRIPT:
        if name == TYPE and begins_with(page, start, b"application/ld+json"):
            tag[T.fact] = JSON_LD_KIND
    elif name == REL:
        tag[T.fact] = _first_kind(page, start, end) or tag[T.fact]
    elif name in (ITEMPROP, PROPERTY):
        kind = _first_kind(page, start, end)
        tag[T.fact] = kind if LICENCE_KIND <= kind <= CC_KIND else tag[T.fact]
    elif name == HREF:
        is_value = True
        if element == A and not tag[T.fact] and _is_cc_licence(page, start, end):
            tag[T.fact] = CC_KIND
    if is_value:
        tag[T.fact_start], tag[T.fact_end] = start, end


@kernel_in_place
def _first_kind(page: NDArray[np.uint8], start: int, end: int) -> int:
    """Returns the first of the words that is a kind of fact; 0 if none is."""
    word = start
    for at in range(start, end + 1):
        if at == end or is_space(page[at]):
            kind = number_of(lower_hash(page, word, at), KIND_HASHES, KIND_NUMBERS)
            if kind > 0:
                return kind
            word = at + 1
    return 0


@kernel_in_place
def _begins_with_directive(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether the first word is a directive for robots."""
    while start < end and is_space(page[start]):
        start += 1
    word = start
    while word < end and (is_letter(page[word]) or page[word] == 0x2D or page[word] == 0x5F):
        word += 1
    return number_of(lower_hash(page, start, word), DIRECTIVE_HASHES, DIRECTIVE_NUMBERS) > 0


@kernel_in_place
def _is_cc_licence(page: NDArray[np.uint8], start: int, end: int) -> bool:
    """Whether an address is that of a licence, or a dedication, of Creative Commons."""
    while start < end and page[start] != 0x2F:
        start += 1
    start += 2
    if begins_with(page, start, b"www."):
        start += 4
    return begins_with(page, start, b"creativecommons.org/licenses/") or begins_with(
        page, start, b"creativecommons.org/publicdomain/"
    )


@kernel_in_place
def note_fact(scan: Scan, kind: int, start: int, end: int) -> None:
    """Adds a fact of the page, which the bytes from ``start`` to ``end`` state."""
    number = min(scan.registers[R.facts], scan.records.shape[0] - 1)  # a tag may have many attributes
    scan.records[number, F.kind] = kind
    scan.records[number, F.start], scan.records[number, F.end] = start, end
    scan.records[number, F.element] = scan.stack[scan.registers[R.depth] - 1, S.element]
    scan.registers[R.facts] = number + 1


@kernel_in_place
def note_subject(scan: Scan, is_address: bool, start: int, end: int) -> None:
    """Notes the types, or the address, that microdata or RDFa in the element that comes next is about."""
    note_fact(scan, SUBJECT_KIND if is_address else TYPE_KIND, start, end)
    scan.records[scan.registers[R.facts] - 1, F.element] = scan.registers[R.elements]
