"""Facts of a page: what its tags and its linked data say of it, and directives for robots.

    <html lang=en><title>Mills</title><a rel=license href=…> ── read ──> Stated ── facts_of ──> {"language": "en", …}
                                                                             └─ summaries ──> title, description, texts
    "noindex, NoAI", "GPTBot: noarchive, nofollow"  ── with_directives ──>
        {"robots": "noindex, noai", "robots_by_agent": "gptbot: noarchive, nofollow"}

Where several names state a fact, the most trusted one counts. Linked data (JSON-LD, schema.org) comes after all names
but the times in the text. A licence is the page's, or that of a part, or is only mentioned (licence_places.py).
Directives for one robot are a fact of their own.
Sources: HTML standard 4.2.5 (meta names), ogp.me (Open Graph), dublincore.org (DCMI terms), schema.org, the names that
Google Scholar reads (citation_…), RFC 4946 (rel=license), ccREL (licences in RDFa), the TDM reservation protocol of the
W3C community group, the robots specification of Google Search (its header X-Robots-Tag may name a robot before its
directives), DeviantArt's noai and noimageai.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from headrace.data_prep.extraction.licence_places import (
    CC_LINK,
    MENTIONED,
    OF_PART,
    OWN,
    LicencePlaces,
    is_of_part,
    is_page,
    linked_licences,
)
from headrace.data_prep.extraction.markup import (
    attribute_text,
    begins_with,
    hash_table,
    is_letter,
    is_space,
    lower_hash,
    name_hash,
    number_of,
    numbers,
)
from headrace.data_prep.extraction.scan import F, R, S, Scan, T
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
JSON_LD, AGENT, SUBJECT_TYPE, SUBJECT = "json-ld", "(agent)", "(type)", "(subject)"
"""A script of linked data, the name of such a meta, and what microdata and RDFa in an element are
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


ALL, BY_AGENT = "robots", "robots_by_agent"
"""The facts."""
AGENT_PREFIX = re.compile(r"\s*(?!max-|unavailable_after)([\w*.-]+)\s*:")
"""The name of a robot. Some directives have a value after a colon, too."""


def with_directives(facts: Mapping[str, str], values: Iterable[str]) -> dict[str, str]:
    """Returns ``facts`` with the directives in ``values``, each as one header has it; in small letters, each once."""
    directives = directives_of(facts)
    for value in values:
        agent = ""
        for part in value.lower().replace(";", ",").split(","):
            if named := AGENT_PREFIX.match(part):
                agent, part = named[1].replace("*", ""), part[named.end() :]
            if directive := " ".join(part.split()):
                directives.setdefault(agent, {})[directive] = None
    general = ", ".join(directives.pop("", ()))
    by_agent = "; ".join(f"{agent}: {', '.join(own)}" for agent, own in directives.items())
    return {**facts, **({ALL: general} if general else {}), **({BY_AGENT: by_agent} if by_agent else {})}


def directives_of(facts: Mapping[str, str]) -> dict[str, dict[str, None]]:
    """Returns the directives in ``facts``: the name of a robot, "" for all of them → its directives, in order."""
    directives = {"": facts[ALL]} if facts.get(ALL) else {}
    directives |= dict(part.partition(": ")[::2] for part in facts.get(BY_AGENT, "").split("; ") if part)
    return {agent: dict.fromkeys(map(str.strip, own.split(","))) for agent, own in directives.items()}


SEVERAL = {"author": "; ", **dict.fromkeys((OWN, OF_PART, MENTIONED), " "), "type": ", "}
"""Facts that a page may state several times, and what joins them."""
LINKED = {"title": "headline", "date": "datePublished", "author": "author", "site": "publisher"}
"""Fact → property of schema.org."""
ROBOTS = (ALL, BY_AGENT)
LEAST_TEXT = 20
"""Characters of texts in linked data."""
LAST = "datetime"
"""The name that is less trusted than linked data."""
TYPES = (
    "article newsarticle blogposting report techarticle scholarlyarticle recipe review opinionnewsarticle"
    " reportagenewsarticle analysisnewsarticle advertisercontentarticle howto book",
    "product productgroup individualproduct offer aggregateoffer vehicle car product.item product.group og:product",
    "itemlist collectionpage searchresultspage offercatalog product.category imagegallery blog",
    "discussionforumposting qapage question socialmediaposting discussion forum",
    "localbusiness organization corporation service professionalservice contactpage aboutpage store restaurant event"
    " jobposting",
)
"""Types of Open Graph and schema.org in lower case, by the bit that they set (``page_kinds``)."""
MOST_LICENCES = 100
"""The licences at the beginning of a page, and at its end, whose places are looked at."""
KIND_BIT = {name: 1 << bit for bit, names in enumerate(TYPES) for name in names.split()}
PageFacts = dict[str, str]
TAG = re.compile("<[^>]*>")


@dataclass(frozen=True)
class Stated:
    """The statements of a page's tags, and its linked data."""

    values: Mapping[str, Sequence[str]]
    """Name → its values, in the order of the page; of licences and directives of robots by fact."""
    nodes: Sequence[Mapping[str, Any]]
    """The things that linked data describes."""


