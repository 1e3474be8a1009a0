"""Filters by what pages say of themselves."""

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.robots_and_licence import Licence, Robots

BY = "https://creativecommons.org/licenses/by/4.0/"


def page(**facts: str) -> Document:
    return Document("text", "a:0", metadata={"url": "", "page": facts} if facts else {"url": ""})


@pytest.mark.parametrize(
    ("facts", "options", "drop"),
    [
        ({}, {}, None),
        ({"robots": "noindex, nofollow"}, {}, None),
        ({"robots": "noindex, noai"}, {}, "noai"),
        ({"robots": "noimageai"}, {}, None),
        ({"robots": "noindex"}, {"directives": ("NoIndex",)}, "noindex"),
        ({"robots": "max-snippet:0"}, {"directives": ("max-snippet:0",)}, "max-snippet:0"),
        ({"tdm_reservation": "1"}, {}, "tdm-reservation"),
        ({"tdm_reservation": "0"}, {}, None),
        ({"tdm_reservation": "1"}, {"tdm_reservation": False}, None),
    ],
)
def test_robots(facts, options, drop):
    assert Robots(**options).judge(page(**facts)) == (drop and Drop("robots", drop))


@pytest.mark.parametrize(
    ("facts", "options", "drop"),
    [
        ({}, {}, "none is named"),
        ({"licence": BY}, {}, None),
        ({"licence": f"https://a.org/terms {BY.upper()}"}, {}, None),
        (
            {"licence": "https://creativecommons.org/licenses/by-nc/4.0/"},
            {},
            "https://creativecommons.org/licenses/by-nc/4.0/",
        ),
        ({"licence": "MIT License"}, {"licences": ("MIT",)}, None),
    ],
)
def test_licences(facts, options, drop):
    assert Licence(**options).judge(page(**facts)) == (drop and Drop("licence", drop))


def test_documents_of_other_sources():
    document = Document("text", "a:0", metadata={"page": "about"})
    assert Robots().judge(document) is None
    assert Licence().judge(document) == Drop("licence", "none is named")
