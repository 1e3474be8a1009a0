"""The names by which tags state facts of a page.

Sources: HTML standard 4.2.5 (meta names), ogp.me (Open Graph), dublincore.org (DCMI terms), schema.org, the names that
Google Scholar reads (citation_…), RFC 4946 (rel=license), ccREL (licences in RDFa), the TDM reservation protocol of the
W3C community group, the robots specification of Google Search, DeviantArt's noai and noimageai.
"""

NAMES = {
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
JSON_LD, CC_LINK, AGENT, TYPE, SUBJECT = "json-ld", "cc", "(agent)", "(type)", "(subject)"
"""A script of linked data, the names of such a link and of such a meta, and what microdata and RDFa in an element are
about: its types (``itemtype``, ``typeof``), its address (``about``)."""
DIRECTIVES = (
    "noindex", "nofollow", "noarchive", "nosnippet", "noimageindex", "noimageai", "noai", "notranslate", "nocache",
    "noodp", "noydir", "none", "max-snippet", "max-image-preview", "max-video-preview", "unavailable_after",
    "indexifembedded", "index", "follow", "all",
)  # fmt: skip
"""Directives for robots."""
KINDS = (*(name for names in NAMES.values() for name in names), JSON_LD, TYPE, SUBJECT)
KIND = {name: number for number, name in enumerate(KINDS, 1)}
"""The number of each name."""