def read(scan: Scan) -> Stated:
    """Returns what the page of ``scan`` states."""
    values: dict[str, list[str]] = {}
    nodes, licensed = list[Mapping[str, Any]](), list[Mapping[str, Any]]()
    licences, of_parts = list[tuple[str, int, int, str]](), set[int]()
    page = scan.page.data
    for kind, start, end, element in scan.records[: scan.registers[R.facts], F.kind : F.element + 1].tolist():
        text, name = str(page[start:end], errors="replace"), KINDS[kind - 1]
        if name == JSON_LD:
            nodes += (things := list(_nodes(text)))
            licensed += things if '"license"' in text or "\\u" in text else ()  # the others name no licence
        elif name in (SUBJECT_TYPE, SUBJECT):
            if is_of_part(text) if name == SUBJECT else not is_page(text.split()):
                of_parts.add(element)
        elif not (value := _clean((html.unescape if name == "title" else attribute_text)(text))):
            continue
        elif name in FACT_NAMES[OWN]:
            licences.append((name, element, start, value))
        elif name == AGENT:
            values.setdefault(AGENT, []).extend(_of_meta(scan, start, value))
        else:
            values.setdefault(name, []).append(value)
    if licences:
        places = LicencePlaces(scan, of_parts)
        for name, element, start, value in [*licences[:MOST_LICENCES], *licences[MOST_LICENCES:][-MOST_LICENCES:]]:
            values.setdefault(places.of(name, element, start), []).append(value)
    for fact, named in linked_licences(licensed):
        values.setdefault(fact, []).extend(_values(named))
    return Stated(values, nodes)


META_NAME = re.compile(
    r"""[\s/"'](?:name|property|http-equiv|itemprop)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.I
)
WORD = re.compile(r"[\w-]+")
ROBOT = re.compile(r"bot\b|bot[-_]|spider|crawl|slurp|agent|google|bing|yandex|baidu|gpt|-ai\b|\bai\b", re.I)
"""Words in names of robots."""
COMMON = frozenset(("none", "index", "follow", "all"))
"""Directives that are values of other names, too."""
LEAST_NAME, MOST_NAME = 2, 60
META_BYTES = 2_000


def _of_meta(scan: Scan, start: int, content: str) -> Iterator[str]:
    """Yields the directives of a meta whose content begins at ``start``, after its name, if it is one for a robot."""
    page = scan.page
    first = max(start - META_BYTES, 0)
    first += page[first:start].tobytes().rfind(b"<")
    tag = page[first : start + META_BYTES].tobytes().decode(errors="replace")
    name = META_NAME.search(tag)
    agent = _clean(attribute_text(next(filter(None, name.groups()), ""))).lower() if name else ""
    words = [match[0].lower() for part in content.split(",") if (match := WORD.match(part.strip()))]
    is_for_robots = set(words) <= set(DIRECTIVES) and (not COMMON.issuperset(words) or ROBOT.search(agent))
    if is_for_robots and LEAST_NAME <= len(agent) <= MOST_NAME and WORD.match(agent):
        yield f"{agent}: {content}"


FACTS_OF_NAMES = {**FACT_NAMES, **{fact: (fact,) for fact in (OWN, OF_PART, MENTIONED)}, **dict.fromkeys(ROBOTS, ())}
"""``FACT_NAMES`` as ``Stated`` has them. Those of robots are apart."""


def facts_of(stated: Stated) -> PageFacts:
    """Returns the facts of a page; those that it does not state are left out."""
    facts = {}
    for fact, names in FACTS_OF_NAMES.items():
        values = [value for name in names if name != LAST for value in stated.values.get(name, ())]
        if fact in LINKED:
            values += [value for node in stated.nodes for value in _values(node.get(LINKED[fact]))]
        values += stated.values.get(LAST, ()) if LAST in names else ()
        if fact in (OF_PART, MENTIONED):
            values = [value for value in values if value not in stated.values.get(OWN, ())]
        elif fact == "type":
            values += [value for node in stated.nodes for value in _values(node.get("@type"))]
        elif fact == "author":
            values = [value for value in values if "://" not in value]
        if values:
            facts[fact] = SEVERAL[fact].join(dict.fromkeys(values)) if fact in SEVERAL else values[0]
    return with_directives(
        facts, [value for fact in ROBOTS for name in FACT_NAMES[fact] for value in stated.values.get(name, ())]
    )


def summaries(stated: Stated) -> tuple[str, str, str]:
    """Returns what the page says that its text is: its titles, its descriptions, and the texts in its linked data."""
    title, description = (
        "\n".join(value for name in FACT_NAMES[fact] for value in stated.values.get(name, ()))
        for fact in ("title", "description")
    )
    return title, description, "\n".join(TAG.sub(" ", text) for node in stated.nodes for text in _texts(node))


def _nodes(text: str) -> Iterator[Mapping[str, Any]]:
    """Yields the outermost things that a script of linked data describes; nothing if it is no JSON."""
    try:
        waiting = [orjson.loads(text.strip().removeprefix("<!--").removesuffix("-->").strip())]
    except orjson.JSONDecodeError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, dict):
            yield value
            waiting.append(value.get("@graph"))


def _values(value: Any) -> Iterator[str]:
    """Yields the texts of a property: of itself, of its list, or the names of the things that it names."""
    for item in value if isinstance(value, list) else [value]:
        text = item.get("name") or item.get("url") if isinstance(item, dict) else item
        if isinstance(text, str) and (clean := _clean(html.unescape(text))):
            yield clean


def _texts(node: Mapping[str, Any]) -> Iterator[str]:
    """Yields the texts of a thing, and of what it consists of, that are long enough to be read."""
    waiting: list[Any] = [{name: value for name, value in node.items() if name != "@graph"}]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and len(value) >= LEAST_TEXT and not value.startswith("http"):
            yield html.unescape(value)


def _clean(text: str) -> str:
    return " ".join(text.split())


def page_kinds(facts: PageFacts) -> int:
    """Returns the kinds of page that the types in ``facts`` name, as bits; 0 if there are none."""
    kinds = 0
    for name in facts.get("type", "").lower().split(", "):
        kinds |= KIND_BIT.get(name.rpartition("/")[2], 0)
    return kinds
