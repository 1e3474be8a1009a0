import json
import random

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.language.fasttext_filter import LanguageFasttext
from headrace.data_prep.filters.language.no_language import is_noise, letter_share
from headrace.pipeline.core.text_files import read_lines

ALPHABETS = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz0123456789+/"]


def random_text(alphabet: str, seed: int) -> str:
    source = random.Random(seed)
    return " ".join("".join(source.choices(alphabet, k=source.randint(4, 12))) for _ in range(40))


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_random_letters_are_noise(alphabet) -> None:
    texts = [random_text(alphabet, seed) for seed in range(200)]
    assert sum(map(is_noise, texts)) >= 199


@pytest.mark.parametrize(
    "text", ["", "   ", "12:30 47.1 % >>> | <<< 2024-01-01", "١٢٣٤٥ ٦٧٨٩", "१२३ ४५६ ७८९", "★★★★☆ (17) →", "a 1 2 3 4 5"]
)
def test_digits_and_symbols_of_any_script_are_noise(text) -> None:
    assert is_noise(text)


@pytest.mark.parametrize("text", ["नदी बहती है", "xqzt", "ภาษาไทย ที่นี่", "The mill stood still.", "東京 20"])
def test_letters_with_marks_and_short_texts_are_not(text) -> None:
    assert not is_noise(text)


def test_marks_belong_to_letters() -> None:
    assert letter_share("ที่ 1") == 3 / 4


def test_real_text_in_75_languages_is_not_noise(data_folder) -> None:
    rows = [json.loads(line) for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst"))][::5]
    texts = [" ".join(row["text"] for row in rows[start : start + 3]) for start in range(0, len(rows), 3)]
    assert len(texts) > 4_000
    assert not any(map(is_noise, texts))


def test_the_filter_drops_noise_when_asked() -> None:
    text = random_text(ALPHABETS[0], 1)
    named = LanguageFasttext(languages=None, min_score=0)
    assert named.judge(Document(text, "a:0")) is None
    noise = LanguageFasttext(languages=None, min_score=0, noise=True)
    assert noise.judge(Document(text, "a:0")) == Drop("language_fasttext", "noise")


def test_capitals_are_identified_in_lower_case_when_asked() -> None:
    text = "DER FLUSS FLIESST DURCH DAS TAL UND TREIBT DAS RAD DER ALTEN MÜHLE AN."
    rule = LanguageFasttext(languages=("de",), lower_case=True)
    upper, lower = Document(text, "a:0"), Document(text.lower(), "a:0")
    assert rule.judge(upper) is None
    assert LanguageFasttext(languages=("de",)).judge(lower) is None
    assert upper.metadata == lower.metadata
    assert upper.text == text
    assert LanguageFasttext(languages=("de",)).judge(Document(text, "a:0")) is not None
