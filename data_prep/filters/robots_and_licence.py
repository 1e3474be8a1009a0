"""Filters by what pages say of themselves (data_prep/extraction/page_facts.py): reservations, and licences.

metadata {"page": {"robots": "noindex, noai"}} ── robots ──> dropped: "noai"
"""

from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.settings import SomeTexts, TextList


def fact(document: Document, name: str) -> str:
    """Returns what the page of ``document`` says of itself under ``name``; "" if nothing."""
    facts = document.metadata.get("page")
    return str(facts.get(name, "")) if isinstance(facts, dict) else ""


@filter_settings
class Robots(Filter):
    """Drops pages whose owners reserve them: by directives for robots, or by the TDM reservation protocol.

    Directives are those of ``<meta name="robots">`` and of the header X-Robots-Tag. Sources: DeviantArt's noai and
    noimageai, which others adopted; the TDM reservation protocol of the W3C community group.
    """

    type: Literal["robots"] = "robots"
    directives: TextList = ("noai",)
    """Directives that reserve a page, such as noai, noimageai, noindex, noarchive."""
    tdm_reservation: bool = True
    """Whether ``tdm-reservation: 1`` reserves a page."""

    def judge(self, document: Document) -> Drop | None:
        stated = {directive.strip() for directive in fact(document, "robots").split(",")}
        for directive in self.directives:
            if directive.lower() in stated:
                return Drop(self.type, directive.lower())
        if self.tdm_reservation and fact(document, "tdm_reservation") == "1":
            return Drop(self.type, "tdm-reservation")
        return None


@filter_settings
class Licence(Filter):
    """Drops pages that do not name one of some licences.

    A page names a licence by a link with rel=license, a link to Creative Commons, a meta tag or schema.org. The link
    may be meant for an image of the page.
    """

    type: Literal["licence"] = "licence"
    licences: SomeTexts = (
        "creativecommons.org/licenses/by/", "creativecommons.org/licenses/by-sa/", "creativecommons.org/publicdomain/",
    )  # fmt: skip
    """Parts of the addresses or names of licences, in small letters; one of them is enough."""

    def judge(self, document: Document) -> Drop | None:
        stated = fact(document, "licence").lower()
        is_named = any(licence.lower() in stated for licence in self.licences)
        return None if is_named else Drop(self.type, stated or "none is named")
