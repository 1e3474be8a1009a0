"""Filters by what pages say of themselves (data_prep/extraction/page_facts.py), or records of their pages.

    metadata {"page": {"robots": "noindex, noai"}}               ── robots ──> dropped: "noai"
    metadata {"extra": {"metadata": {"license": "CC-BY-SA 4.0"}}}   ── licence ──> kept

Records of JSON lines, Parquet and Arrow may have these facts in fields of their own: at the top, or in ``page``,
``metadata`` or ``meta``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.extraction.page_facts import ALL, BY_AGENT, directives_of, with_directives
from headrace.data_prep.filters.filter import Explanations, Filter, filter_settings
from headrace.pipeline.core.settings import SomeTexts, TextList

FIELDS = {
    "licence": ("licence", "license", "licenses"),
    ALL: (ALL, "x-robots-tag", "x_robots_tag"),
    "tdm_reservation": ("tdm_reservation", "tdm-reservation"),
    "tdm_policy": ("tdm_policy", "tdm-policy"),
}
"""Fact → names of fields of records that state it, in small letters."""
OBJECTS = ("page", "extra", "metadata", "meta")
EVERY_AGENT = "*"
LONG_NAMES = {
    "attribution": "by", "noncommercial": "nc", "non-commercial": "nc", "noderivatives": "nd", "noderivs": "nd",
    "no derivatives": "nd", "sharealike": "sa", "share alike": "sa", "share-alike": "sa", "creative commons": "cc",
    "public domain": "cc pd", "public-domain": "cc pd",
}  # fmt: skip
CC_NAME = re.compile(r"\bcc[\s_:-]*(?:(by(?:[\s_/-]*(?:nc|nd|sa))*)|0|zero|pdm?)(?![a-z])(?:[\s_v-]*(\d\.\d))?")


def fact(document: Document, name: str) -> str:
    """Returns what the page of ``document``, or its record, says under ``name``; "" if nothing."""
    objects: list[Any] = [document.metadata]
    for fields in objects:
        by_name = {str(key).lower(): value for key, value in fields.items()} if isinstance(fields, Mapping) else {}
        for field in FIELDS.get(name, (name,)):
            if text := _text(by_name.get(field, by_name.get(f"page.{field}"))):
                return text
        objects += [by_name[key] for key in OBJECTS if key in by_name]
    return ""


def _text(value: Any) -> str:
    """Returns a field of a record as text; the parts of a list or an object one after another."""
    if isinstance(value, Mapping | list | tuple):
        return " ".join(filter(None, map(_text, value.values() if isinstance(value, Mapping) else value)))
    return "" if value is None or value is False else "1" if value is True else str(value).strip()


@filter_settings
class Robots(Filter):
    """Drops pages whose owners reserve them: by directives for robots, or by the TDM reservation protocol.

    Directives are those of ``<meta name="robots">`` and of the header X-Robots-Tag, and of some robots those for them
    alone (``<meta name="GPTBot">``). Sources: DeviantArt's noai and noimageai, which others adopted; the robots
    specification of Google Search; the TDM reservation protocol of the W3C community group.
    """

    revision: ClassVar[int] = 2
    """In revision 1, objects in objects did not count; in revision 0, no field, and ``none`` was no noindex."""
    explanations: ClassVar[Explanations] = {"": ("Drops pages that their owners reserve.", "the page says {value}")}
    type: Literal["robots"] = "robots"
    directives: TextList = ("noai",)
    """Directives that reserve a page, such as noai, noimageai, noindex, noarchive."""
    agents: TextList = ()
    """Robots whose own directives count, too, such as gptbot, ccbot, google-extended; ``*``: those of every robot."""
    tdm_reservation: bool = True
    """Whether ``tdm-reservation: 1`` reserves a page."""

    def judge(self, document: Document) -> Drop | None:
        stated = directives_of(with_directives({BY_AGENT: fact(document, BY_AGENT)}, [fact(document, ALL)]))
        agents = {"", *map(str.lower, self.agents)}
        for agent, own in stated.items():
            if agent not in agents and EVERY_AGENT not in agents:
                continue
            meant = own | dict.fromkeys(("noindex", "nofollow") if "none" in own else ())
            for directive in map(str.lower, self.directives):
                if directive in meant:
                    return Drop(self.type, f"{directive} for {agent}" if agent else directive)
        if self.tdm_reservation and fact(document, "tdm_reservation") == "1":
            return Drop(self.type, "tdm-reservation")
        return None


@filter_settings
class Licence(Filter):
    """Drops pages that do not name one of some licences as their own.

    A page names its licence by a link with rel=license, a link to Creative Commons in its foot or after words such as
    "This work is licensed under", a meta tag or schema.org. Those of parts of it (photos, comments, code) and those
    that it only mentions do not count. A record names it in a field. Names of Creative Commons are read as their
    addresses: ``CC BY-SA 4.0`` as creativecommons.org/licenses/by-sa/4.0/.
    """

    revision: ClassVar[int] = 2
    """In revision 1, objects in objects did not count; in revision 0, all links, no fields, no names of addresses."""
    explanations: ClassVar[Explanations] = {
        "": ("Drops pages that do not name one of the licences {licences}.", "named: {value}"),
    }
    type: Literal["licence"] = "licence"
    licences: SomeTexts = (
        "creativecommons.org/licenses/by/", "creativecommons.org/licenses/by-sa/", "creativecommons.org/publicdomain/",
    )  # fmt: skip
    """Parts of the addresses or names of licences, in small letters; one of them is enough."""

    def judge(self, document: Document) -> Drop | None:
        stated = fact(document, "licence").lower()
        named = " ".join((stated, *_addresses(stated)))
        is_named = any(part in named for licence in self.licences for part in _parts(licence.lower()))
        return None if is_named else Drop(self.type, stated or "none is named")


def _parts(licence: str) -> list[str]:
    """Returns the address of a licence of Creative Commons, else its name: ``cc by`` is no part of ``cc by-nc``."""
    return list(_addresses(licence)) or [licence]


def _addresses(named: str) -> Iterator[str]:
    """Yields the addresses of the licences of Creative Commons whose names are in ``named``, in small letters."""
    for long, short in LONG_NAMES.items():
        named = named.replace(long, short)
    for name in CC_NAME.finditer(named):
        terms = [term for term in ("by", "nc", "nd", "sa") if term in re.findall("by|nc|nd|sa", name[1] or "")]
        version = f"{name[2]}/" if name[2] else ""
        yield (
            f"creativecommons.org/licenses/{'-'.join(terms)}/{version}"
            if terms
            else "creativecommons.org/publicdomain/"
        )
