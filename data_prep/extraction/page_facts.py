"""Facts of a page: what its tags and its linked data say of it.

    <html lang=en><title>Mills</title><a rel=license href=…> ── read ──> Stated ── facts_of ──> {"language": "en", …}
                                                                             └─ summaries ──> title, description, texts

Where several names state a fact, the most trusted one counts (page_fact_names.py). Linked data (JSON-LD, schema.org)
comes after all names but the times in the text.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.data_prep.extraction.parsing.page_fact_names import JSON_LD, KINDS, NAMES
from headrace.data_prep.extraction.parsing.scan import FACT_END, FACT_KIND, FACTS, Scan

SEVERAL = {"author": "; ", "licence": " ", "robots": ", ", "type": ", "}
"""Facts that a page may state several times, and what joins them."""
LINKED = {"title": "headline", "date": "datePublished", "author": "author", "licence": "license", "site": "publisher"}
"""Fact → property of schema.org."""
SUMMARIES = ("title", "description")
"""Facts that say what the text of the page is."""
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
KIND_BIT = {name: 1 << bit for bit, names in enumerate(TYPES) for name in names.split()}
PageFacts = dict[str, str]
TAG = re.compile("<[^>]*>")


@dataclass(frozen=True)
class Stated:
    """The statements of a page's tags, and its linked data."""

    values: Mapping[str, Sequence[str]]
    """Name → its values, in the order of the page."""
    nodes: Sequence[Mapping[str, Any]]
    """The things that linked data describes."""


def read(scan: Scan) -> Stated:
    """Returns what the page of ``scan`` states."""
    values: dict[str, list[str]] = {}
    nodes: list[Mapping[str, Any]] = []
    for kind, start, end in scan.records[: scan.registers[FACTS], FACT_KIND : FACT_END + 1].tolist():
        text = scan.page[start:end].tobytes().decode()
        if KINDS[kind - 1] == JSON_LD:
            nodes += _nodes(text)
        elif value := _clean(text):
            values.setdefault(KINDS[kind - 1], []).append(value)
    return Stated(values, nodes)


def facts_of(stated: Stated) -> PageFacts:
    """Returns the facts of a page; those that it does not state are left out."""
    facts = {}
    for fact, names in NAMES.items():
        values = [value for name in names if name != LAST for value in stated.values.get(name, ())]
        values += [value for node in stated.nodes for value in _values(node.get(LINKED.get(fact, "")))]
        values += stated.values.get(LAST, ()) if LAST in names else ()
        if fact == "type":
            values += [value for node in stated.nodes for value in _values(node.get("@type"))]
        elif fact == "robots":
            values = [word.strip() for value in values for word in value.lower().split(",") if word.strip()]
        elif fact == "author":
            values = [value for value in values if "://" not in value]
        if values:
            facts[fact] = SEVERAL[fact].join(dict.fromkeys(values)) if fact in SEVERAL else values[0]
    return facts


def summaries(stated: Stated) -> tuple[str, str, str]:
    """Returns what the page says that its text is: its titles, its descriptions, and the texts in its linked data."""
    of_names = ["\n".join(value for name in NAMES[fact] for value in stated.values.get(name, ())) for fact in SUMMARIES]
    return of_names[0], of_names[1], "\n".join(TAG.sub(" ", text) for node in stated.nodes for text in _texts(node))


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
