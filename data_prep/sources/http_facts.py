"""Facts of a page that its HTTP headers state, and addresses in facts that are relative to the page's own.

    X-Robots-Tag: noai       facts {"robots": "noindex"}       ──> {"robots": "noindex, noai"}

Directives for one robot only (``X-Robots-Tag: googlebot: noindex``) are left out, as those of meta tags are.
Sources: the robots specification of Google Search; the TDM reservation protocol of the W3C community group.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urljoin

from headrace.data_prep.extraction.html_facts import PageFacts
from headrace.data_prep.sources.charset import sanitize

OF_ONE_ROBOT = re.compile(r"\s*(?!max-|unavailable_after)[\w*-]+\s*:")
"""The beginning of directives for one robot. Some directives have a value after a colon, too."""
HEADERS = {"tdm-reservation": "tdm_reservation", "tdm-policy": "tdm_policy", "content-language": "language"}
"""Header → fact. What the page itself says counts first, but for reservations: the protocol has the header first."""


def with_http(facts: PageFacts, headers: Mapping[str, Sequence[str]], url: str) -> PageFacts:
    """Returns ``facts`` with those of ``headers``, and absolute addresses if ``url`` is that of the page."""
    facts_with_http = dict(facts)
    of_robots = [sanitize(value).lower() for value in headers.get("x-robots-tag", ()) if not OF_ONE_ROBOT.match(value)]
    directives = [word for value in (facts.get("robots", ""), *of_robots) for word in map(str.strip, value.split(","))]
    if any(directives):
        facts_with_http["robots"] = ", ".join(dict.fromkeys(filter(None, directives)))
    for header, fact in HEADERS.items():
        value = " ".join(sanitize(next(iter(headers.get(header, ())), "")).split())
        if value and (fact not in facts or fact != "language"):
            facts_with_http[fact] = value
    for fact in ("canonical", "licence", "tdm_policy"):
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
