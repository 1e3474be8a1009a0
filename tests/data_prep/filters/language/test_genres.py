"""Prose of several genres in many languages, which ``cleaning=multilingual`` keeps however it is written, and lists.

prose.yaml has the texts; benchmarks/data/language_genres.py measures the same on real ones.
"""

import unicodedata
from pathlib import Path

import pytest
import yaml
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.page_statistics import DatatroveStatistics, ScriptStatistics
from headrace.data_prep.text.folding import plain_letters
from headrace.pipeline.core.settings import decode

PRESET = Path(__file__).parents[4] / "conf" / "cleaning" / "multilingual.yaml"
PROSE, LISTS = yaml.safe_load((Path(__file__).parent / "prose.yaml").read_text(encoding="utf-8")).values()
FORMS = {"written": str, "capitals": str.upper, "decomposed": lambda text: unicodedata.normalize("NFD", text)}


@pytest.fixture(scope="module")
def filters():
    cleaning = decode(Cleaning, yaml.safe_load(PRESET.read_text(encoding="utf-8")))
    return [rule for rule in cleaning.filters if rule.type in ("language_fasttext", "by_language")]


def verdict(filters, text: str) -> str:
    document = Document(text, "a:0")
    drop = next((drop for rule in filters if (drop := rule.judge(document))), None)
    return "kept" if drop is None else f"{drop.rule} {drop.value}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROSE)
def test_prose_is_kept(filters, name, form) -> None:
    assert verdict(filters, FORMS[form](PROSE[name])) == "kept"


@pytest.mark.parametrize("name", LISTS)
def test_what_is_no_prose_is_dropped(filters, name) -> None:
    assert verdict(filters, LISTS[name]) != "kept"


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("그가 말했다.", True),
        ("ប្រទេសកម្ពុជា។", True),
        ("မြန်မာ။", True),
        ("བོད་ཡིག།", True),
        ("यह घर है।", True),
        ("यह घर है |", True),
        ("ইহা ঘর|", True),
        ("Բարև։", True),
        ("Բարև:", True),
        ("ሰላም።", True),
        ("کیا حال ہے؟", True),
        ("یہ گھر ہے۔", True),
        ("Τι κάνεις;", True),
        ("「もう帰るの」", True),
        ("他說：「好。」", True),
        ("好！）", True),
        ("« Oui ! »", True),
        ("„Ja.“", True),
        ("Wait…", True),
        ("Name:", False),
        ("Kontakt", False),
        ("Home |", False),
        ("int x;", False),
        ("(siehe oben)", False),
        ('"Kontakt"', False),
        ("หน้าแรก", False),
    ],
)
def test_ends_of_lines(line, ends) -> None:
    assert ScriptStatistics(line).ends_sentence(line, None) == ends
    assert not ScriptStatistics(line).ends_sentence(line, ("#",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("İÇİN", "için"),
        ("KIYI", "kıyı"),
        ("ΕΙΝΑΙ", "είναι"),
        ("ΤΟΥΣ", "τους"),
        ("καὶ", "και"),
        ("STRASSE", "straße"),
        ("ETE", "été"),
        ("şi", "și"),
        ("Į̇", "į"),
        ("إلى", "الي"),
        ("فِي", "في"),
        ("علـــى", "على"),
        ("کے", "كے"),
        ("می‌شود", "میشود"),
        ("שֶׁל", "של"),
        (unicodedata.normalize("NFD", "được"), "được"),
        (unicodedata.normalize("NFD", "있다"), "있다"),
        (unicodedata.normalize("NFD", "が"), "が"),
        (unicodedata.normalize("NFD", "ёлка"), "елка"),
    ],
)
def test_one_word_however_it_is_written(one, other) -> None:
    assert plain_letters(one) == plain_letters(other)


@pytest.mark.parametrize(("one", "other"), [("が", "か"), ("में", "मां"), ("ไม้", "ไม"), ("và", "vè"), ("ສີ", "ສິ")])
def test_other_words_stay_others(one, other) -> None:
    assert plain_letters(one) != plain_letters(other)


def test_endings_are_those_of_longer_words() -> None:
    words = ("-는", "-에서", "그리고")
    assert ScriptStatistics("집에서 나는 잔다").present(words) == {"-는", "-에서"}
    assert ScriptStatistics("는 에서 그리고서").present(words) == set()


def test_ngrams_of_scripts_without_spaces_have_none() -> None:
    """Half of the text is one word of four letters, with datatrove's spaces between them it would be more."""
    assert ScriptStatistics("山川海空" * 2 + "犬猫馬牛羊鳥魚花").top_ngram(4) == 0.5
    text = "the mill the mill of the town"
    assert ScriptStatistics(text).top_ngram(2) == DatatroveStatistics(text).top_ngram(2)
