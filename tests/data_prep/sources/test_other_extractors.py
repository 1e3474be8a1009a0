"""Extractors of other libraries: one paragraph a line, and what no parser is given."""

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.body_types import looks_like_html
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.other_extractors import (
    EXTRACTORS,
    MAX_DEPTH,
    NOT_NESTING,
    OPTIONAL,
    depth,
    depth_by_expression,
    extract_with,
    require_extractor,
)
from headrace.pipeline.core.errors import ConfigError

PARAGRAPHS = [
    f"Paragraph {number} of the story says that the river turns the wheel of the mill, day and night, "
    "and that nobody has ever seen it stand still for more than an hour." for number in range(5)
]  # fmt: skip
PAGE = (
    "<html><head><title>Mill</title><style>p {color: red}</style><script>var x = 'script';</script></head><body>"
    "<nav><ul><li><a href=/>Home</a><li><a href=/all>All stories</a></ul></nav><main><article><h1>The mill</h1>"
    + "".join(f"<p>{text}</p>".replace(" says ", "\n   <b>says</b> ") for text in PARAGRAPHS)
    + "</article></main><footer>Copyright, contact, imprint</footer></body></html>"
)


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_paragraphs_are_lines(extractor):
    if extractor in OPTIONAL:
        pytest.importorskip(extractor, reason=f"{extractor} is an optional extractor")
    lines = extract_with(extractor, PAGE).split("\n")
    assert [line for line in lines if line.startswith("Paragraph")] == PARAGRAPHS
    assert not {"", "Home"} & set(lines)
    assert not any("script" in line or "color" in line for line in lines)


def test_main_content_that_is_too_little_gets_a_second_look():
    """The main-content rules leave out what is called "related", which is nearly all of this page."""
    outside = "".join(f"<div class=related>{text}</div>" for text in PARAGRAPHS)
    page = f"<html><body><nav>Home All</nav><article><p>Short.</p></article>{outside}<footer>Imprint</footer></body>"
    lines = extract_with("resiliparse", page).split("\n")
    assert set(PARAGRAPHS) <= set(lines)
    assert not {"Home All", "Imprint"} & set(lines)


@pytest.mark.parametrize("page", ["", " \n", "<html></html>", "<script>x</script>", "<p>&nbsp;</p>", "\0"])
def test_no_text(page):
    assert extract_with("resiliparse", page) == Drop("no_text", "")


@pytest.mark.parametrize("tag", ["div", "b", "table", "a href='", "x-custom", "svg"])
def test_nesting_has_a_limit(tag):
    """These pages take hours without the limit."""
    assert extract_with("resiliparse", f"<{tag}>" * 100_000) == Drop("too_nested", "100000")


def test_nesting_up_to_the_limit_is_read():
    assert extract_with("resiliparse", "<div>" * 1000 + "deep" + "</div>" * 1000) == "deep"
    assert extract_with("resiliparse", "<div>" * 1001 + "deep") == Drop("too_nested", "1001")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b" \n<!-- x --><!DOCTYPE html>", True),
        (b"<?xml version='1.0'?><html>", True),
        (b"<HTML>", True),
        (b"<body class=x>", True),
        (b"<rss>", False),
        (b"<!-- a --><!----> <!-- b -->\n<p>", True),
        (b"<!---->" * 500 + b"<p>", True),
        (b"<!---->" * 500 + b"no tag", False),  # takes no time that doubles with each comment
        (b"<?xml ?>" * 400 + b"no tag", False),
        (b"<!-- " + b"x" * 2001 + b" --><p>", False),
        (b"text", False),
        (b"", False),
        (b"<htmlx>", False),
    ],
)
def test_looks_like_html(data, expected):
    assert looks_like_html(data) == expected


def test_an_extractor_that_is_not_installed(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trafilatura" else find(name))
    wanted = "source.extractor: trafilatura is not installed; pip install 'headrace[extractors]'"
    for build in (lambda: require_extractor("trafilatura"), lambda: Html(paths=("x",), extractor="trafilatura")):
        with pytest.raises(ConfigError) as error:
            build()
        assert str(error.value) == wanted
    Jsonl(paths=("x",), extractor="trafilatura")
    with pytest.raises(ConfigError):
        Jsonl(paths=("x",), extractor="trafilatura", html_field="html")


NAMES = some.sampled_from(
    [*NOT_NESTING.split("|"), "div", "span", "P", "bR", "h1", "p1", "p_", "ſource", "trac\u212a", "ı", "pé", "日", ""]
)
TAGS = some.tuples(
    some.sampled_from(["<", "</", "<//", "< ", "<<"]), NAMES, some.sampled_from([">", " a=b>", "/>", "", "-x>", "é>"])
)


@given(some.lists(TAGS.map("".join), max_size=40))
def test_the_compiled_depth_is_that_of_the_expression(tags):
    """With enough void elements before them that the tags are looked at."""
    page = "<br>" * (MAX_DEPTH + 1) + "".join(tags)
    assert depth(page) == depth_by_expression(page)


def test_depth():
    assert depth("<div>" * MAX_DEPTH) == 0, "it cannot exceed the limit"
    assert depth("<div><p>" * 2000 + "</div>" * 2000) == 2000
    assert depth("</div>" * 2000) == 0
    assert depth("<div>\N{LATIN SMALL LETTER E WITH ACUTE}" * 2000) == 2000
    assert extract_with("resiliparse", "<div>" * 1001) == Drop("too_nested", "1001")
