"""Measures what deduplication finds, compared with all pairs of the given texts. Prints one JSON line.

    python -m benchmarks.data.dedup_quality FILE… [KEY=VALUE …]

FILE: JSONL (plain or .zst) with ``text``, or with ``html``, of which the pipeline's extractor makes text; or lines
``<id> <text>``. All files together are one corpus. KEY=VALUE: settings of conf group dedup, like bands=14 rows=8,
recall=0.99 or threshold=0.7 (for the peers that is only what counts as true).

The truth are all pairs with exact Jaccard similarity at or above the threshold between sets of word 5-grams, strings of
the words of ``data_prep.text.words.words``, found by a prefix filter (Bayardo, Ma, Srikant, Scaling up all pairs
similarity search, 2007). Compared on it:

    ours         stages signatures, duplicates: MinHash, LSH, exact verification, survivors by priority
    datatrove    its four MinHash blocks with their defaults (14 × 8), with SHA-1 (its xxHash rejects str), over spaCy's
                 English words where spaCy is installed, else over this pipeline's (``words`` says which)
    datasketch   MinHash(112) over this pipeline's shingles, MinHashLSH(params=(14, 8)): a document goes when the index
                 knows a similar one, else it enters the index

    recall       share of the true pairs of which at most one document is kept
    precision    share of the removed documents with true similarity ≥ threshold to their survivor; the peers name none,
                 so for them: to any document that they keep
    at_threshold true pairs of similarity < threshold + 0.05: their number, the share of them that agrees in a band
                 (mean over 50 seeds), and what 1 - (1 - s^rows)^bands gives for them
"""

import collections
import contextlib
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import datasketch
import numpy as np
from datatrove.data import Document
from datatrove.pipeline.dedup import minhash
from datatrove.utils.hashing import HashConfig
from datatrove.utils.logging import logger
from datatrove.utils.word_tokenizers import WordTokenizer
from numpy.typing import NDArray

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes, shingles
from headrace.data_prep.document import Drop
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.sources.html import HtmlExtraction
from headrace.data_prep.text.words import words
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines
from tests.unique_documents import write_documents

WORDS = 5
SEEDS = 50

Removed = dict[int, int | None]
"""Document → its survivor, where it is named."""


def read(path: Path) -> Iterator[str]:
    """The texts of a file."""
    for line in filter(str.strip, (line.decode() for line in read_lines(path))):
        row = json.loads(line) if line.startswith("{") else {"text": line.rstrip("\r").partition(" ")[2]}
        text = row["text"] if "text" in row else HtmlExtraction().extracted(row["html"]).text
        yield "" if isinstance(text, Drop) else text


class Truth:
    """The sets of word 5-grams, and all pairs (i < j) with their similarity where it is at least ``threshold``."""

    def __init__(self, texts: list[str], threshold: float) -> None:
        self.sets, self.threshold = _sets(texts), threshold
        self.pairs: dict[tuple[int, int], float] = {}
        index: dict[int, list[int]] = collections.defaultdict(list)
        for j, grams in enumerate(self.sets):
            prefix = grams[: len(grams) - int(np.ceil(threshold * len(grams) - 1e-9)) + 1].tolist()
            for i in {i for gram in prefix for i in index[gram]}:
                if (similarity := self.similarity(i, j)) >= threshold:
                    self.pairs[i, j] = similarity
            for gram in prefix:
                index[gram].append(j)
        self.similar = collections.defaultdict(set)
        for i, j in self.pairs:
            self.similar[i].add(j)
            self.similar[j].add(i)

    def similarity(self, i: int, j: int) -> float:
        common = np.intersect1d(self.sets[i], self.sets[j], assume_unique=True).size
        return common / max(1, len(self.sets[i]) + len(self.sets[j]) - common)

    def judge(self, texts: list[str], removed: Removed) -> dict[str, Any]:
        """Recall and precision of what was ``removed``."""

        def is_right(document: int, survivor: int | None) -> bool:
            if survivor is None:
                return not self.similar[document] <= removed.keys()
            return texts[document] == texts[survivor] or self.similarity(document, survivor) >= self.threshold

        is_found = [i in removed or j in removed for i, j in self.pairs]
        right = [is_right(document, survivor) for document, survivor in removed.items()]
        return {"recall": share(is_found), "precision": share(right), "removed": len(removed)}


def _sets(texts: list[str]) -> list[NDArray[np.int64]]:
    """Each text's 5-grams as distinct numbers, the rarest first by number of texts; the only one of a short text."""
    numbers: dict[str, int] = {}
    sets = []
    for text in texts:
        parts = words(text)
        grams = [" ".join(parts[i : i + WORDS]) for i in range(max(1, len(parts) - WORDS + 1))] if parts else []
        sets.append(np.unique(np.array([numbers.setdefault(gram, len(numbers)) for gram in grams], dtype=np.int64)))
    frequency = np.bincount(np.concatenate(sets), minlength=len(numbers))
    rank = np.empty_like(frequency)
    rank[np.argsort(frequency, kind="stable")] = np.arange(len(numbers))
    return [np.sort(rank[own]) for own in sets]


