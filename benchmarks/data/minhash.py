"""Measures how fast one core turns texts into MinHash signatures of 112 values. Prints one JSON line.

    python -m benchmarks.data.minhash DOCUMENTS.jsonl[.zst] [--text-field text] [--documents 2000] [--runs 3]

The first ``--documents`` texts are read into memory; candidates take turns on them in this process. Figures: documents
a second of CPU time. All make word 5-grams and 112 values (14 × 8).

From a text, all work included:

    headrace               the stage's work: case folding, words, shingles, hashes, signature, compiled
    datasketch bulk        this pipeline's shingles in plain Python, MinHash.bulk; the same signatures
    rensa                  this pipeline's shingles in plain Python, RMinHash
    datatrove              MinhashDedupSignature.get_shingles, get_signature: words by spaCy, SHA-1 (its xxHash rejects
                           str); left out where spaCy is not installed
    datatrove, our words   the same over this pipeline's words in plain Python: what is left without spaCy

From prepared shingles, without reading text:

    headrace, hashes       signature of 64-bit hashes, as inside the stage
    datasketch, shingles   MinHash.bulk of bytes, hashed by xxh64
    rensa, shingles        RMinHash of strings, hashed by it

``differing`` counts the documents for which headrace and datasketch give other signatures.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import datasketch
import numpy as np
from datatrove.pipeline.dedup import minhash
from datatrove.utils.hashing import HashConfig
from datatrove.utils.word_tokenizers import WordTokenizer

from headrace.data_prep.dedup.minhash import SCHEME, permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hash32, shingle_hashes, shingles
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.text.words import words

WORDS, HASHES, SEED = 5, 112, 1


class OurWords(WordTokenizer):
    """This pipeline's words, as a word tokenizer of datatrove."""

    def word_tokenize(self, text: str) -> list[str]:
        return words(text)

    def sent_tokenize(self, text: str) -> list[str]:
        raise NotImplementedError

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        raise NotImplementedError


def by_headrace(texts: list[str]) -> list[np.ndarray]:
    hashers = permutations(HASHES, SEED)
    return [signature(shingle_hashes(text, WORDS), hashers) for text in texts]


def by_datasketch(sets: list[list[bytes]]) -> list[np.ndarray]:
    sketches = datasketch.MinHash.bulk(sets, num_perm=HASHES, seed=SEED, hashfunc=shingle_hash32, scheme=SCHEME)
    return [sketch.hashvalues for sketch in sketches]


def by_rensa(sets: list[list[str]]) -> list[list[int]]:
    sketches = importlib.import_module("rensa").RMinHash.from_token_sets(sets, HASHES, SEED)
    return [sketch.digest() for sketch in sketches]


def by_datatrove(texts: list[str], language: object) -> list[object]:
    config = minhash.MinhashConfig(n_grams=WORDS, hash_config=HashConfig(precision=64, hash_fc="sha1"))
    with tempfile.TemporaryDirectory() as folder:
        step = minhash.MinhashDedupSignature(folder, config, language=language)
    hashed = [step.get_shingles(text) for text in texts]
    return [step.get_signature(row) for row in hashed if row.size]


def byte_sets(texts: list[str]) -> list[list[bytes]]:
    return [shingles(text, WORDS) for text in texts]


def string_sets(texts: list[str]) -> list[list[str]]:
    return [[shingle.decode() for shingle in shingles(text, WORDS)] for text in texts]


def candidates(texts: list[str]) -> dict[str, Callable[[], object]]:
    hashers = permutations(HASHES, SEED)
    hashes = [shingle_hashes(text, WORDS) for text in texts]
    as_bytes, as_strings = byte_sets(texts), string_sets(texts)
    runs: dict[str, Callable[[], object]] = {
        "headrace": lambda: by_headrace(texts),
        "datasketch bulk": lambda: by_datasketch(byte_sets(texts)),
        "datatrove, our words": lambda: by_datatrove(texts, OurWords()),
        "headrace, hashes": lambda: [signature(row, hashers) for row in hashes],
        "datasketch, shingles": lambda: by_datasketch(as_bytes),
    }
    if importlib.util.find_spec("rensa"):
        runs["rensa"] = lambda: by_rensa(string_sets(texts))
        runs["rensa, shingles"] = lambda: by_rensa(as_strings)
    else:
        print("rensa is not installed (pip install -e '.[peers]')", file=sys.stderr)
    if importlib.util.find_spec("spacy"):
        runs["datatrove"] = lambda: by_datatrove(texts, "eng")
    else:
        print("spaCy is not installed: datatrove has no English words of its own", file=sys.stderr)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--documents", type=int, default=2000, dest="number")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    source = Jsonl(paths=(str(options.documents),), text_field=options.text_field)
    records = (document.text for document, drop in source.read(source.groups()[0][0].name) if drop is None)
    texts = list(itertools.islice(records, options.number))
    load = os.getloadavg()[0]
    pairs = zip(by_headrace(texts), by_datasketch(byte_sets(texts)), strict=True)
    differing = sum(not np.array_equal(ours, theirs) for ours, theirs in pairs)
    seconds: dict[str, list[float]] = defaultdict(list)
    works = candidates(texts)
    for name, work in itertools.chain.from_iterable([works.items()] * options.runs):
        start = time.process_time()
        work()
        seconds[name].append(time.process_time() - start)
    rates = {name: [round(len(texts) / used) for used in row] for name, row in seconds.items()}
    medians = {name: statistics.median(row) for name, row in rates.items()}
    summary = {
        "benchmark": "minhash",
        "python": platform.python_version(),
        "documents": len(texts),
        "characters": sum(map(len, texts)),
        "shingles": sum(len(row) for row in byte_sets(texts)),
        "differing": differing,
        "documents_per_cpu_second": rates,
        "headrace_times": {name: round(medians["headrace"] / rate, 1) for name, rate in medians.items()},
        "load_before_and_after": [load, os.getloadavg()[0]],
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
