"""Words against a loop over characters and against ICU, sentences of many scripts."""

import importlib.util
import json
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.text.segments import (
    DECIMAL,
    JOINERS,
    REPEATED,
    icu_segments,
    is_unspaced,
    sentence_segments,
    word_segments,
)
from headrace.data_prep.text.words import ALONE_RANGES
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import read_lines

HAS_ICU = importlib.util.find_spec("icu4py") is not None
SENTENCES = {
    "en": ("It ran. Did it? Yes!", 3),
    "de": ("Er kam z. B. am Abend. Es war 7 Uhr.", 2),
    "el": ("Ήρθε. Γιατί;", 2),
    "ru": ("Он пришёл. Зачем?", 2),
    "ar": ("جاء الرجل. لماذا؟ لا أعرف.", 3),
    "ur": ("وہ آیا۔ کیوں؟", 2),
    "hi": ("वह आया। क्यों? पता नहीं।", 3),
    "am": ("መጣ። ለምን፧", 2),
    "hy": ("Նա եկավ։ Գնաց։", 2),
    "zh": ("他来了。为什么？不知道！", 3),
    "ja": ("彼は来た。なぜ？「知らない。」と言った。", 4),
    "ko": ("그가 왔다. 왜? 모른다.", 3),
    "my": ("သူလာသည်။ ဘာကြောင့်လဲ။", 2),
    "km": ("គាត់មក។ ហេតុអ្វី?", 2),
    "th": ("เขามา ทำไม", 2),
    "lo": ("ລາວມາ ຍ້ອນຫຍັງ", 2),
    "lines": ("Home\nAbout\n\n…\n", 2),
    "empty": ("", 0),
    "version": ("Version 3.14 of v1.2 is out", 1),
    "lower": ("The firm, e.g. ours, etc. and others", 1),
}


def alone(character: str) -> bool:
    return character.isalnum() and any(first <= ord(character) <= last for first, last in ALONE_RANGES)


def by_characters(text: str) -> list[str]:
    """The words of ``text``, one character after the other."""
    words: list[str] = []
    state = "space"
    for place, character in enumerate(text):
        is_mark = unicodedata.category(character)[0] == "M" or character in JOINERS
        if is_mark and state in ("word", "alone"):
            words[-1] += character
        elif alone(character):
            words.append(character)
            state = "alone"
        elif character.isalnum() or character == "_":
            words[-1:] = [words[-1] + character] if state == "word" else [*words[-1:], character]
            state = "word"
        elif continues(text, place, state):
            words[-1] += character
        elif not character.isspace() and not is_mark:
            words.append(character)
            state = "mark"
        else:
            state = "space"
    return words


def continues(text: str, place: int, state: str) -> bool:
    """Whether the mark at ``place`` belongs to a number, to a run of marks, or stands between letters."""
    character, following = text[place], text[place + 1 : place + 2]
    if character in REPEATED and place and text[place - 1] in REPEATED:
        return True
    if state != "word":
        return False
    in_number = character in DECIMAL and is_digit(text[place - 1]) and joins(following)
    return in_number or (character in "'’" and starts_word(following))


def is_digit(character: str) -> bool:
    return unicodedata.category(character) == "Nd"


def joins(character: str) -> bool:
    return bool(character) and is_digit(character) and starts_word(character)


def starts_word(character: str) -> bool:
    return (character.isalnum() or character == "_") and not alone(character)


ALPHABET = "aZé98_:= \n'’.,-…क्षिा\u0301今カーไท้ย\u200cبم🙂"


@given(st.text(ALPHABET, max_size=40))
def test_words_are_those_of_a_loop_over_characters(text) -> None:
    assert word_segments(text) == by_characters(text)


def test_words_of_real_sentences_are_those_of_the_loop(data_folder) -> None:
    for line in list(read_lines(data_folder("language/sentences_75_languages.jsonl.zst")))[::50]:
        text = json.loads(line)["text"]
        assert word_segments(text) == by_characters(text), text


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences(name) -> None:
    text, number = SENTENCES[name]
    sentences = sentence_segments(text)
    assert len(sentences) == number, sentences
    removed = "".join(text.split()), "".join("".join(sentences).split())
    assert Counter(filter(str.isalnum, removed[0])) == Counter(filter(str.isalnum, removed[1]))


@pytest.mark.skipif(HAS_ICU, reason="icu4py is installed")
def test_icu_names_its_extra() -> None:
    with pytest.raises(ConfigError) as caught:
        icu_segments("text")
    remedy = "pip install 'headrace[languages]', or set counting=scripts"
    assert str(caught.value) == f"counting: icu4py is not installed; {remedy}"


@pytest.mark.skipif(not HAS_ICU, reason="needs icu4py: pip install 'headrace[languages]'")
def test_words_of_spaced_languages_are_nearly_those_of_icu(data_folder) -> None:
    """Of words with letters. ICU also joins numbers with their marks and words with full stops inside."""
    same, all_words = Counter(), Counter()
    for line in read_lines(data_folder("language/sentences_75_languages.jsonl.zst")):
        row = json.loads(line)
        if not any(map(is_unspaced, row["text"])):
            own, icu = (
                Counter(word for word in words if any(map(str.isalpha, word)))
                for words in (word_segments(row["text"]), icu_segments(row["text"]))
            )
            same[row["lang"]] += (own & icu).total()
            all_words[row["lang"]] += max(own.total(), icu.total())
    assert min(same[language] / all_words[language] for language in all_words) > 0.9
    assert same.total() / all_words.total() > 0.98


@pytest.mark.skipif(not HAS_ICU, reason="needs icu4py: pip install 'headrace[languages]'")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("今日はいい天気ですね。", "今日 は いい 天気 です ね 。"),
        ("中华人民共和国成立了。", "中华 人民 共和国 成立 了 。"),
        ("ภาษาไทยเป็นภาษา", "ภาษา ไทย เป็น ภาษา"),
        ("ພາສາລາວ ແມ່ນພາສາ", "ພາສາ ລາວ ແມ່ນ ພາສາ"),
        ("គាត់មកផ្ទះ", "គាត់ មក ផ្ទះ"),
        ("သူလာသည်", "သူ လာ သည်"),
    ],
)
def test_icu_finds_words_without_spaces(text, words) -> None:
    assert icu_segments(text) == words.split()
