import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.text.words import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Mill-Wheel turns, 2 × a day.", ["the", "mill", "wheel", "turns", "2", "a", "day"]),
        ("it's snake_case", ["it", "s", "snake_case"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("我爱 ABC中文2", ["我", "爱", "abc", "中", "文", "2"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"]),
        ("น้ำ", ["น้", "ำ"]),
        ("ທນ ကခ ខម", ["ທ", "ນ", "က", "ခ", "ខ", "ម"]),
        ("ひカㇰ〇㐀豈\U00020000𠀁", ["ひ", "カ", "ㇰ", "〇", "㐀", "豈", "\U00020000", "𠀁"]),
        ("co\u00adoperate می\u200cخواهم", ["cooperate", "میخواهم"]),
        ("zero\u200bwidth \u0301 stray", ["zero", "width", "\u0301", "stray"]),
        ("x² ½ №5", ["x²", "½", "5"]),
        ("\ud800broken", ["broken"]),
        ("…!? — ", []),
        ("", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_words_of_ascii_are_the_runs_of_word_characters(text):
    assert words(text) == re.findall(r"\w+", text.lower())
