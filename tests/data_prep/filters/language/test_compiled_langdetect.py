"""The compiled identification against the package langdetect itself: equal languages, equal probabilities."""

import math
import sys

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langdetect import DetectorFactory, detect_langs
from langdetect.lang_detect_exception import LangDetectException
from langdetect.utils.ngram import NGram

from headrace.data_prep.filters.language import compiled_langdetect
from headrace.data_prep.filters.language.compiled_langdetect import (
    OTHER,
    OTHER_CAPITAL,
    SPACE,
    identify,
    load,
    probabilities,
)
from headrace.data_prep.text.folding import CODE_POINTS
from headrace.pipeline.core.text_files import read_lines

PIECES = [
    "The river runs down the valley. ",
    "Der Fluss fließt durch das Tal, ",
    "La rivière descend la vallée ",
    "NATO and the EU ",
    "McDonald's iPHONE XIIth ABc aBC ",
    "Вода течёт с горы ",
    "水從山上流下來 ",
    "ダムの水が流れる ひらがな ",
    "물이 산에서 흐른다 ",
    "آب از کوه پایین می‌آید ",
    "Nu\u0301i non vie\u0323\u0302t ",
    "nước chảy từ trên núi xuống ",
    "see https://example.org/a?b=c&d=e#f now ",
    "http://",
    "mail some.one-x@example.co.uk ",
    "@",
    "  ",
    "\n",
    "\u00a0\u3000",
    "1234 ",
    "\U00010400\U00010401 \U0001f600 ",
    "\ud800",
    "ÀÉÎ ÀÉÎ İstanbul ǅ ",
    "\u0219i \u021bar\u0103 ",
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def reference(text: str) -> tuple[str, float] | None:
    DetectorFactory.seed = 0
    try:
        guesses = detect_langs(text)
    except LangDetectException:
        return None
    return (guesses[0].lang, guesses[0].prob) if guesses else None


@pytest.fixture(scope="module")
def sentences(data_folder) -> list[str]:
    """74,141 sentences in 75 languages."""
    path = data_folder("language/sentences_75_languages.jsonl.zst")
    return [orjson.loads(line)["text"] for line in read_lines(path)]


@given(text=texts | st.text() | st.text(st.characters(max_codepoint=0x17F)))
@example(text="")
@example(text="a" * 20_000)
@example(text="ab cd " * 3_000 + "Der Fluss fließt durch das Tal." * 50)
@example(text="x@y.z " + "水從山上流下來" * 3 + "latin letters stay")
@example(text="Вода течёт 水從山上 nước chảy từ trên núi xuống")
@example(text="水從山上流下來" * 30 + "few latin go")
@settings(max_examples=60)
def test_made_texts(text) -> None:
    assert identify(text) == reference(text)


def test_real_texts(web_texts, sentences) -> None:
    compared = web_texts[::16] + sentences[::1200]
    assert [identify(text) for text in compared] == [reference(text) for text in compared]


@pytest.mark.slow
def test_more_real_texts(all_web_texts, sentences) -> None:
    """All pages and all sentences: benchmarks/records/clean_throughput_2core_epyc_2026-11.md."""
    compared = all_web_texts[1::12] + sentences[1::84]
    assert [text for text in compared if identify(text) != reference(text)] == []


def test_characters_are_normalized_as_langdetect_does() -> None:
    _, tables = load()
    capital = tables.capital[tables.characters]
    for code in (*range(0x10000), *range(0x10000, CODE_POINTS, 97)):
        normal = NGram.normalize(chr(code))
        assert capital[code] == normal.isupper()
        assert (tables.characters[code] == SPACE) == (normal == " ")
    assert tables.characters[ord("a")] > OTHER_CAPITAL
    assert tables.characters[0x10400] == OTHER_CAPITAL
    assert tables.characters[0x1F600] == OTHER


def test_a_text_without_a_sure_language_ends() -> None:
    """The largest possible number of draws: n-grams without information never make a language sure."""
    languages, tables = load()
    even = tables._replace(frequencies=np.full_like(tables.frequencies, 0.001))
    for number in (1, 2, 4, 1025):
        found = probabilities(np.zeros(number, np.int32), even, False)
        assert found == pytest.approx(1 / len(languages))


def test_both_ways_of_adding_up() -> None:
    """Python adds floats plainly up to 3.11 and carries the rounding error along from 3.12 on."""
    assert compiled_langdetect.COMPENSATED_SUM is (sys.version_info >= (3, 12))
    values = np.array([1.0, 1e16, -1e16, 3.0])
    for compensated, total in ((False, 3.0), (True, math.fsum(values))):
        shares = values.copy()
        compiled_langdetect._normalize(shares, compensated)
        assert shares.tolist() == [value / total for value in values]
