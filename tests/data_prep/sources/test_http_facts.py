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
    "directives for one robot": ({}, {"x-robots-tag": ["googlebot: noindex", "*: none"]}, {}),
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
