"""Routing against cleaning each language alone with its own filters."""

import copy
import hashlib
import json
import unicodedata
from pathlib import Path

import pytest
import yaml
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import Drop, read_documents
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.filters.language.by_language import (
    VALUES,
    ByLanguage,
    LanguageValues,
    adapted,
    in_letters,
    language_of,
    merged,
    read_values,
)
from headrace.data_prep.filters.language.language_codes import first_code, foreign_counts
from headrace.data_prep.filters.page_statistics import ScriptStatistics
from headrace.data_prep.filters.quality_rules import (
    AlphabeticWords,
    DuplicateNgrams,
    FineWebQuality,
    GopherQuality,
    GopherRepetition,
    LineBreaks,
    StopWords,
    Symbols,
    TopNgram,
    WordCount,
    WordLength,
)
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.text.scripts import SCRIPTS, main_script
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.documents.cleaning_effects import setting_of_limit
from headrace.pipeline.documents.stored_documents import thresholds_of
from headrace.pipeline.report.funnel import language_funnels
from headrace.pipeline.report.stage_warnings import foreign

CONF = Path(__file__).parents[4] / "conf" / "cleaning"
PRESET = yaml.safe_load((CONF / "multilingual.yaml").read_text(encoding="utf-8"))
[ROUTER] = [entry for entry in PRESET["filters"] if entry["type"] == "by_language"]
GERMAN = "Der Fluss treibt das Rad der Mühle an und die Leute sehen es sich an. "
OTHERS = [
    Document("", "m:0"),
    Document("123 456 789\n" * 20, "m:1"),
    Document(GERMAN * 9 + "Река течёт и вращает колесо старой мельницы, как сто лет назад. " * 9, "m:2"),
    Document(GERMAN * 30, "m:3"),
    Document("yah nadi bahut lambi hai aur iska paani saaf hai " * 9, "m:4", metadata={"language": "hi"}),
]


def router(**changes) -> ByLanguage:
    return decode(Cleaning, {"filters": [{**ROUTER, **changes}]}).filters[0]


@pytest.fixture
def pages(data_folder) -> list[Document]:
    """Pages of twenty sentences in 75 languages, labelled, and ``OTHERS``."""
    sentences: dict[str, list[str]] = {}
    for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst")):
        row = json.loads(line)
        sentences.setdefault(row["lang"], []).append(row["text"])
    made = [
        Document("\n".join(rows[start : start + 20]), f"{language}:{start}", metadata={"language": language})
        for language, rows in sentences.items()
        for start in range(0, 200, 40)
    ]
    return [*made, *copy.deepcopy(OTHERS)]


def alone(page: Document, filters: tuple) -> tuple[Drop | None, str]:
    """The verdict on a copy of ``page`` and its text, by ``filters`` one after the other."""
    page = copy.deepcopy(page)
    drop = next((drop for rule in filters if (drop := rule.judge(page))), None)
    return drop, page.text


def test_it_equals_cleaning_each_language_alone(pages) -> None:
    values, rule = read_values(None), router()
    judged = set()
    for page in [*pages[: -len(OTHERS) : 4], *pages[-len(OTHERS) :]]:
        name = f"{first_code(str(page.metadata.get('language')))}_{main_script(page.text)}"
        before, drop = copy.deepcopy(page), rule.judge(page)
        if name not in values:
            assert drop is not None
            assert drop.rule == "by_language.unlisted"
            assert page == before
            continue
        own, text = alone(before, tuple(adapted(template, values[name]) for template in rule.filters))
        judged.add(name)
        if own is None:
            assert (drop, page.text, page.metadata["language_values"]) == (None, text, name)
        else:
            assert drop == Drop(f"by_language.{name}.{own.rule}", own.value)
            assert page == before
    assert len(judged) >= 70


