"""Counts of what pages that remain state of their use, and of their hosts: robots, reservations, licences, bytes.

last stage with documents ── every document ──> robots {"noarchive": 3}, licence {…}, host → bytes, latest date
"""

import dataclasses
import functools
from collections import Counter

from headrace.data_prep.filters.domains import host_of
from headrace.data_prep.filters.robots_and_licence import fact
from headrace.pipeline.documents.stored_documents import located
from headrace.pipeline.release.release_folder import Release

STATED = ("robots", "tdm_reservation", "tdm_policy", "licence")
"""The facts of pages that are counted (data_prep/extraction/parsing/facts.py)."""
NOTHING = "nothing stated"


@dataclasses.dataclass(frozen=True)
class PageStatements:
    """Counts over the documents that remain."""

    documents: int
    stated: dict[str, "Counter[str]"]
    """Fact → value → documents. A page with several directives for robots counts for each of them."""
    host_bytes: "Counter[str]"
    """Host → UTF-8 bytes of its texts. Documents without a URL are not in it."""
    latest_date: str
    """The last date of a record (``metadata.date``) as its source has it; empty when none has one."""


@functools.cache
def page_statements(release: Release) -> PageStatements:
    """Reads the documents that remain.

    Raises:
        ArtifactError: when they are neither in the release nor below its root.
    """
    documents, latest = 0, ""
    host_bytes, stated = Counter[str](), {name: Counter[str]() for name in STATED}
    for _, document in located(release.artifact(release.document_stages[-1]), "documents"):
        documents += 1
        for name, counts in stated.items():
            text = fact(document, name)
            values = {value.strip() for value in text.split(",")} if name == "robots" else {text}
            counts.update(value or NOTHING for value in values)
        if host := host_of(str(document.metadata.get("url") or "")):
            host_bytes[host] += len(document.text.encode("utf-8", "surrogatepass"))
        latest = max(latest, str(document.metadata.get("date") or ""))
    return PageStatements(documents, stated, host_bytes, latest)
