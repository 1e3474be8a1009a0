import hashlib
import json
import re

import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.bad_words import LISTS, BadWords, alternatives, languages_of, list_files
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


words = st.lists(st.text("ab+ c", min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1, max_size=8)


@given(words=words, text=st.text("ab+ c.\n", max_size=20))
def test_the_tree_finds_what_the_list_finds(words, text) -> None:
    plain = r"(?:\W|^)({})(?:\W|$)".format("|".join(map(re.escape, words)))
    tree = rf"(?:\W|^)({alternatives(words)})(?:\W|$)"
    assert bool(re.search(tree, text)) == bool(re.search(plain, text))
    assert bool(re.search(alternatives(words), text)) == any(word in text for word in words)


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