@pytest.mark.slow
def test_the_preset_keeps_most_pages_of_its_languages(run_clean, tmp_path, pages) -> None:
    """In one run, whatever the order and the number of shards."""
    rows = [json.dumps({"text": page.text}) for page in pages]
    (tmp_path / "in").mkdir()
    half = len(rows) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        (tmp_path / "in" / f"{number}.jsonl").write_text("\n".join(part) + "\n", encoding="utf-8")
    cleaning = decode(Cleaning, PRESET)
    artifact = run_clean(Jsonl(paths=(str(tmp_path / "in"),)), cleaning, tmp_path / "out")
    counts = artifact.counts
    assert counts["kept"] > 0.65 * len(pages)
    funnels = {language.name: language for language in language_funnels(counts)}
    kept = [document for path in artifact.shards("documents") for document in read_documents(path)]
    for name, language in funnels.items():
        assert language.kept == sum(document.metadata["language_values"] == name for document in kept)
        for rule, number in language.dropped.items():
            assert counts[f"dropped:by_language.{name}.{rule}"] == number
    assert sum(language.kept for language in funnels.values()) == counts["kept"] == len(kept)
    assert len(funnels) > 50
    assert not any(key.startswith("foreign:") for key in counts)
    assert foreign(artifact) == ""


def test_values_of_ones_own_replace_single_settings() -> None:
    rule = router(languages={"de_Latn": {"word_count": {"min_words": 3}, "stop_words": None}})
    rules = {own.type: own for own in rule.route("de_Latn")[2].rules}
    assert rules["word_count"].min_words == 3
    assert "stop_words" not in rules
    assert rules["word_length"] == {own.type: own for own in router().route("de_Latn")[2].rules}["word_length"]
    assert merged({"a": {"x": 1, "y": 2}, "b": None}, {"a": {"y": 3}, "b": {"z": 4}, "c": None}) == {
        "a": {"x": 1, "y": 3},
        "b": {"z": 4},
        "c": None,
    }


def test_the_default_is_for_other_languages() -> None:
    page = Document("Bonjour tout le monde.\n" * 30, "a:0", metadata={"language": "xx"})
    drop = Drop("by_language.unlisted", "xx Latn")
    assert router().judge(page) == drop
    rule = router(languages={"default": {"gopher_repetition": {"rules": []}, "duplicate_lines": None}})
    assert rule.judge(page) == Drop("by_language.default.gopher_quality.stop_words", "0")
    name = "by_language.default.gopher_quality.stop_words"
    assert list(foreign_counts([rule], page, "xx", None)) == [f"foreign:{name}:xx"]


def test_the_values_of_the_project_decide_the_address() -> None:
    [file] = ByLanguage(filters=(GopherQuality(),)).raw_files()
    assert (file.name, file.sha256) == (VALUES.name, hashlib.sha256(VALUES.read_bytes()).hexdigest())


def test_an_own_file(tmp_path) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"de_Latn": {"rules": {"word_count": {"min_words": 2}}}}', encoding="utf-8")
    rule = ByLanguage(path=str(path), filters=(GopherQuality(rules=(WordCount(),)),))
    assert rule.judge(Document("Guten Tag", "a:0", metadata={"language": "de"})) is None
    assert rule.judge(Document("Good day", "a:1", metadata={"language": "en"})) == Drop(
        "by_language.unlisted", "en Latn"
    )
    [file] = rule.raw_files()
    assert file.name == "own.json"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"languages": {"german": {}}},
            "by_language.languages: the file of values has no language 'german'; did you mean 'de_Latn'?",
        ),
        (
            {"languages": {"de_Latn": {"word_cuont": {}}}},
            "languages.de_Latn.word_cuont: no rule of the filters is 'word_cuont'; did you mean 'word_count'?",
        ),
        (
            {"languages": {"de_Latn": {"word_count": {"min_word": 3}}}},
            "word_count.min_word: unknown key 'min_word'; did you mean 'min_words'?",
        ),
        (
            {"languages": {"de_Latn": {"word_count": {"min_words": -3}}}},
            "word_count.min_words: must be at least 0 (got -3); correct the value",
        ),
        ({"path": "nowhere.json"}, "by_language.path: there is no file"),
    ],
)
def test_wrong_values(changes, message) -> None:
    with pytest.raises(ConfigError) as caught:
        router(**changes)
    assert message in str(caught.value)


