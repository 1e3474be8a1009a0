"""What a page says of itself."""

import pytest

from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.data_prep.extraction.parsing.page_fact_names import NAMES


def facts(html: str) -> dict[str, str]:
    page = read_page(html)
    assert isinstance(page, HtmlPage)
    return page.facts


FACTS = {
    "title": ("<title>a &amp;\n b</title>", {"title": "a & b"}),
    "the title of Open Graph": ("<title>a | b</title><meta content='a' property=og:title>", {"title": "a"}),
    "title in SVG": ("<svg><title>a</title></svg>", {}),
    "language": ("<html lang=de>", {"language": "de"}),
    "language of the header": ("<meta http-equiv=Content-Language content='de'><p lang=en>", {"language": "de"}),
    "canonical": ("<link rel='x canonical' href='https://a.b/?c&amp;d'>", {"canonical": "https://a.b/?c&d"}),
    "date": ("<time datetime=2001>x</time><meta itemprop=datePublished content=2002>", {"date": "2002"}),
    "a date in the text": (
        "<time datetime=2001-02-03T04:05>x</time><time datetime=2002>",
        {"date": "2001-02-03T04:05"},
    ),
    "authors": (
        "<meta name=author content=A><meta name=citation_author content=B><meta property=article:author"
        " content=https://x/y>",
        {"author": "A; B"},
    ),
    "site": ("<meta property=og:site_name content='The Mill'>", {"site": "The Mill"}),
    "licence": ("<a rel='nofollow license' href=/l>x</a><link rel=license href=m>", {"licence": "/l m"}),
    "licence of Creative Commons": (
        "<footer><a href='https://creativecommons.org/licenses/by/4.0/'>x</a><a href=https://creativecommons.org/about>",
        {"licence": "https://creativecommons.org/licenses/by/4.0/"},
    ),
    "robots": (
        "<meta name=ROBOTS content='noindex, NoAI'><meta name=robots content='max-snippet:0,noai'>",
        {"robots": "noindex, noai, max-snippet:0"},
    ),
    "robots with names": (
        "<meta name=GPTBot content='noindex, NoArchive'><meta http-equiv=x-robots-tag content='ccbot: none, nofollow'>",
        {"robots_by_agent": "ccbot: none, nofollow; gptbot: noindex, noarchive"},
    ),
    "reservation": (
        "<meta name=tdm-reservation content=1><meta name=tdm-policy content=https://p>",
        {"tdm_reservation": "1", "tdm_policy": "https://p"},
    ),
    "linked data": (
        '<script type="application/ld+json">{"@graph": [{"@type": ["NewsArticle"], "headline": "a", "author": '
        '[{"name": "B"}, "C"], "datePublished": "2001", "license": "l", "publisher": {"name": "d"}}]}</script>',
        {"title": "a", "author": "B; C", "date": "2001", "licence": "l", "site": "d", "type": "NewsArticle"},
    ),
    "linked data that is none": ('<script type="application/ld+json">{"@type": </script>', {}),
    "description": ("<meta name=description content=y><meta property=og:description content=z>", {"description": "y"}),
    "other names": ("<meta name=viewport content=x><meta charset=z><meta>", {}),
    "without a value": ("<meta name=author><meta content=x><meta name=author content=' '><title></title>", {}),
}


@pytest.mark.parametrize("kind", FACTS)
def test_facts(kind):
    html, expected = FACTS[kind]
    assert facts(html) == expected


def test_every_fact_has_a_case():
    assert {fact for _, expected in FACTS.values() for fact in expected} == set(NAMES)
