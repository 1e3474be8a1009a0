"""Settings of sources that read HTML, and what becomes of a page."""

from typing import get_args

import pytest

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.html import Extractor, Html, HtmlExtraction
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.other_extractors import EXTRACTORS
from headrace.data_prep.sources.warc import Warc
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.sources.test_other_extractors import PAGE, PARAGRAPHS


def text(html: str, **options) -> str | Drop:
    return HtmlExtraction(**options).extracted(html).text


def test_every_extractor_is_there():
    assert set(get_args(Extractor)) == {"blocks", "all_text", *EXTRACTORS}


@pytest.mark.parametrize("extractor", ["blocks", "all_text"])
def test_paragraphs_are_lines(extractor):
    lines = text(PAGE, extractor=extractor).split("\n")
    assert [line for line in lines if line.startswith("Paragraph")] == PARAGRAPHS
    assert "" not in lines
    assert ("Home" in lines) == (extractor == "all_text")
    assert not any("script" in line or "color" in line for line in lines)


@pytest.mark.parametrize("space", ["\u00a0", "\x0b", "\u2003", " \x0b"])
def test_white_space_without_end(space):
    """One space for any number in a line; takes no time that grows with the square of the number."""
    html = f"<p>a{space * 400_000}b<br>{space}<span>{space}</span>{space}c</p>"
    assert text(html, extractor="all_text") == "a b\nc"


@pytest.mark.parametrize(
    "page", ["", " \n", "<html></html>", "<script>x</script>", "<p>&nbsp;</p>", "\0", "<pre> </pre>"]
)
@pytest.mark.parametrize("extractor", ["blocks", "all_text"])
def test_no_text(page, extractor):
    assert text(page, extractor=extractor) == Drop("no_text", "")


@pytest.mark.parametrize("tag", ["p", "li", "td", "br", "img src=x", "path"])
def test_tags_that_do_not_nest(tag):
    assert text(f"<{tag}>text " * 20_000, extractor="all_text").startswith("text")


REFUSED = {
    "source.extractor_model: x.npz has no effect with source.extractor=all_text; remove it, or use extractor=blocks": {
        "extractor": "all_text", "extractor_model": "x.npz",
    },
    "source.extractor_model: cannot read the model 'x.npz' ([Errno 2] No such file or directory: 'x.npz'); give a file "
    "that benchmarks/data/extractor_training.py wrote": {"extractor_model": "x.npz"},
    "source.extractor: 'resiliparse' gives lines without texts of images only; use blocks or all_text": {
        "extractor": "resiliparse", "text_form": "markdown",
    },
    "source.text_form: 'lines' has neither emphasis nor links; use text_form=markdown": {"links": True},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_settings_without_effect_are_refused(message):
    with pytest.raises(ConfigError) as error:
        Html(paths=("x",), **REFUSED[message])
    assert str(error.value) == message


def test_forms():
    html = "<h1>a <b>b</b></h1><p><a href=c>d</a><img alt=e>"
    whole = {"extractor": "all_text", "text_form": "markdown"}
    assert text(html, extractor="all_text") == "a b\nd"
    assert text(html, **whole) == "# a b\n\nd"
    assert text(html, **whole, emphasis=True, links=True, alt_texts=True) == "# a **b**\n\n[d](c) e"


def test_the_model_is_a_raw_file_of_the_stage():
    (own,) = Warc(paths=("x",)).model_files()
    assert own.bytes > 10_000
    assert Warc(paths=("x",), extractor="all_text").model_files() == ()
    assert Jsonl(paths=("x",)).model_files() == ()