def test_a_reason_is_explained_with_the_values_of_its_language() -> None:
    cleaning = decode(Cleaning, PRESET)
    reason = "by_language.de_Latn.gopher_quality.stop_words"
    explanation = explained(reason, cleaning.filters)
    assert explanation.sentence.startswith("Drops pages with fewer than 2 of the words die und der in")
    assert explanation.of_value("1") == "1 of these words, 2 needed"
    assert thresholds_of(cleaning, "by_language.zh_Hani.gopher_quality.word_count") == {
        "min_words": 80.0,
        "max_words": 160000.0,
    }
    unlisted = explained("by_language.unlisted", cleaning.filters)
    assert unlisted.of_value("hi Latn") == "language and script of the page: hi Latn"
    setting = setting_of_limit(cleaning, "by_language.de_Latn.gopher_quality.word_count", "min_words")
    assert setting == "+cleaning.filters.by_language.languages.de_Latn.word_count.min_words"


ENGLISH_RULES = {
    "c4_lines": ["c4_lines.end_mark", "c4_lines.sentences"],
    "gopher_quality": ["gopher_quality.stop_words"],
    "gopher_repetition": [],
    "line_corrections": ["line_corrections.counter_line", "line_corrections.cut_phrase"],
    "fineweb_quality": ["fineweb_quality"],
    "long_lines": [],
    "unique_lines": ["unique_lines.sentences"],
    "unique_spans": ["unique_spans"],
}


@pytest.mark.parametrize("kind", ENGLISH_RULES)
def test_rules_for_english_are_named(kind) -> None:
    [rule] = decode(Cleaning, {"filters": [{"type": kind}]}).filters
    assert list(rule.english_rules(Document("text", "a:0"))) == ENGLISH_RULES[kind]


def test_rules_for_another_language_are_not() -> None:
    page = Document("text", "a:0")
    assert GopherQuality(rules=(StopWords(words=("der", "und")),)).english_rules(page) == ()
    assert GopherQuality(counting="datatrove").english_rules(page) == ("gopher_quality",)
    marks = {"type": "c4_lines", "sentences": "marks", "rules": [{"type": "end_mark", "marks": [".", "。"]}]}
    [lines] = decode(Cleaning, {"filters": [marks]}).filters
    assert lines.english_rules(page) == ()


def test_english_rules_on_other_languages_are_counted_with_a_warning(run_clean, tmp_path) -> None:
    """Those before the identification judge a page of unknown language, and those after a drop do not judge it."""
    rows = [GERMAN * 9, "The mill is old and the wheel of it has stood still. " * 9, "Kurz."]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows), encoding="utf-8")
    quality = {"type": "gopher_quality", "rules": [{"type": "stop_words"}, {"type": "word_count"}]}
    filters = [quality | {"rules": []}, {"type": "c4_lines", "min_sentences": 1, "rules": []}]
    filters += [
        {"type": "language_fasttext", "languages": ["de", "en"], "min_score": 0.3},
        quality,
        {"type": "unique_lines"},
    ]
    cleaning = decode(Cleaning, {"filters": filters})
    artifact = run_clean(Jsonl(paths=(str(tmp_path / "in.jsonl"),)), cleaning, tmp_path / "out")
    counted = {key: number for key, number in artifact.counts.items() if key.startswith("foreign:")}
    assert counted == {"foreign:gopher_quality.stop_words:de": 2}
    assert foreign(artifact) == (
        "rules for English judged documents in other languages (de 2), by gopher_quality.stop_words 2; "
        "cleaning=multilingual has values for each language"
    )


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
    made = [rule for rule in adapted(GopherQuality(counting="scripts"), OWN[name]).rules if rule.type == "stop_words"]
    assert [rule.words for rule in made] in ([], [tuple(words or StopWords().words)])
    assert len(made) == (OWN[name].rules.get("stop_words", {}) is not None)


def test_most_pages_of_each_language_have_its_stop_words(data_folder) -> None:
    """Pages of twenty of the sentences that the values were not made from."""
    sentences: dict[str, list[str]] = {}
    for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst")):
        row = json.loads(line)
        sentences.setdefault(row["lang"], []).append(row["text"])
    for language, rows in sentences.items():
        pages = ["\n".join(rows[start : start + 40 : 2]) for start in range(1, len(rows) - 40, 160)]
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
