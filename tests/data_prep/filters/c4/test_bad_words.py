import hashlib
import json
import re

import pytest
from datatrove.data import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.bad_words import (
    LISTS,
    BadWords,
    languages_of,
    list_files,
    may_hold,
    searches,
    trie_of,
)
from headrace.pipeline.core.errors import ArtifactError, ConfigError


@pytest.fixture
def lists(tmp_path):
    for name, words in {"en": ["bad", "Worse", "very bad thing", "b+d"], "zh": ["坏"], "fr": ["mal"]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(words), encoding="utf-8")
    (tmp_path / "fr-CA-x.json").write_text('["tabarnak "]', encoding="utf-8")
    return str(tmp_path)


def page(text: str, language: str | None = None, url: str = "http://a.org") -> Document:
    return Document(text, "a:0", metadata={"url": url} | ({"language": language} if language else {}))


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("This is BAD.", None, "bad"),
        ("bad", "en", "bad"),
        ("(bad)", "en-GB", "bad"),
        ("badly and inbad and bad_1", "en", None),
        ("a very\nbad day", "en", "bad"),
        ("a very bad thing", "en", "very bad thing"),
        ("worse and Worse", "en", None),
        ("that is b+d.", "en", "b+d"),
        ("that is bbd.", "en", None),
        ("这很坏吗", "zh-cn", "坏"),
        ("c'est mal", "fr", "mal"),
        ("oh tabarnak!", "fr", "tabarnak"),
        ("tabarnak", "en", None),
        ("bad", "de", None),
    ],
)
def test_words_by_language(text, language, found, lists) -> None:
    drop = BadWords(path=lists).judge(page(text, language))
    assert drop == (None if found is None else Drop("bad_words", found))


def test_filipino_has_two_codes() -> None:
    assert BadWords().judge(page("ang bobo mo", "tl")) == Drop("bad_words", "bobo")
    assert BadWords().judge(page("ang bobo mo", "fil")) == Drop("bad_words", "bobo")
    assert BadWords().judge(page("ang bobo mo", "en")) is None


def test_the_lists_are_those_of_c4() -> None:
    """TFDS text/c4.py, ``_BADWORDS_LANGS``."""
    expected = "ar cs da de en eo es fa fi fil fr fr-CA-u-sd-caqc hi hu it ja kab ko nl no pl pt ru sv th tlh tr zh"
    assert [path.stem for path in list_files(None)] == sorted(expected.split(), key=lambda name: f"{name}.json")


def test_allowed_entries_do_not_count(lists) -> None:
    assert BadWords(path=lists, allowed={"en": ("bad",)}).judge(page("a bad day")) is None
    assert BadWords(path=lists, allowed={"en": ("bad",)}).judge(page("a very bad thing")) is not None


def test_the_md5_of_the_url_decides_which_pages_are_spared(lists) -> None:
    rule = BadWords(path=lists, filter_fraction=0.75)
    spared = []
    for number in range(200):
        url = f"https://www.a.org/{number}/"
        spared.append(rule.judge(page("bad", url=url)) is None)
        assert spared[-1] == (int(hashlib.md5(f"a.org/{number}".encode()).hexdigest(), 16) % 4 == 3)
    assert 20 < sum(spared) < 80
    assert BadWords(path=lists, filter_fraction=0).judge(page("bad")) is None


@pytest.mark.parametrize("language", sorted(languages_of(list_files(None))))
def test_every_entry_of_the_carried_lists_is_found(language) -> None:
    files = languages_of(list_files(None))[language]
    entries = {entry.strip() for file in files for entry in json.loads(file.read_text(encoding="utf-8"))}
    rule = BadWords()
    for entry in entries:
        if entry == entry.lower():
            assert rule.judge(page(f"x {entry} y", language)) is not None, entry


def test_lists_and_licence_are_there() -> None:
    assert len(list_files(None)) == 28
    assert "CC-BY-4.0" in (LISTS / "README.md").read_text(encoding="utf-8")


def test_errors(tmp_path, lists) -> None:
    with pytest.raises(ConfigError) as caught:
        BadWords(path=str(tmp_path / "none"))
    assert str(caught.value) == (
        f"bad_words.path: {tmp_path / 'none'} holds no <language>.json; name a folder of JSON lists of words"
    )
    with pytest.raises(ConfigError) as caught:
        BadWords(path=lists, allowed={"enn": ("x",)})
    assert str(caught.value) == "bad_words.allowed: no list for 'enn'; did you mean 'en'?"
    (tmp_path / "de.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ArtifactError) as error:
        BadWords(path=lists).judge(page("x", "de"))
    assert str(error.value) == (
        f"{tmp_path / 'de.json'}: is not a list of words; write a JSON list of non-empty strings"
    )


def test_own_lists_decide_the_address(lists) -> None:
    assert [file.name for file in BadWords(path=lists).raw_files()] == ["en.json", "fr-CA-x.json", "fr.json", "zh.json"]
    assert BadWords().raw_files() == ()


entries = st.lists(st.text("abB+é \u0307ßσ坏_", min_size=1, max_size=4), max_size=8)
PIECES = [*"aAbB+éÉ \u0307ßẞσ坏_.\n\u212ai", "ab", " bb ", "a b"]
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def found(words: list[str], anywhere: bool, text: str) -> bool:
    entry = f"({'|'.join(map(re.escape, words))})" if words else "(?!)"
    return re.search(entry if anywhere else rf"(?:\W|^){entry}(?:\W|$)", text.lower()) is not None


@given(words=entries, text=texts | st.text(st.characters(exclude_characters="İΣ")), anywhere=st.booleans())
@settings(max_examples=200)
def test_equal_to_the_regular_expression(words, text, anywhere) -> None:
    assert may_hold(text, trie_of(words, anywhere)) == found(words, anywhere, text)


@given(words=st.lists(st.text("iσςΣ\u0307a", min_size=1, max_size=3)), text=st.text("İΣσa. "), anywhere=st.booleans())
@settings(max_examples=200)
def test_where_python_alone_knows_the_lower_case_nothing_is_missed(words, text, anywhere) -> None:
    assert may_hold(text, trie_of(words, anywhere)) >= found(words, anywhere, text)


@pytest.mark.parametrize("text", ["", "a", "ab ab", "ſ\u212a"])
def test_without_entries_nothing_is_found(text) -> None:
    assert not may_hold(text, trie_of([], False))


def test_an_entry_that_begins_like_another() -> None:
    tree = trie_of(["very bad", "very bad thing", "bad"], False)
    assert may_hold("a very bad day", tree)
    assert may_hold("a very BAD", tree)
    assert not may_hold("very badly, inbad", tree)


@pytest.mark.parametrize("language", sorted(languages_of(list_files(None))))
def test_the_carried_lists(language) -> None:
    tree, pattern = searches(language, None, ())
    text = "Nothing is wrong with the old mill by the river; 水はきれいです。"
    assert may_hold(text, tree) == (pattern.search(text.lower()) is not None)


def test_real_pages(web_texts) -> None:
    tree, pattern = searches("en", None, ())
    found = [may_hold(text, tree) for text in web_texts]
    assert found == [pattern.search(text.lower()) is not None for text in web_texts]
    assert 0 < sum(found) < len(found) / 4
