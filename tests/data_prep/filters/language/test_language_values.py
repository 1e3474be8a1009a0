"""The values of each language, and rules with them, against the same settings written by hand."""

import json
import unicodedata

import pytest

from headrace.data_prep.filters.fineweb_quality import FineWebQuality, LineBreaks
from headrace.data_prep.filters.gopher.quality import AlphabeticWords, GopherQuality, Symbols, WordCount, WordLength
from headrace.data_prep.filters.gopher.repetition import DuplicateNgrams, GopherRepetition, TopNgram
from headrace.data_prep.filters.gopher.stop_words import StopWords
from headrace.data_prep.filters.language.language_codes import first_code
from headrace.data_prep.filters.language.language_values import (
    VALUES,
    LanguageValues,
    adapted,
    in_letters,
    language_of,
    read_values,
)
from headrace.data_prep.filters.page_statistics import ScriptStatistics
from headrace.data_prep.text.scripts import SCRIPTS, main_script
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.text_files import read_lines

OWN = read_values(None)
NEEDED = (
    "ar bn cs da de el en es fa fi fr gu he hi hu hy id it ja ka km ko lo lt mr my nl no pa pl pt ro ru sr sv ta te th "
    "tr uk ur vi zh"
)


def test_there_are_many_languages_and_scripts() -> None:
    assert len(OWN) >= 75
    assert len({name.partition("_")[2] for name in OWN}) >= 20
    assert set(NEEDED.split()) <= {name.partition("_")[0] for name in OWN}
    assert list(json.loads(VALUES.read_text(encoding="utf-8"))) == sorted(OWN)


@pytest.mark.parametrize("name", OWN)
def test_an_entry_is_a_language_with_its_script(name) -> None:
    language, _, script = name.partition("_")
    assert first_code(language) == language
    assert script in SCRIPTS.values()
    words = (OWN[name].rules.get("stop_words") or {}).get("words", [])
    text = " ".join(words)
    assert not words or language_of(language, text, OWN) == name
    assert unicodedata.is_normalized("NFC", text)
    assert len(words) == len(set(words))
    assert all(word == word.lower() for word in words)


@pytest.mark.parametrize("name", OWN)
def test_its_rules_can_be_made(name) -> None:
    quality = adapted(GopherQuality(counting="scripts"), OWN[name])
    kinds = {rule.type: rule for rule in quality.rules}
    values = OWN[name].rules.get("stop_words", {"words": StopWords().words})
    assert ("stop_words" in kinds) == (values is not None)
    assert values is None or kinds["stop_words"].words == tuple(values["words"])


def test_most_pages_of_each_language_have_its_stop_words(data_folder) -> None:
    """Pages of twenty of the sentences that the values were not made from."""
    sentences: dict[str, list[str]] = {}
    for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst")):
        row = json.loads(line)
        sentences.setdefault(row["lang"], []).append(row["text"])
    for language, rows in sentences.items():
        pages = ["\n".join(rows[start : start + 40 : 2]) for start in range(1, len(rows) - 40, 40)]
        name = language_of(language, pages[0], OWN)
        rule = next(rule for rule in adapted(GopherQuality(), OWN[name]).rules if rule.type == "stop_words")
        kept = [rule.failure(ScriptStatistics(page)) is None for page in pages]
        assert sum(kept) >= len(kept) - 1, language


@pytest.mark.parametrize(
    ("code", "text", "name"),
    [
        ("de", "Das ist gut", "de_Latn"),
        ("deu_Latn", "Das ist gut", "de_Latn"),
        ("zh-cn", "这是", "zh_Hani"),
        ("ja", "東京都", "ja_Jpan"),
        ("ja", "これは東京", "ja_Jpan"),
        ("sr", "Ово је", "sr_Cyrl"),
        ("sr", "Ovo je", "sr_Latn"),
        ("hi", "yah theek hai", None),
        ("xx", "text", None),
        (None, "text", None),
        ("de", "1234", None),
    ],
)
def test_the_entry_of_a_text(code, text, name) -> None:
    assert language_of(code, text, OWN) == name


