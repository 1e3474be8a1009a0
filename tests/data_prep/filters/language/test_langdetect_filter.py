import langdetect
import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.language.fasttext_filter import LanguageFasttext
from headrace.data_prep.filters.language.langdetect_filter import Language

ENGLISH = "The river runs down the valley and turns the wheel of the old mill, as it has done for a hundred years."
GERMAN = "Der Fluss fließt durch das Tal und treibt das Rad der alten Mühle an, wie er es seit hundert Jahren tut."


@pytest.mark.parametrize("identifier", [Language, LanguageFasttext])
def test_wanted_and_unwanted(identifier) -> None:
    rule = identifier(min_score=0.8)
    document = Document(ENGLISH, "a:0")
    assert rule.judge(document) is None
    assert document.metadata["language"] == "en"
    assert 0.8 <= document.metadata["language_score"] <= 1
    drop = rule.judge(Document(GERMAN, "a:1"))
    assert drop is not None
    assert drop.rule == rule.type
    assert drop.value.startswith("de ")
    assert identifier(min_score=0.8, languages=("de", "fr")).judge(Document(GERMAN, "a:1")) is None
    assert identifier(min_score=0, languages=None).judge(Document(GERMAN, "a:1")) is None


@pytest.mark.parametrize("identifier", [Language, LanguageFasttext])
def test_text_without_letters(identifier) -> None:
    assert identifier().judge(Document("1 2 3\n4 5", "a:0")) == Drop(identifier().type, "unknown")


def test_score_decides() -> None:
    document = Document(ENGLISH + " " + GERMAN, "a:0")
    langdetect.DetectorFactory.seed = 0
    best = langdetect.detect_langs(document.text)[0]
    assert Language(languages=None, min_score=best.prob).judge(document) is None
    assert document.metadata["language_score"] == best.prob


def test_langdetect_depends_on_the_text_alone() -> None:
    """The answer depends neither on earlier documents nor on a seed that other code sets."""
    mixed = Document(" ".join([ENGLISH[:50], GERMAN[:50]]), "a:0")
    rule = Language(languages=None, min_score=0)
    rule.judge(mixed)
    first = dict(mixed.metadata)
    for number in range(5):
        langdetect.DetectorFactory.seed = number
        rule.judge(Document(GERMAN * number, "a:1"))
    rule.judge(mixed)
    assert mixed.metadata == first
