"""Both filters by language, what is no language, and that an answer depends on the text alone."""

import hashlib
import json
import random
import shutil

import langdetect
import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import language_model, load
from headrace.data_prep.filters.language.identification import Language, LanguageFasttext, is_noise, letter_share
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.text_files import read_lines

RIVER = "The river runs down the valley and turns the wheel of the old mill, as it has done for a hundred years."
FLUSS = "Der Fluss fließt durch das Tal und treibt das Rad der alten Mühle an, wie er es seit hundert Jahren tut."


@pytest.mark.parametrize("identifier", [Language, LanguageFasttext])
def test_wanted_and_unwanted(identifier) -> None:
    rule = identifier(min_score=0.8)
    document = Document(RIVER, "a:0")
    assert rule.judge(document) is None
    assert document.metadata["language"] == "en"
    assert 0.8 <= document.metadata["language_score"] <= 1
    drop = rule.judge(Document(FLUSS, "a:1"))
    assert drop is not None
    assert drop.rule == rule.type
    assert drop.value.startswith("de ")
    assert identifier(min_score=0.8, languages=("de", "fr")).judge(Document(FLUSS, "a:1")) is None
    assert identifier(min_score=0, languages=None).judge(Document(FLUSS, "a:1")) is None


@pytest.mark.parametrize("identifier", [Language, LanguageFasttext])
def test_text_without_letters(identifier) -> None:
    assert identifier().judge(Document("1 2 3\n4 5", "a:0")) == Drop(identifier().type, "unknown")


def test_langdetect_depends_on_the_text_alone() -> None:
    """The answer depends neither on earlier documents nor on a seed that other code sets."""
    mixed = Document(" ".join([RIVER[:50], FLUSS[:50]]), "a:0")
    rule = Language(languages=None, min_score=0)
    rule.judge(mixed)
    first = dict(mixed.metadata)
    for number in range(5):
        langdetect.DetectorFactory.seed = number
        rule.judge(Document(FLUSS * number, "a:1"))
    rule.judge(mixed)
    assert mixed.metadata == first


def test_score_and_language_are_kept() -> None:
    document = Document(RIVER, "a:0")
    assert LanguageFasttext().judge(document) is None
    [(language, score)] = load(language_model())(RIVER, 1)
    assert document.metadata == {"language": "en", "language_score": score}
    assert language == "en"
    assert LanguageFasttext(min_score=score).judge(document) is None
    assert LanguageFasttext(min_score=score + 1e-6).judge(document) == Drop("language_fasttext", f"en {score:.4f}")
    assert LanguageFasttext(languages=None, min_score=0).judge(Document(FLUSS, "a:1")) is None


def test_only_the_beginning_is_looked_at() -> None:
    document = Document(RIVER + "\n" + FLUSS * 9, "a:0")
    assert LanguageFasttext().judge(document) is not None
    assert LanguageFasttext(max_characters=len(RIVER)).judge(document) is None


def test_a_model_of_ones_own(tmp_path) -> None:
    path = tmp_path / "own.ftz"
    shutil.copy(language_model(), path)
    rule = LanguageFasttext(path=str(path))
    assert rule.judge(Document(RIVER, "a:0")) is None
    [file] = rule.raw_files()
    assert (file.name, file.sha256) == ("own.ftz", hashlib.sha256(path.read_bytes()).hexdigest())
    assert LanguageFasttext().raw_files() == ()
    with pytest.raises(ConfigError) as caught:
        LanguageFasttext(path=str(tmp_path / "none"))
    assert str(caught.value) == (f"language_fasttext.path: there is no file {tmp_path / 'none'}; name a fastText model")
    path = tmp_path / "text"
    path.write_text("no model")
    with pytest.raises(ArtifactError) as error:
        LanguageFasttext(path=str(path)).judge(Document(RIVER, "a:0"))
    assert str(error.value) == (
        f"{path}: is not a fastText model ({path} has wrong file format!); give a .bin or .ftz file"
    )


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
    rows = [json.loads(line) for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst"))][::15]
    texts = [" ".join(row["text"] for row in rows[start : start + 3]) for start in range(0, len(rows), 3)]
    assert len(texts) > 1_600
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
