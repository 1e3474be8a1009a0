"""Measures what ``pii`` finds in real text of 20 languages, what it damages there, and how fast it is.

    python -m benchmarks.data.personal_data [--before FILE] [--sentences FILE] [--pages FILE] [--texts 200]

Known addresses and numbers are put into sentences of the data folder ($HEADRACE_DATA, else ../shared/data), between
two words, and inside a word (not of Latin letters, where it would be a part of a name). ``--before`` names the
``pii.py`` of an earlier commit to compare with. Prints one JSON line for each language and version: the percentage that
is replaced while all else stays, by kind and place. Then, for all sentences and pages as they are: masks by kind, and
megabytes per second of CPU time.
"""

import argparse
import importlib.util
import itertools
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unicodedata import category

from datatrove.data import Document

from headrace.data_prep.filters import pii
from headrace.data_prep.filters.pii import LATIN
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
LANGUAGES = "ar bn de el en fa fr he hi hy ja ka ko ru ta te th tr vi zh"
INSERTED = {
    "email": ("info@example.com", "ann.lee_7@mail.example.co.uk", "123456@qq.com", "kefu@example.cn"),
    "ip_address": ("8.8.4.4", "93.184.216.34", "45.33.32.156", "2001:4860:4860::8888"),
    "card_number": ("4111111111111111", "5555 5555 5555 4444", "4111\xa01111\xa01111\xa01111", "3782-822463-10005"),
    "phone_number": ("+44 20 7946 0958", "+82\xa02\xa02287\xa00114", "(415) 776-3109", "+861065529988"),
}
ROUNDS = 3


def positions(text: str) -> Iterator[tuple[str, int]]:
    """Yields the places of ``text`` between two words, and inside a word before a letter, not before a mark on one."""
    for place in range(1, len(text)):
        before, after = text[place - 1], text[place]
        if before == " " and after.isalnum():
            yield "words", place
        elif after.isalpha() and category(before)[0] in "LM" and not re.search(f"[{LATIN}]", before + after):
            yield "letters", place


def recall(judge: Callable[[str], str], texts: Sequence[str], language: str) -> dict[str, int]:
    """Returns the percentage of inserted addresses that alone are replaced, by place and kind."""
    choose, right, all_ = random.Random(language), dict[str, int](), dict[str, int]()
    for number, text in enumerate(texts):
        by_place: dict[str, list[int]] = {}
        for name, place in positions(text):
            by_place.setdefault(name, []).append(place)
        for (name, places), (kind, values) in itertools.product(by_place.items(), INSERTED.items()):
            place, space = choose.choice(places), " " * (name == "words")
            expected = f"{text[:place]}<{kind.replace('_', ' ')}>{space}{text[place:]}"
            answer = judge(f"{text[:place]}{values[number % len(values)]}{space}{text[place:]}")
            key = f"{kind}, {name}"
            all_[key], right[key] = all_.get(key, 0) + 1, right.get(key, 0) + (answer == expected)
    return {key: round(100 * right[key] / all_[key]) for key in sorted(all_)}


def judge_of(module: Any) -> Callable[[str], Document]:
    rule = module.MaskPii()

    def judge(text: str) -> Document:
        document = Document(text, "a:0")
        rule.judge(document)
        return document

    return judge


def seconds(judge: Callable[[str], Document], texts: Sequence[str]) -> float:
    start = time.process_time()
    for text in texts:
        judge(text)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="pii.py of an earlier commit")
    parser.add_argument("--sentences", type=Path, default=DATA / "language" / "sentences_75_languages.jsonl.zst")
    parser.add_argument("--pages", type=Path, default=DATA / "web" / "wcxb_dev.jsonl.zst")
    parser.add_argument("--texts", type=int, default=200, help="sentences of each language")
    arguments = parser.parse_args()
    judges = {"now": judge_of(pii)}
    if arguments.before:
        spec = importlib.util.spec_from_file_location("pii_before", arguments.before)
        assert spec is not None, arguments.before
        assert spec.loader is not None, arguments.before
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        judges = {"before": judge_of(module)} | judges
    rows = list(map(json.loads, read_lines(arguments.sentences)))
    for language in LANGUAGES.split():
        texts = [row["text"] for row in rows if row["lang"] == language]
        for version, judge in judges.items():
            percentages = recall(lambda text, judge=judge: judge(text).text, texts[: arguments.texts], language)
            print(json.dumps({"language": language, "version": version} | percentages), flush=True)
    pages = [row["truth"] for row in map(json.loads, read_lines(arguments.pages)) if row["truth"]]
    for name, texts in (("sentences", [row["text"] for row in rows]), ("pages", pages)):
        size = sum(len(text.encode()) for text in texts)
        times = {version: [seconds(judge, texts) for _ in range(ROUNDS)] for version, judge in judges.items()}
        for version, judge in judges.items():
            masked: dict[str, int] = {}
            for text in texts:
                for kind, count in judge(text).metadata.get("masked_pii", {}).items():
                    masked[kind] = masked.get(kind, 0) + count
            speed = round(size / min(times[version]) / 1e6, 1)
            print(json.dumps({"texts": name, "n": len(texts), "version": version, "masked": masked, "mb_per_s": speed}))


if __name__ == "__main__":
    main()
