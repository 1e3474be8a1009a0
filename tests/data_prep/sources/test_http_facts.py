"""Facts of a page that its HTTP headers state."""

import pytest

from headrace.data_prep.sources.warc_payload import with_http

URL = "https://a.org/b/c"
CASES = {
    "nothing": ({}, {}, {}),
    "of the page only": ({"title": "a"}, {}, {"title": "a"}),
    "robots of both": (
        {"robots": "noindex"}, {"x-robots-tag": ["NoAI, noindex", "max-snippet: 0"]},
        {"robots": "noindex, noai, max-snippet: 0"},
    ),
    "directives for one robot": (
        {}, {"x-robots-tag": ["googlebot: noindex", "*: none"]},
        {"robots": "none", "robots_by_agent": "googlebot: noindex"},
    ),
    "robots in one header, and on the page": (
        {"robots": "noai", "robots_by_agent": "gptbot: noindex; bing-bot: max-snippet:0"},
        {"x-robots-tag": ["noarchive, GPTBot: noimageai, noai, CCBot: none", "unavailable_after: 5 Jun 2030 15:00:00"]},
        {
            "robots": "noai, noarchive, unavailable_after: 5 jun 2030 15:00:00",
            "robots_by_agent": "gptbot: noindex, noimageai, noai; bing-bot: max-snippet:0; ccbot: none",
        },
    ),
    "licence of a header": (
        {"licence": "https://x.org/m"},
        {"link": ['</style.css>; rel=preload, </l>; title="a, b"; rel="x license"', "<https://x.org/m>; rel=license"]},
        {"licence": "https://x.org/m https://a.org/l"},
    ),
    "addresses of parts": (
        {"licence_of_part": "/p", "licence_mentioned": "/m"}, {},
        {"licence_mentioned": "https://a.org/m", "licence_of_part": "https://a.org/p"},
    ),
    "a date in a directive": (
        {}, {"x-robots-tag": ["unavailable_after: 2030-01-01"]}, {"robots": "unavailable_after: 2030-01-01"},
    ),
    "reservation": (
        {"tdm_reservation": "0"}, {"tdm-reservation": [" 1 "], "tdm-policy": ["/p.json"]},
        {"tdm_policy": "https://a.org/p.json", "tdm_reservation": "1"},
    ),
    "language": ({}, {"content-language": ["de"]}, {"language": "de"}),
    "language of the page": ({"language": "en"}, {"content-language": ["de"]}, {"language": "en"}),
    "addresses": (
        {"canonical": "/d", "licence": "/l https://x.org/m CC0"}, {},
        {"canonical": "https://a.org/d", "licence": "https://a.org/l https://x.org/m CC0"},
    ),
    "an address that is none": ({"canonical": "http://[x"}, {}, {"canonical": "http://[x"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_facts(case):
    facts, headers, expected = CASES[case]
    assert with_http(facts, headers, URL) == expected
