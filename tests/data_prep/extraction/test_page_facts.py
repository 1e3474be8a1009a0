"""Facts that a page states of itself, and directives for robots."""

import pytest

from headrace.data_prep.extraction.page_facts import FACT_NAMES, directives_of, with_directives
from tests.data_prep.extraction.test_page import page


def facts(html: str) -> dict[str, str]:
    return page(html).facts


FACTS = {
    "title": ("<title>a &amp;\n b</title>", {"title": "a & b"}),
    "the title of Open Graph": ("<title>a | b</title><meta content='a' property=og:title>", {"title": "a"}),
    "title in SVG": ("<svg><title>a</title></svg>", {}),
    "language": ("<html lang=de>", {"language": "de"}),
    "language of the header": ("<meta http-equiv=Content-Language content='de'><p lang=en>", {"language": "de"}),
    "canonical": ("<link rel='x canonical' href=//b?c&amp;d&reg=2>", {"canonical": "//b?c&d&reg=2"}),
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
    assert {fact for _, expected in FACTS.values() for fact in expected} == set(FACT_NAMES)


AGENTS = (
    "googlebot GPTBot CCBot ClaudeBot Claude-Web Google-Extended anthropic-ai bingbot Applebot-Extended FacebookBot"
    " PerplexityBot cohere-ai Bytespider Amazonbot Googlebot-News Slurp ia_archiver Meta-ExternalAgent SomeNewBot2027"
    " omgili"
)
NONE_OF_ROBOTS = [
    "<meta name=msapplication-config content=none>",
    "<meta name=distribution content=all>",
    "<meta name=description content='noindex is a directive'>",
    "<meta name=keywords content='noindex, robots, mills'>",
    "<meta name=generator content='follow me'>",
    "<meta content=noindex>",
    "<meta name='' content=noindex>",
    "<meta name=agent content='Ann'>",
    "<meta name='(type)' content=ImageObject>",
    "<p name=gptbot content=noindex>",
    "<!-- <meta name=gptbot content=noindex> -->",
    "<script>'<meta name=gptbot content=noindex>'</script>",
]


@pytest.mark.parametrize(
    "form",
    [
        "<meta name={agent} content='noindex, NoAI'>",
        "<META CONTENT='noindex, NoAI' NAME='{agent}'>",
        '<meta data-name=x name = "{agent}" id=a content="noindex,noai"/>',
        "<meta http-equiv=X-Robots-Tag content='{agent}: noindex, noai'>",
        "<body><p>a<meta property={agent} content='noindex; noai'>",
    ],
)
def test_a_meta_for_one_robot_is_recorded_with_its_name(form):
    for agent in AGENTS.split():
        assert facts(form.format(agent=agent)) == {"robots_by_agent": f"{agent.lower()}: noindex, noai"}


def test_each_directive_of_a_known_robot():
    for content in ("none", "all", "nofollow", "max-snippet:0", "noimageai", "unavailable_after: 1 Jun 2030"):
        assert facts(f"<meta name=GPTBot content='{content}'>") == {"robots_by_agent": f"gptbot: {content.lower()}"}


def test_other_tags_are_not_for_robots():
    for html in NONE_OF_ROBOTS:
        assert not {"robots", "robots_by_agent"} & set(facts(html)), html


def test_the_name_robots_is_for_all():
    html = "<meta content='noindex' name=robots><meta name=ccbot content=nofollow><meta name=CCBot content='none'>"
    assert facts(html) == {"robots": "noindex", "robots_by_agent": "ccbot: nofollow, none"}


def test_what_is_written_is_read_again():
    stated = with_directives({"title": "a"}, ["noai, GPTBot: max-snippet: 0, noindex", "*: none", "b: ", ""])
    assert stated == {"title": "a", "robots": "noai, none", "robots_by_agent": "gptbot: max-snippet: 0, noindex"}
    assert {agent: [*own] for agent, own in directives_of(stated).items()} == {
        "": ["noai", "none"], "gptbot": ["max-snippet: 0", "noindex"]
    }  # fmt: skip
    assert with_directives(stated, []) == stated
