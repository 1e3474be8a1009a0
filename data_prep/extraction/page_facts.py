"""Facts of a page: what its tags and its linked data say of it, and directives for robots.

    <html lang=en><title>Mills</title><a rel=license href=…> ── read ──> Stated ── facts_of ──> {"language": "en", …}
                                                                             └─ summaries ──> title, description, texts
    "noindex, NoAI", "GPTBot: noarchive, nofollow"  ── with_directives ──>
        {"robots": "noindex, noai", "robots_by_agent": "gptbot: noarchive, nofollow"}

Where several names state a fact, the most trusted one counts (parsing/facts.py). Linked data (JSON-LD, schema.org)
comes after all names but the times in the text. A licence is the page's, or that of a part, or is only mentioned
(licence_places.py). Directives for one robot are a fact of their own.
Source: the robots specification of Google Search, whose header X-Robots-Tag may name a robot before its directives.
"""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.data_prep.extraction.licence_places import (
    MENTIONED,
    OF_PART,
    OWN,
    LicencePlaces,
    is_of_part,
    is_page,
    linked_licences,
)
from headrace.data_prep.extraction.parsing.facts import (
    AGENT,
    DIRECTIVES,
    FACT_NAMES,
    JSON_LD,
    KINDS,
    SUBJECT,
    SUBJECT_TYPE,
)
from headrace.data_prep.extraction.parsing.scan import F, R, Scan

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
    nodes: list[Mapping[str, Any]] = []
    licences, of_parts = list[tuple[str, int, int, str]](), set[int]()
    for kind, start, end, element in scan.records[: scan.registers[R.facts], F.kind : F.element + 1].tolist():
        text, name = scan.page[start:end].tobytes().decode(errors="replace"), KINDS[kind - 1]
        if name == JSON_LD:
            nodes += _nodes(text)
        elif name in (SUBJECT_TYPE, SUBJECT):
            if is_of_part(text) if name == SUBJECT else not is_page(text.split()):
                of_parts.add(element)
        elif not (value := _clean(text)):
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
    for fact, named in linked_licences(nodes):
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
    agent = _clean(next(filter(None, name.groups()), "")).lower() if name else ""
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
        values += [value for node in stated.nodes for value in _values(node.get(LINKED.get(fact, "")))]
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
        if isinstance(text, str) and (clean := _clean(text)):
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
    return " ".join(html.unescape(text).split())


def page_kinds(facts: PageFacts) -> int:
    """Returns the kinds of page that the types in ``facts`` name, as bits; 0 if there are none."""
    kinds = 0
    for name in facts.get("type", "").lower().split(", "):
        kinds |= KIND_BIT.get(name.rpartition("/")[2], 0)
    return kinds
