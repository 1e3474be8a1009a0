"""Scripts of a text, by the names of its letters in Unicode.

    "Москва (Moscow)"  ->  Cyrl 6, Latn 6

A script has its ISO 15924 code. Python knows no script property, but a letter's name begins with its script. Kana count
as ``Jpan``. Han characters are ``Hani`` in all languages.
"""

import functools
import unicodedata
from collections import Counter

SCRIPTS = {
    "ARABIC": "Arab",
    "ARMENIAN": "Armn",
    "BENGALI": "Beng",
    "CJK": "Hani",
    "CYRILLIC": "Cyrl",
    "DEVANAGARI": "Deva",
    "ETHIOPIC": "Ethi",
    "GEORGIAN": "Geor",
    "GREEK": "Grek",
    "GUJARATI": "Gujr",
    "GURMUKHI": "Guru",
    "HANGUL": "Hang",
    "HEBREW": "Hebr",
    "HIRAGANA": "Jpan",
    "KANNADA": "Knda",
    "KATAKANA": "Jpan",
    "KATAKANA-HIRAGANA": "Jpan",
    "KHMER": "Khmr",
    "LAO": "Laoo",
    "LATIN": "Latn",
    "MALAYALAM": "Mlym",
    "MONGOLIAN": "Mong",
    "MYANMAR": "Mymr",
    "ORIYA": "Orya",
    "SINHALA": "Sinh",
    "SYRIAC": "Syrc",
    "TAMIL": "Taml",
    "TELUGU": "Telu",
    "THAANA": "Thaa",
    "THAI": "Thai",
    "TIBETAN": "Tibt",
    "TIFINAGH": "Tfng",
}
"""The first word of a letter's name → the code of its script."""
UNKNOWN = "Zyyy"
"""ISO 15924's code of an undetermined script."""
EXAMINED = 10_000
"""Characters at the start of a text whose scripts are counted."""
KANA_SHARE = 0.1
"""A text of Han characters with a larger share of kana is Japanese: Chinese names Japanese goods, but has fewer."""


@functools.lru_cache(maxsize=1 << 16)
def script_of(character: str) -> str:
    """Returns the script of ``character``; an empty text for what is no letter."""
    if not character.isalpha():
        return ""
    words = unicodedata.name(character, "").replace("FULLWIDTH ", "").replace("HALFWIDTH ", "").split()
    return SCRIPTS.get(words[0], UNKNOWN) if words else UNKNOWN


def script_counts(text: str) -> "Counter[str]":
    """Returns the number of letters of each script among the first characters of ``text``."""
    counts: Counter[str] = Counter()
    for character, number in Counter(text[:EXAMINED]).items():
        if script := script_of(character):
            counts[script] += number
    return counts


def main_script(text: str) -> str:
    """Returns the script of most letters of ``text``; that of the first in the alphabet, if several have as many.

    Han characters with kana are ``Jpan``. A text without letters is ``Zyyy``.
    """
    counts = script_counts(text)
    if counts["Jpan"] > KANA_SHARE * counts["Hani"]:
        counts["Jpan"] += counts.pop("Hani", 0)
    return min(counts, key=lambda script: (-counts[script], script), default=UNKNOWN)
