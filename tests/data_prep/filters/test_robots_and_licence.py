"""Filters by what pages say of themselves."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from datatrove.data import Document
from pyarrow import feather, parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.robots_and_licence import Licence, Robots
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.tables import Arrow, Parquet
from headrace.data_prep.sources.warc import Warc
from tests.data_prep.sources.warc_bytes import http, record

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
        ({"robots_by_agent": "gptbot: noai; ccbot: noindex"}, {}, None),
        ({"robots_by_agent": "gptbot: noai; ccbot: noindex"}, {"agents": ("GPTBot",)}, "noai for gptbot"),
        ({"robots_by_agent": "gptbot: noarchive; ccbot: noai"}, {"agents": ("gptbot",)}, None),
        ({"robots_by_agent": "some-bot: noai"}, {"agents": ("*",)}, "noai for some-bot"),
        ({"robots_by_agent": "ccbot: none"}, {"agents": ("ccbot",), "directives": ("nofollow",)}, "nofollow for ccbot"),
        ({"robots": "none"}, {"directives": ("noindex",)}, "noindex"),
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
        ({"licence_of_part": BY}, {}, "none is named"),
        ({"licence_mentioned": BY}, {}, "none is named"),
    ],
)
def test_licences(facts, options, drop):
    assert Licence(**options).judge(page(**facts)) == (drop and Drop("licence", drop))


@pytest.mark.parametrize(
    ("named", "is_kept"),
    [
        ("CC BY 4.0", True), ("cc-by", True), ("CC-BY-SA-3.0", True), ("CC_BY_SA", True), ("CC0", True),
        ("Creative Commons Attribution-ShareAlike 4.0 International", True), ("Creative Commons Attribution 3.0", True),
        ("Public Domain", True), ("CC0-1.0", True), ("Creative Commons Zero v1.0 Universal", True),
        ("PDM", False), ("CC PDM 1.0", True),
        ("http://creativecommons.org/publicdomain/mark/1.0/", True), ("ccby", True), ("cc by - sa", True),
        ("CC BY-NC 4.0", False), ("cc-by-nd", False), ("CC_BY_NC_SA_4.0", False), ("CC BYNCND", False),
        ("Creative Commons Attribution-NonCommercial-ShareAlike 4.0", False), ("BSD-3-Clause", False), ("", False),
        ("https://creativecommons.org/licenses/by-nc-sa/4.0/", False), ("All rights reserved", False), ("accby", False),
    ],
)  # fmt: skip
def test_names_of_creative_commons(named, is_kept):
    assert (Licence().judge(page(licence=named)) is None) == is_kept


def test_a_name_in_the_settings_is_a_whole_licence():
    rule = Licence(licences=("cc-by", "Apache-2.0"))
    kept = {"CC BY 4.0": True, BY: True, "apache-2.0": True, "cc-by-nc": False, "CC BY-SA": False}
    assert {named: rule.judge(page(licence=named)) is None for named in kept} == kept


HTML = f"<title>T</title><meta name=GPTBot content=noindex><link rel=license href={BY}><p>The old mill stands here.</p>"
ROWS = {
    "html": ({"html": HTML}, {"html_field": "html"}),
    "fields": ({"text": "a", "license": "cc-by-4.0", "x-robots-tag": "GPTBot: noindex"}, {}),
    "an object": ({"text": "a", "metadata": {"License": ["CC BY 4.0"], "robots_by_agent": "gptbot: noindex"}}, {}),
    "an export": ({"text": "a", "page.licence": BY, "page.robots_by_agent": "gptbot: noindex"}, {}),
    "facts of another run": ({"text": "a", "page": {"licence": BY, "robots_by_agent": "gptbot: noindex"}}, {}),
}


def documents(folder: Path) -> Iterator[tuple[str, Document]]:
    """One page of each source, with the licence and the directive of HTML."""
    page_alone = HTML.replace("<meta name=GPTBot content=noindex>", "").encode()
    response = http(page_alone, extra=b"X-Robots-Tag: gptbot: noindex\r\n")
    for name, data in (("a.warc", record(response)), ("a.html", HTML.encode())):
        (folder / name).write_bytes(data)
    yield "warc", next(Warc(paths=(str(folder / "a.warc"),)).read("a.warc"))[0]
    yield "html", next(Html(paths=(str(folder / "a.html"),)).read("a.html"))[0]
    for kind, (row, options) in ROWS.items():
        (folder / "a.jsonl").write_text(json.dumps(row))
        yield f"jsonl, {kind}", next(Jsonl(paths=(str(folder / "a.jsonl"),), **options).read("a.jsonl"))[0]
        table = pyarrow.Table.from_pylist([row])
        parquet.write_table(table, folder / "a.parquet")
        yield f"parquet, {kind}", next(Parquet(paths=(str(folder / "a.parquet"),), **options).read("a.parquet"))[0]
        feather.write_feather(table, folder / "a.arrow", compression="uncompressed")
        yield f"arrow, {kind}", next(Arrow(paths=(str(folder / "a.arrow"),), **options).read("a.arrow"))[0]


def test_both_work_on_each_source(tmp_path):
    robots = Robots(directives=("noindex",), agents=("gptbot",))
    for source, document in documents(tmp_path):
        assert document.text, source
        assert robots.judge(document) == Drop("robots", "noindex for gptbot"), source
        assert Robots(directives=("noindex",)).judge(document) is None, source
        assert Licence().judge(document) is None, source
        assert Licence(licences=("cc-by-sa",)).judge(document) is not None, source


@pytest.mark.parametrize(
    "extra", [None, "text", [], {"page": "about", "metadata": []}, {"license": None, "robots": {}}]
)
def test_odd_documents_state_nothing(extra):
    document = Document("text", "a:0", metadata={"page": "about", "extra": extra})
    assert Robots().judge(document) is None
    assert Licence().judge(document) == Drop("licence", "none is named")


def test_reservations_in_fields():
    for value in (1, "1", True):
        document = Document("text", "a:0", metadata={"extra": {"TDM-Reservation": value}})
        assert Robots().judge(document) == Drop("robots", "tdm-reservation")
    assert Robots().judge(Document("text", "a:0", metadata={"extra": {"tdm_reservation": 0}})) is None
    inner = {"metadata": {"X-Robots-Tag": "noai"}}
    for metadata in ({"robots": "noai"}, {"meta": {"robots": ["noai"]}}, inner, {"extra": {"metadata": inner}}):
        assert Robots().judge(Document("text", "a:0", metadata=metadata)) == Drop("robots", "noai")