def ours(texts: list[str], dedup: Dedup, folder: Path) -> tuple[Removed, dict[str, Any]]:
    out = TaskOutput(folder / "clean", "clean", 0)
    with out.shard("documents", "jsonl.zst") as path:
        write_documents(path, documents(texts))
    out.done({})
    clean = finish(folder / "clean", {"stage": "clean", "settings": {}}, {"clean": 1})
    signatures = run(Signatures.of(dedup), {"clean": clean}, folder / "signatures")
    start = time.process_time()
    duplicates = run(Duplicates.of(dedup), {"clean": clean, "signatures": signatures}, folder / "duplicates")
    took, counts = time.process_time() - start, duplicates.counts
    removed = np.load(duplicates.shard("removed", 0, "npy"))
    names = ("removed_exact", "pairs_compared", "survivors_compared", "components", "unsettled_edges")
    banding = {"bands": dedup.banding.bands, "rows": dedup.banding.rows}
    told = banding | {name: counts[name] for name in names} | {"cpu_seconds_duplicates": round(took, 2)}
    return dict(zip(removed["row"].tolist(), removed["survivor"].tolist(), strict=True)), told


def run(stage: Any, inputs: dict[str, Artifact], folder: Path) -> Artifact:
    phases = stage.phases(dict.fromkeys(inputs, 1))
    for phase in phases:
        for task in range(phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
    return finish(folder, stage.description(dict.fromkeys(stage.inputs, "")), {p.name: p.tasks for p in phases})


class OurWords(WordTokenizer):
    """The words of ``headrace.data_prep.text.words`` as a tokenizer of datatrove."""

    def word_tokenize(self, text: str) -> list[str]:
        return words(text)

    def sent_tokenize(self, text: str) -> list[str]:
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def datatroves(texts: list[str], folder: Path) -> tuple[Removed, dict[str, Any]]:
    config = minhash.MinhashConfig(hash_config=HashConfig(precision=64, hash_fc="sha1"))
    has_spacy = importlib.util.find_spec("spacy") is not None
    language: Any = "eng" if has_spacy else OurWords()
    signed, paired, clustered = (str(folder / name) for name in ("signatures", "pairs", "clusters"))
    minhash.MinhashDedupSignature(signed, config, language).run(iter(documents(texts)))
    for bucket in range(config.num_buckets):
        minhash.MinhashDedupBuckets(signed, paired, config=config).run(None, bucket, config.num_buckets)
    minhash.MinhashDedupCluster(paired, clustered, config).run()
    kept = {int(document.id) for document in minhash.MinhashDedupFilter(clustered).run(iter(documents(texts)))}
    return dict.fromkeys(set(range(len(texts))) - kept), {"words": "spaCy" if has_spacy else "ours"}


def datasketchs(texts: list[str]) -> tuple[Removed, dict[str, Any]]:
    index = datasketch.MinHashLSH(num_perm=112, params=(14, 8))
    removed: Removed = {}
    grams = [shingles(text, WORDS) for text in texts]
    for number, sketch in enumerate(datasketch.MinHash.generator(grams, num_perm=112)):
        if grams[number] and index.query(sketch):
            removed[number] = None
        else:
            index.insert(number, sketch)
    return removed, {}


def documents(texts: list[str]) -> list[Document]:
    """Ids are numbers of equal length, so that their order is that of the texts."""
    return [Document(text=text, id=f"{number:09d}") for number, text in enumerate(texts)]


def at_threshold(texts: list[str], truth: Truth, dedup: Dedup) -> tuple[int, float, float] | None:
    """The pairs that are hardest to find: their number, the share found by LSH alone and by the formula, if any."""
    hard = {pair: s for pair, s in truth.pairs.items() if s < truth.threshold + 0.05}
    hashes = {i: shingle_hashes(texts[i], dedup.shingle_words) for pair in hard for i in pair}
    is_found: list[bool] = []
    for hashers in (permutations(dedup.banding.hashes, seed) for seed in range(SEEDS)):
        rows = {i: signature(own, hashers).reshape(dedup.banding.bands, -1) for i, own in hashes.items()}
        is_found += [(rows[i] == rows[j]).all(axis=1).any() for i, j in hard]
    return (len(hard), share(is_found), share(map(dedup.banding.chance, hard.values()))) if hard else None


def share(hits: Iterable[float]) -> float | None:
    values = [float(hit) for hit in hits]
    return round(sum(values) / len(values), 4) if values else None


def main() -> None:
    files = [Path(word) for word in sys.argv[1:] if "=" not in word]
    values = {key: json.loads(value) for key, _, value in (word.partition("=") for word in sys.argv[1:] if "=" in word)}
    dedup = decode(Dedup, values)
    texts = [text for file in files for text in read(file)]
    logger.remove()
    truth = Truth(texts, dedup.threshold)
    line: dict[str, Any] = {"files": [file.name for file in files], "threshold": dedup.threshold}
    line |= {"documents": len(texts), "characters": sum(map(len, texts)), "true_pairs": len(truth.pairs)}
    works: dict[str, Callable[[Path], tuple[Removed, dict[str, Any]]]] = {
        "ours": lambda folder: ours(texts, dedup, folder),
        "datatrove": lambda folder: datatroves(texts, folder),
        "datasketch": lambda _: datasketchs(texts),
    }
    for name, work in works.items():
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
            removed, told = work(Path(folder))
        line[name] = truth.judge(texts, removed) | told
    print(json.dumps(line | {"at_threshold": at_threshold(texts, truth, dedup)}))


if __name__ == "__main__":
    main()
