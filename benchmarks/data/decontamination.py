"""Measures the search for benchmark items in documents on one core, and MinHash. Prints one JSON line.

    python -m benchmarks.data.decontamination DOCUMENTS.jsonl[.zst] BENCHMARKS [--runs 3] [--megabytes 20] [--items 200]

DOCUMENTS: JSONL with ``text``. BENCHMARKS: the folder of the files in conf/evaluation/standard.yaml, whose items are
searched for. Figures: MB of text (UTF-8) a second of CPU time, one a run; candidates take turns in this process.

    search            13-grams (and 8-grams) in each text
    readable search   the same in plain Python, on a tenth of the text
    signature         shingle hashes and MinHash, 112 hashes: what the stage signatures does with each text

``quality``: ``--items`` items of at least 13 words are planted, one in each document, in upper case and with other
punctuation. The same number is planted with one word in 12 replaced, so no 13 words in a row are left. All of the first
should be found, none of the second. ``items_in_documents``: the number of items in the unchanged documents.
"""

import argparse
import json
import os
import platform
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import yaml

from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.overlap import items_in
from headrace.data_prep.decontamination.search import Search
from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.text.words import words
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines
from headrace.train.evaluation.settings import Evaluation
from tests.data_prep.decontamination.test_search import slow_search

STANDARD = Path(__file__).parents[2] / "conf" / "evaluation" / "standard.yaml"
PERMUTATIONS = permutations(112, 1)


def texts_of(path: Path, megabytes: int) -> list[str]:
    """The texts of the first documents of ``path``, up to ``megabytes`` in all."""
    texts, left = list[str](), megabytes * 1e6
    for line in read_lines(path):
        if left <= 0:
            break
        texts.append(orjson.loads(line)["text"])
        left -= len(texts[-1].encode())
    return texts


def megabytes_per_second(run: Callable[[str], object], texts: Sequence[str]) -> float:
    begin = time.process_time()
    for text in texts:
        run(text)
    used = time.process_time() - begin
    return round(sum(len(text.encode()) for text in texts) / 1e6 / used, 2)


def sketch(text: str) -> object:
    return signature(shingle_hashes(text, 5), PERMUTATIONS)


def quality(search: Search, passages: dict[str, str], texts: Sequence[str], items: int) -> dict[str, int]:
    """Returns how many planted items are found: whole ones and broken ones."""
    generator, counts = random.Random(0), {"planted": 0, "found": 0, "broken": 0, "broken_found": 0}
    for name in generator.sample(sorted(passages), min(items, len(passages))):
        parts = words(passages[name])
        around = generator.choice(texts)[:2000]
        whole = f"{around} {' — '.join(parts).upper()}. {around}"
        broken = f"{around} {' '.join('xyzzy' if n % 12 == 11 else part for n, part in enumerate(parts))}. {around}"
        for text, planted, count in ((whole, "planted", "found"), (broken, "broken", "broken_found")):
            hits = items_in(search.hits(text), search.ngrams)
            counts[planted] += 1
            counts[count] += name in map(search.ngrams.name, hits)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=Path)
    parser.add_argument("benchmarks", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--items", type=int, default=200)
    options = parser.parse_args()
    settings = yaml.safe_load(STANDARD.read_text(encoding="utf-8")) | {"data": str(options.benchmarks)}
    benchmarks = decode(Evaluation, settings).texts()
    texts = texts_of(options.documents, options.megabytes)
    load = os.getloadavg()[0]
    searches = {size: Search(NGrams.of(benchmarks, size)) for size in (13, 8)}
    candidates: dict[str, tuple[Callable[[str], object], Sequence[str]]] = {
        "search 13": (searches[13].hits, texts),
        "search 8": (searches[8].hits, texts),
        "signature": (sketch, texts),
        "readable search 13": (slow_search(searches[13]), texts[: max(1, len(texts) // 10)]),
    }
    rates: dict[str, list[float]] = defaultdict(list)
    for run in range(options.runs + 1):
        for name, (candidate, some) in candidates.items():
            rate = megabytes_per_second(candidate, some)
            if run:
                rates[name].append(rate)
    item_numbers = {
        size: {item for text in texts for item in items_in(s.hits(text), s.ngrams)} for size, s in searches.items()
    }
    passages = {
        f"{title}/{name}": item[0] for title, benchmark in benchmarks.items() for name, item in benchmark.texts()
    }
    long = {name: text for name, text in passages.items() if len(words(text)) >= 13}
    summary = {
        "benchmark": "decontamination",
        "python": platform.python_version(),
        "documents": len(texts),
        "text_megabytes": round(sum(len(text.encode()) for text in texts) / 1e6, 3),
        "ngrams": {str(size): search.ngrams.counts for size, search in searches.items()},
        "text_megabytes_per_cpu_second": rates,
        "items_in_documents": {str(size): len(items) for size, items in item_numbers.items()},
        "quality": quality(searches[13], long, texts, options.items),
        "load_before_and_after": [load, os.getloadavg()[0]],
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
