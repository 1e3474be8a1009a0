"""Extractors of other libraries: a paragraph a line, what no parser is given, and pages that end their process."""

import importlib.util
import os
import signal
import time

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import other_extractors
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.other_extractors import (
    EXTRACTORS,
    MAX_DEPTH,
    depth,
    extract_with,
    isolated,
    require_extractor,
)
from headrace.pipeline.core.errors import ConfigError, RetryableError

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
    if extractor == "trafilatura":
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


def test_depth():
    assert depth("<div>" * MAX_DEPTH) == 0, "it cannot exceed the limit"
    assert depth("<div><p>" * 2000 + "</div>" * 2000) == 2000
    assert depth("</div>" * 2000) == 0
    assert depth("<div>\N{LATIN SMALL LETTER E WITH ACUTE}" * 2000) == 2000
    assert extract_with("resiliparse", "<div>" * 1001) == Drop("too_nested", "1001")


def shout(text: str) -> str:
    return text.upper()


def crash(text: str) -> str:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    return text


def spin(text: str) -> str:
    while True:
        text.upper()


def hoard(text: str) -> str:
    return str(len(bytearray(other_extractors.MEMORY_BYTES + (1 << 30))))


def fail(text: str) -> str:
    raise KeyError(text)


def interrupted(path: str) -> str:
    """Does not answer unless ``path`` records that this was done before."""
    if os.path.exists(path):
        return "second time"
    with open(path, "w", encoding="utf-8"):
        time.sleep(60) if path.endswith("sleep") else os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def killed_always(text: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return text


@pytest.fixture
def least_time(monkeypatch):
    """Limits a page to the rest of the second of CPU time that its process has begun: the least that can be set."""
    monkeypatch.setattr(other_extractors, "CPU_SECONDS", 0)
    other_extractors._helpers.clear()
    yield
    other_extractors._helpers.clear()


def test_a_page_that_ends_the_process_costs_its_neighbours_nothing(least_time):
    too_large = Drop("too_much_memory", f"more than {other_extractors.MEMORY_BYTES} bytes")
    for function, text, expected in (
        (shout, "a\ud800", "A\ud800"),
        (crash, "b", Drop("crashed", "SIGSEGV")),
        (shout, "c" * 1_000_000, "C" * 1_000_000),
        (spin, "d", Drop("too_slow", "more than 0 s of CPU time")),
        (hoard, "e", too_large),
        (fail, "f", Drop("crashed", "KeyError")),
        (shout, "g", "G"),
    ):
        assert isolated(function, text) == expected


@pytest.mark.parametrize("how", ["kill", "sleep"])
def test_a_page_whose_process_somebody_else_ended_is_read_again(how, monkeypatch, tmp_path):
    monkeypatch.setattr(other_extractors, "IDLE_SECONDS", 0.5)
    assert isolated(interrupted, str(tmp_path / how)) == "second time"


def test_a_page_whose_process_is_always_killed_ends_the_task():
    message = r"^extraction: its process was killed 3 times; run again with fewer workers$"
    with pytest.raises(RetryableError, match=message):
        isolated(killed_always, "x")


@pytest.mark.slow
@pytest.mark.parametrize("page", ["<div></span>" * 100_000, "<p>" + "".join(f"<b c={i}>x</i>" for i in range(60_000))])
def test_pages_whose_real_depth_does_not_show(least_time, page):
    """Every tag seems to be closed. Without a limit these would take hours."""
    assert extract_with("resiliparse", page) == Drop("too_slow", "more than 0 s of CPU time")
    assert extract_with("resiliparse", "<p>next page") == "next page"
