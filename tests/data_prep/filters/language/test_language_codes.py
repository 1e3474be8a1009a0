"""Codes of languages: each identifier accepts its own, and for others names the code that is meant."""

import shutil
import unicodedata

import pytest

from headrace.data_prep.filters.c4.bad_words import BadWords
from headrace.data_prep.filters.fasttext_model import labels_of, language_model
from headrace.data_prep.filters.language import language_codes
from headrace.data_prep.filters.language.compiled_langdetect import profile_names
from headrace.data_prep.filters.language.identification import Language, LanguageFasttext
from headrace.data_prep.filters.language.language_codes import meant_codes, remedy
from headrace.pipeline.core.errors import ConfigError

BY_SCRIPT = {"eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant", "arb_Arab", "srp_Cyrl", "xyz_Latn"}
"""Labels of a model that distinguishes scripts."""


@pytest.mark.parametrize(
    ("typed", "langdetect", "fasttext", "by_script"),
    [
        ("english", ["en"], ["en"], ["eng_Latn"]),
        ("English", ["en"], ["en"], ["eng_Latn"]),
        ("Englsh", ["en"], ["en"], ["eng_Latn"]),
        ("eng", ["en"], ["en"], ["eng_Latn"]),
        ("EN", ["en"], ["en"], ["eng_Latn"]),
        (" en ", ["en"], ["en"], ["eng_Latn"]),
        ("en-US", ["en"], ["en"], ["eng_Latn"]),
        ("en_GB", ["en"], ["en"], ["eng_Latn"]),
        ("eng_Latn", ["en"], ["en"], ["eng_Latn"]),
        ("ger", ["de"], ["de"], ["deu_Latn"]),
        ("German", ["de"], ["de"], ["deu_Latn"]),
        ("zh", ["zh-cn", "zh-tw"], ["zh"], ["zho_Hans", "zho_Hant"]),
        ("zh_TW", ["zh-tw"], ["zh"], ["zho_Hans", "zho_Hant"]),
        ("zh-Hant", ["zh-cn", "zh-tw"], ["zh"], ["zho_Hant"]),
        ("chinese", ["zh-cn", "zh-tw"], ["zh"], ["zho_Hans", "zho_Hant"]),
        ("cmn", ["zh-cn", "zh-tw"], ["zh"], ["zho_Hans", "zho_Hant"]),
        ("arabic", ["ar"], ["ar"], ["arb_Arab"]),
        ("iw", ["he"], ["he"], []),
        ("jp", ["ja"], ["ja"], []),
        ("nb", ["no"], ["no"], []),
        ("filipino", ["tl"], ["tl"], []),
        ("xyz", [], [], ["xyz_Latn"]),
        ("klingon", [], [], []),
        ("und", [], [], []),
        ("kr", [], [], []),
        ("", [], [], []),
    ],
)
def test_the_code_that_is_meant(typed, langdetect, fasttext, by_script) -> None:
    assert meant_codes(typed, profile_names()) == langdetect
    assert meant_codes(typed, labels_of(language_model())) == fasttext
    assert meant_codes(typed, BY_SCRIPT) == by_script


def test_every_language_of_the_identifiers_has_a_name() -> None:
    rows = [row.partition(":") for row in language_codes.LANGUAGES.read_text(encoding="utf-8").splitlines()]
    codes = [code for one, _, _ in rows for code in one.split()]
    assert len(codes) == len(set(codes))
    assert all(code.isascii() and code.islower() and 2 <= len(code) <= 3 for code in codes)
    assert all(
        name.strip() == unicodedata.normalize("NFC", name.strip()) != ""
        for _, _, names in rows
        for name in names.split(",")
    )
    known = labels_of(language_model()) | {name.partition("-")[0] for name in profile_names()}
    assert known - set(codes) == set()


def test_langdetect_refuses_other_codes() -> None:
    with pytest.raises(ConfigError) as caught:
        Language(languages=("de", "english"))
    assert str(caught.value) == "language.languages: langdetect has no language 'english'; did you mean 'en'?"
    with pytest.raises(ConfigError) as caught:
        Language(languages=("zh",))
    assert str(caught.value).endswith("has no language 'zh'; did you mean 'zh-cn' or 'zh-tw'?")
    with pytest.raises(ConfigError) as caught:
        Language(languages=("klingon",))
    assert "; known: af, ar, bg, " in str(caught.value)
    assert Language(languages=tuple(profile_names())).languages is not None
    assert Language(languages=None).languages is None


def test_fasttext_refuses_labels_that_its_model_has_not(tmp_path) -> None:
    with pytest.raises(ConfigError) as caught:
        LanguageFasttext(languages=("en", "zh-cn")).check()
    assert str(caught.value) == "language_fasttext.languages: lid.176.ftz has no language 'zh-cn'; did you mean 'zh'?"
    LanguageFasttext(languages=("en", "zh", "als", "sah")).check()
    LanguageFasttext(languages=None).check()
    shutil.copy(language_model(), tmp_path / "own.ftz")
    with pytest.raises(ConfigError) as caught:
        LanguageFasttext(path=str(tmp_path / "own.ftz"), languages=("german",)).check()
    assert str(caught.value) == "language_fasttext.languages: own.ftz has no language 'german'; did you mean 'de'?"


def test_lists_of_bad_words() -> None:
    with pytest.raises(ConfigError) as caught:
        BadWords(allowed={"english": ("word",)})
    assert str(caught.value) == "bad_words.allowed: no list for 'english'; did you mean 'en'?"
    with pytest.raises(ConfigError) as caught:
        BadWords(default_language="Norwegian")
    assert str(caught.value) == "bad_words.default_language: no list for 'Norwegian'; did you mean 'no'?"
    assert BadWords(default_language="de").default_language == "de"


def test_lists_of_ones_own_need_no_english(tmp_path) -> None:
    (tmp_path / "de.json").write_text('["wort"]')
    assert BadWords(path=str(tmp_path)).default_language == "en"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("???", "known: de, en, krc"),
        ("enn", "did you mean 'en'?"),
        ("kr", "known: de, en, krc"),
        ("Kanuri", "known: de, en, krc"),
    ],
)
def test_remedies(typed, expected) -> None:
    """A code of another language (kr: Kanuri) is no typing error."""
    assert remedy(typed, {"de", "krc", "en"}) == expected
