import io
import json

import langdetect
import pytest
import zstandard
from datatrove.data import Document

from data_prep.document import Drop
from data_prep.filters.language import Language

ENGLISH = "The river runs down the valley and turns the wheel of the old mill, as it has done for a hundred years."
GERMAN = "Der Fluss fließt durch das Tal und treibt das Rad der alten Mühle an, wie er es seit hundert Jahren tut."


@pytest.mark.parametrize("backend", ["langdetect", "fasttext"])
def test_wanted_and_unwanted(backend) -> None:
    rule = Language(backend=backend, min_score=0.8)
    document = Document(ENGLISH, "a:0")
    assert rule.judge(document) is None
    assert document.metadata["language"] == "en"
    assert 0.8 <= document.metadata["language_score"] <= 1
    drop = rule.judge(Document(GERMAN, "a:1"))
    assert drop is not None
    assert drop.rule == "language"
    assert drop.value.startswith("de ")
    assert Language(backend=backend, min_score=0.8, languages=("de", "fr")).judge(Document(GERMAN, "a:1")) is None
    assert Language(backend=backend, min_score=0, languages=None).judge(Document(GERMAN, "a:1")) is None


@pytest.mark.parametrize("backend", ["langdetect", "fasttext"])
def test_text_without_letters(backend) -> None:
    rule = Language(backend=backend)
    drop = rule.judge(Document("1 2 3\n4 5", "a:0"))
    assert drop is not None
    assert drop.rule == "language"
    assert Language().judge(Document("1 2 3", "a:0")) == Drop("language", "unknown")


def test_score_decides() -> None:
    document = Document(ENGLISH + " " + GERMAN, "a:0")
    langdetect.DetectorFactory.seed = 0
    best = langdetect.detect_langs(document.text)[0]
    assert Language(languages=None, min_score=best.prob).judge(document) is None
    assert document.metadata["language_score"] == best.prob


def test_langdetect_depends_on_the_text_alone() -> None:
    """Neither other documents before it nor a seed that someone else set change the answer."""
    mixed = Document(" ".join([ENGLISH[:50], GERMAN[:50]]), "a:0")
    rule = Language(languages=None, min_score=0)
    rule.judge(mixed)
    first = dict(mixed.metadata)
    for number in range(5):
        langdetect.DetectorFactory.seed = number
        rule.judge(Document(GERMAN * number, "a:1"))
    rule.judge(mixed)
    assert mixed.metadata == first


def test_fasttext_on_real_sentences(data_folder) -> None:
    path = data_folder("language/sentences_75_languages.jsonl.zst")
    rule = Language(backend="fasttext", languages=None, min_score=0)
    right = total = 0
    with io.TextIOWrapper(zstandard.open(path, "rb"), encoding="utf-8") as stream:
        for line in list(stream)[::200]:
            row = json.loads(line)
            if row["lang"] in ("en", "de", "fr", "es", "ru", "ja", "zh", "ar", "pl", "fi"):
                document = Document(row["text"], "a:0")
                rule.judge(document)
                total += 1
                right += document.metadata["language"] == row["lang"]
    assert total > 30
    assert right / total > 0.9
