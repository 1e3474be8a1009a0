"""Directives for robots: for all of them, and for one."""

import pytest

from headrace.data_prep.extraction.page import HtmlPage, read_page
from headrace.data_prep.extraction.robots import directives_of, with_directives

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


def facts(html: str) -> dict[str, str]:
    page = read_page(html)
    assert isinstance(page, HtmlPage)
    return page.facts


@pytest.mark.parametrize("agent", AGENTS.split())
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
def test_a_meta_for_one_robot_is_recorded_with_its_name(agent, form):
    assert facts(form.format(agent=agent)) == {"robots_by_agent": f"{agent.lower()}: noindex, noai"}


@pytest.mark.parametrize(
    "content", ["none", "all", "nofollow", "max-snippet:0", "noimageai", "unavailable_after: 1 Jun 2030"]
)
def test_each_directive_of_a_known_robot(content):
    assert facts(f"<meta name=GPTBot content='{content}'>") == {"robots_by_agent": f"gptbot: {content.lower()}"}


@pytest.mark.parametrize("html", NONE_OF_ROBOTS)
def test_other_tags_are_not_for_robots(html):
    assert not {"robots", "robots_by_agent"} & set(facts(html))


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
