"""Makes data_prep/filters/language/language_values.json from sentences, and measures it on other ones.

    python -m benchmarks.data.language_values [--sentences FILE] [--write]

FILE is JSONL, plain or .zst, with ``lang`` (ISO 639-1) and ``text``; default: the sentences in 75 languages of the data
folder ($HEADRACE_DATA, else ../shared/data). Sentences with an even number within their language give the values, the
others are the test. It needs the extra ``languages``: words are ICU's. Twenty sentences are a page.

    stop words         value_estimation.frequent_words
    length of words    Gopher's 3 and 10 characters times the ratio of the language's mean length to that of English
    words with letters ENGLISH_LETTERS as many standard deviations from the mean as in English
    letters of a word  of the languages without spaces

Prints one JSON line a language: letters of a word, pages of the test and the fractions that the stop words and the
lengths keep; and the fraction of pages in other languages of the same script that its stop words keep.
``--write`` writes the file. Khmer, Lao and Burmese are not among the sentences: their letters of a word were counted in
one text of about 90 words each, and they have no stop words.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.data_prep.filters.gopher.quality import AlphabeticWords, WordLength
from headrace.data_prep.filters.gopher.stop_words import StopWords
from headrace.data_prep.filters.language.language_codes import first_code
from headrace.data_prep.filters.language.language_values import VALUES
from headrace.data_prep.filters.language.value_estimation import as_far, frequent_words, number_on
from headrace.data_prep.filters.page_rules import PageRule
from headrace.data_prep.filters.page_statistics import IcuStatistics, ScriptStatistics
from headrace.data_prep.text.scripts import main_script
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
PAGE_SENTENCES = 20
ENGLISH_LETTERS = 0.774
"""Lowest share of words with letters, of words and marks, that ``cleaning=multilingual`` has for English."""
UNSPACED = {"Hani", "Jpan", "Thai"}
COUNTED_ONCE = {"km_Khmr": 3.2, "lo_Laoo": 3.7, "my_Mymr": 2.3}
"""Letters of a word of languages without sentences."""


def pages(path: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Returns the pages of both halves of each language's sentences."""
    sentences = defaultdict(list)
    for line in read_lines(path):
        row = json.loads(line)
        sentences[row["lang"]].append(row["text"])
    return {
        f"{first_code(code)}_{main_script(' '.join(rows))}": (joined(rows[::2]), joined(rows[1::2]))
        for code, rows in sentences.items()
    }


def joined(rows: Sequence[str]) -> list[str]:
    return ["\n".join(rows[start : start + PAGE_SENTENCES]) for start in range(0, len(rows), PAGE_SENTENCES)]


def mean_length(texts: Sequence[str]) -> float:
    words = [word for text in texts for word in IcuStatistics(text).counted_words]
    return sum(map(len, words)) / len(words)


def letters_per_word(texts: Sequence[str]) -> float:
    letters, words = (
        sum(len(statistics(text).counted_words) for text in texts) for statistics in (ScriptStatistics, IcuStatistics)
    )
    return letters / words


def alphabetic(texts: Sequence[str]) -> np.ndarray:
    return np.array([number_on(IcuStatistics(text), AlphabeticWords(), "min_fraction") for text in texts])


def values_of(language: str, texts: Sequence[str], english: Sequence[str]) -> dict[str, Any]:
    factor = mean_length(texts) / mean_length(english)
    length = {"min_characters": round(3 * factor, 2), "max_characters": round(10 * factor, 2)}
    words = frequent_words(IcuStatistics(text).counted_words for text in texts)
    fraction = as_far(ENGLISH_LETTERS, alphabetic(english), alphabetic(texts))
    rules: dict[str, Any] = {"stop_words": {"words": words}, "word_length": length}
    rules["alphabetic_words"] = {"min_fraction": round(fraction, 3)}
    values: dict[str, Any] = {"rules": rules}
    if language.rpartition("_")[2] in UNSPACED:
        values["characters_per_word"] = round(letters_per_word(texts), 1)
    return values


def kept(texts: Sequence[str], rule: PageRule) -> float:
    return round(sum(rule.failure(IcuStatistics(text)) is None for text in texts) / len(texts), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=Path, default=DATA / "language" / "sentences_75_languages.jsonl.zst")
    parser.add_argument("--write", action="store_true", help="write the values of the project")
    arguments = parser.parse_args()
    halves = pages(arguments.sentences)
    english = halves["en_Latn"][0]
    values = {language: values_of(language, first, english) for language, (first, _) in sorted(halves.items())}
    values["en_Latn"] = {"rules": {}}  # those of the filters
    for language, (_, test) in sorted(halves.items()):
        rules = {"alphabetic_words": {"min_fraction": ENGLISH_LETTERS}} | values[language]["rules"]
        stop, length, letters = (cls(**rules.get(cls.type, {})) for cls in (StopWords, WordLength, AlphabeticWords))
        others = [
            text
            for other, (_, texts) in halves.items()
            for text in texts
            if other != language and other.endswith(language.rpartition("_")[2])
        ]
        row = {"language": language, "pages": len(test), "letters": values[language].get("characters_per_word", 1)}
        row |= {"stop_words": kept(test, stop), "word_length": kept(test, length)}
        row["alphabetic_words"] = kept(test, letters)
        print(json.dumps(row | {"others": kept(others, stop) if others else None}), flush=True)
    for language, per_word in COUNTED_ONCE.items():
        values[language] = {"rules": {"stop_words": None, "word_length": None}, "characters_per_word": per_word}
    if arguments.write:
        rows = (f"{json.dumps(code)}: {json.dumps(row, ensure_ascii=False)}" for code, row in sorted(values.items()))
        VALUES.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
