"""Measures how often ``language_fasttext`` agrees with ``language`` (langdetect, the reference), and how fast it is.

    python -m benchmarks.data.language_agreement [--sentences FILE] [--pages FILE] [--text-field truth] [--every 1]

FILES are JSONL, plain or .zst: sentences with ``lang`` (ISO 639-1) and ``text``, pages with ``--text-field``.
Default: the sentences in 75 languages and the web pages of the data folder ($HEADRACE_DATA, else ../shared/data).
``--every N`` takes each Nth record. Prints one JSON line a file:

    texts                   records with text
    same                    fraction to which both give the same language (``zh-cn`` and ``zh-tw`` count as ``zh``)
    same_1000_characters    the same, fastText with ``max_characters=1000``
    labelled                texts whose label is a language that both identifiers know (sentences only)
    same_labelled, right    of those: the same language; the language of the label, by identifier
    english                 kept as English by ``language`` at 0.99 and by ``language_fasttext`` at 0.65, 0.95 and 0.99:
                            by both, only the first, only the second, neither
    texts_per_second, megabytes_per_second    by identifier, CPU time of one process, models loaded
"""

import argparse
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from headrace.data_prep.filters.fasttext_model import language_model, load
from headrace.data_prep.filters.language import compiled_langdetect
from headrace.pipeline.core.text_files import read_lines

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
ONE_NAME = {"zh-cn": "zh", "zh-tw": "zh", "nb": "no", "fil": "tl"}
"""Names of one language that the identifiers and the labels write differently."""
Answer = tuple[str, float]


def langdetect(text: str) -> Answer:
    return compiled_langdetect.identify(text) or ("unknown", 0.0)


def fasttext(characters: int | None = None) -> Callable[[str], Answer]:
    model = load(language_model())
    return lambda text: model(text[:characters], 1)[0] if any(map(str.isalpha, text)) else ("unknown", 0.0)


def identifiers() -> dict[str, Callable[[str], Answer]]:
    return {"langdetect": langdetect, "fasttext": fasttext(), "fasttext_1000_characters": fasttext(1000)}


def records(path: Path, field: str, every: int) -> list[tuple[str, str | None]]:
    """Text and label of each ``every``-th record that has text."""
    rows = (json.loads(line) for line in itertools.islice(read_lines(path), 0, None, every))
    return [(row[field], row.get("lang")) for row in rows if row.get(field)]


def name(answer: Answer) -> str:
    return ONE_NAME.get(answer[0], answer[0])


def known_to_both() -> set[str]:
    theirs = {ONE_NAME.get(language, language) for language in compiled_langdetect.load()[0]}
    return theirs & {name(answer) for answer in load(language_model())("", -1)}


def verdicts(first: list[Answer], second: list[Answer], threshold: float) -> dict[str, int]:
    kept = [
        (a[0] == "en" and a[1] >= 0.99, b[0] == "en" and b[1] >= threshold) for a, b in zip(first, second, strict=True)
    ]
    names = {(True, True): "both", (True, False): "only_langdetect", (False, True): "only_fasttext"}
    return dict(Counter(names.get(pair, "neither") for pair in kept))


def measure(texts: list[tuple[str, str | None]]) -> dict[str, object]:
    answers: dict[str, list[Answer]] = {}
    speed: dict[str, dict[str, float]] = {"texts_per_second": {}, "megabytes_per_second": {}}
    size = sum(len(text.encode()) for text, _ in texts)
    for identifier, identify in identifiers().items():
        identify("The first text loads what is needed.")
        start = time.process_time()
        answers[identifier] = [identify(text) for text, _ in texts]
        seconds = time.process_time() - start
        speed["texts_per_second"][identifier] = round(len(texts) / seconds)
        speed["megabytes_per_second"][identifier] = round(size / 1e6 / seconds, 2)
    langdetects, fasttexts, beginnings = answers.values()
    pairs = list(zip(langdetects, fasttexts, strict=True))
    result: dict[str, object] = {
        "texts": len(texts),
        "same": share([name(a) == name(b) for a, b in pairs]),
        "same_1000_characters": share([name(a) == name(b) for a, b in zip(langdetects, beginnings, strict=True)]),
    }
    known = known_to_both()
    labels = [ONE_NAME.get(label, label) if label else None for _, label in texts]
    labelled = [i for i, label in enumerate(labels) if label in known]
    if labelled:
        result["labelled"] = len(labelled)
        result["same_labelled"] = share([name(pairs[i][0]) == name(pairs[i][1]) for i in labelled])
        result["right"] = {
            key: share([name(identified[i]) == labels[i] for i in labelled]) for key, identified in answers.items()
        }
    result["english"] = {str(limit): verdicts(langdetects, fasttexts, limit) for limit in (0.65, 0.95, 0.99)}
    return result | speed


def share(right: list[bool]) -> float:
    return round(sum(right) / len(right), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=Path, default=DATA / "language" / "sentences_75_languages.jsonl.zst")
    parser.add_argument("--pages", type=Path, default=DATA / "web" / "wcxb_dev.jsonl.zst")
    parser.add_argument("--text-field", default="truth", help="the pages' field with text (default: %(default)s)")
    parser.add_argument("--every", type=int, default=1, help="take each Nth record (default: all)")
    arguments = parser.parse_args()
    for path, field in ((arguments.sentences, "text"), (arguments.pages, arguments.text_field)):
        print(json.dumps({"file": path.name} | measure(records(path, field, arguments.every))), flush=True)


if __name__ == "__main__":
    main()