def test_values_are_those_written_by_hand() -> None:
    values = LanguageValues(
        rules={
            "word_count": {"min_words": 30},
            "stop_words": {"words": ["der", "und"], "min_words": 1},
            "symbols": None,
            "top_ngram_3": {"max_fraction": 0.5},
            "duplicate_ngrams": {"max_fraction": 0.4},
            "fineweb_quality": {"counting": "paper"},
        }
    )
    quality = GopherQuality(rules=(WordCount(), Symbols(), StopWords(), WordLength()))
    assert adapted(quality, values) == GopherQuality(
        rules=(WordCount(min_words=30), StopWords(words=("der", "und"), min_words=1), WordLength())
    )
    rules = tuple(TopNgram(words=n, max_fraction=0.2) for n in (2, 3))
    repetition = GopherRepetition(rules=(*rules, DuplicateNgrams(words=5, max_fraction=0.1)))
    assert adapted(repetition, values).rules == (
        TopNgram(words=2, max_fraction=0.2),
        TopNgram(words=3, max_fraction=0.5),
        DuplicateNgrams(words=5, max_fraction=0.4),
    )
    assert adapted(FineWebQuality(), values) == FineWebQuality(counting="paper")
    assert adapted(quality, LanguageValues()) == quality


def test_numbers_of_words_become_numbers_of_letters() -> None:
    """A text of made words of three letters has the same verdict by words as by its letters."""
    assert in_letters(WordCount(min_words=50, max_words=100), 3.0) == WordCount(min_words=150, max_words=300)
    assert in_letters(TopNgram(words=2, max_fraction=0.2), 1.7) == TopNgram(words=3, max_fraction=0.2)
    assert in_letters(LineBreaks(max_per_word=0.3), 3.0).max_per_word == pytest.approx(0.1)
    assert in_letters(Symbols(max_fraction=0.3), 3.0).max_fraction == pytest.approx(0.1)
    assert in_letters(WordLength(), 3.0).min_characters == 0
    for words, marks in ((8, 2), (5, 5), (1, 9)):
        of_words = AlphabeticWords(min_fraction=words / (words + marks))
        of_letters = 3 * words / (3 * words + marks)
        assert in_letters(of_words, 3.0).min_fraction == pytest.approx(of_letters)
    assert in_letters(WordCount(), 1.0) == WordCount()


@pytest.mark.parametrize("counting", ["paper", "datatrove"])
def test_only_scripts_counts_letters(counting) -> None:
    assert adapted(GopherQuality(counting=counting), LanguageValues(characters_per_word=3.0)).rules[0] == WordCount()


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", ArtifactError, "own.json: is not a JSON file"),
        ("[1]", ConfigError, "own.json: is no object of languages; write"),
        ('{"german": {}}', ConfigError, "own.json: 'german' is no language and script; write an ISO 639 and a script"),
        ('{"de_Latin": {}}', ConfigError, "own.json: 'de_Latin' is no language and script; write an ISO 639 and a"),
        ('{"deu_Latn": {}}', ConfigError, "own.json: 'deu_Latn' is not the shortest code; write 'de_Latn'"),
        ('{"de_Latn": 1}', ConfigError, "own.json: is no object of languages; write"),
        ('{"de_Latn": {"rule": {}}}', ConfigError, "own.json.de_Latn.rule: unknown key 'rule'; did you mean 'rules'?"),
    ],
)
def test_wrong_files(tmp_path, content, error, message) -> None:
    path = tmp_path / "own.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(error) as caught:
        read_values(str(path))
    assert message in str(caught.value)


def test_scripts_of_the_texts_are_those_of_the_entries(data_folder) -> None:
    rows = [json.loads(line) for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst"))][::40]
    named = [(row["lang"], main_script(row["text"])) for row in rows]
    right = sum(f"{first_code(language)}_{script}" in OWN for language, script in named)
    assert right > 0.99 * len(named)
