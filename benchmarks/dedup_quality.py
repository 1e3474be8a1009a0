"""What deduplication finds and what it costs, against all pairs of one file: prints one JSON line.

    python benchmarks/dedup_quality.py FILE [threshold [recall]]

With ``recall``, bands and rows are chosen by it (data_prep/dedup/banding.py); else they are the defaults.

FILE: JSONL (plain or .zst) with ``id`` and ``text``, or lines ``<id> <text>``. The truth is computed here, by other
means than the pipeline's: word 5-grams by a regular expression, all pairs with exact Jaccard similarity at or above the
threshold through an inverted index over prefixes (Bayardo, Ma, Srikant, Scaling up all pairs similarity search, 2007).

    recall              share of the true pairs whose two documents end in one cluster
    recall_candidates   share of the true pairs that agree in a band: LSH alone
    expected            what 1 - (1 - s^rows)^bands gives for the true pairs
    at_threshold        true pairs of similarity < threshold + 0.05, the share of them that agrees in a band (mean over
                        50 seeds), and what the formula gives for them
    precision           share of the removed documents that are similar to their survivor (others came through a chain)
    precision_any       share of the removed documents that have a true pair at all
    compared            exact comparisons that verification made
    documents_per_second_…   signatures per CPU second: ours from text (words, shingles, hashes, minima); datasketch and
                        rensa from ready shingles
"""

import io
import itertools
import json
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasketch
import numpy as np
import zstandard
from datatrove.data import Document

from data_prep.dedup.config import Dedup
from data_prep.dedup.lsh import band_hashes
from data_prep.dedup.minhash import permutations, signature
from data_prep.dedup.shingles import shingle_hash32, shingle_hashes, shingles
from data_prep.document import write_documents
from data_prep.duplicates import Duplicates
from data_prep.signatures import Signatures
from pipeline.core.artifact import Artifact, TaskOutput, finish

Texts = dict[str, str]
Pairs = dict[tuple[int, int], float]


def read(path: Path) -> Texts:
    if path.suffix == ".zst":
        raw = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(path.open("rb"))
        lines = io.TextIOWrapper(raw, encoding="utf-8")
    else:
        lines = path.open(encoding="utf-8")
    with lines:
        rows = [line for line in lines if line.strip()]
    if rows[0].startswith("{"):
        return {str(row["id"]): row["text"] for row in map(json.loads, rows)}
    return dict(row.rstrip("\n").split(" ", 1) for row in rows)


def true_pairs(texts: list[str], threshold: float) -> Pairs:
    """All pairs (i < j) with exact Jaccard similarity ≥ threshold over word 5-grams."""
    sets = []
    for text in texts:
        words = re.findall(r"\w+", text.casefold())
        sets.append({tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))} if words else set())
    frequency = Counter(itertools.chain.from_iterable(sets))
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    found = {}
    for j, grams in enumerate(sets):
        rarest = sorted(grams, key=lambda gram: (frequency[gram], gram))
        prefix = rarest[: len(rarest) - int(np.ceil(threshold * len(rarest))) + 1]
        for i in {i for gram in prefix for i in index[gram]}:
            similarity = len(sets[i] & grams) / len(sets[i] | grams)
            if similarity >= threshold:
                found[i, j] = similarity
        for gram in prefix:
            index[gram].append(j)
    return found


def artifact_of(folder: Path, texts: Texts) -> Artifact:
    out = TaskOutput(folder, "clean", 0)
    with out.shard("documents", "jsonl.zst") as path:
        write_documents(path, [Document(text=text, id=name) for name, text in texts.items()])
    out.done({})
    return finish(folder, {"stage": "clean", "settings": {}}, {"clean": 1})


def run(stage: Any, inputs: dict[str, Artifact], folder: Path) -> Artifact:
    phases = stage.phases(dict.fromkeys(inputs, 1))
    for phase in phases:
        for task in range(phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
    return finish(folder, stage.description(dict.fromkeys(stage.inputs, "")), {p.name: p.tasks for p in phases})


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds of the fastest of some repetitions: other load on the machine counts little."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def speed(texts: list[str], dedup: Dedup) -> dict[str, float]:
    n_hashes = dedup.banding.hashes
    hashers = permutations(n_hashes, dedup.seed)
    grams = [shingles(text, dedup.shingle_words) for text in texts]
    strings = [[gram.decode() for gram in document] for document in grams]

    def theirs(**how: Any) -> Callable[[], object]:
        return lambda: [one.hashvalues for one in datasketch.MinHash.generator(grams, num_perm=n_hashes, **how)]

    works: dict[str, Callable[[], object]] = {
        "ours_from_text": lambda: [signature(shingle_hashes(text, dedup.shingle_words), hashers) for text in texts],
        "datasketch_sha1_from_shingles": theirs(),
        "datasketch_xxh64_from_shingles": theirs(hashfunc=shingle_hash32),
    }
    try:
        import rensa
    except ImportError:
        pass
    else:
        works["rensa_from_shingles"] = lambda: [_rensa(rensa, one, n_hashes, dedup.seed) for one in strings]
    works["ours_from_text"]()
    return {f"documents_per_second_{name}": round(len(texts) / seconds(work)) for name, work in works.items()}


def _rensa(rensa: Any, grams: list[str], n_hashes: int, seed: int) -> Any:
    sketch = rensa.RMinHash(num_perm=n_hashes, seed=seed)
    sketch.update(grams)
    return sketch.digest()


def quality(texts: Texts, dedup: Dedup) -> dict[str, Any]:
    truth, banding = true_pairs(list(texts.values()), dedup.threshold), dedup.banding
    with tempfile.TemporaryDirectory() as folder:
        clean = artifact_of(Path(folder) / "clean", texts)
        signatures = run(Signatures.of(dedup), {"clean": clean}, Path(folder) / "signatures")
        start = time.perf_counter()
        inputs = {"clean": clean, "signatures": signatures}
        duplicates = run(Duplicates.of(dedup), inputs, Path(folder) / "duplicates")
        took = time.perf_counter() - start
        clusters = np.load(duplicates.shard("clusters", 0, "npy"))
        removed = np.load(duplicates.shard("removed", 0, "npy"))
        bands = band_hashes(np.load(signatures.shard("signatures", 0, "npy")), banding.bands)
    similar = {document for pair in truth for document in pair}
    return {
        "bands": banding.bands,
        "rows": banding.rows,
        "true_pairs": len(truth),
        "recall": share(clusters[i] == clusters[j] for i, j in truth),
        "recall_candidates": share((bands[i] == bands[j]).any() for i, j in truth),
        "expected": share(map(banding.chance, truth.values())),
        "at_threshold": at_threshold(list(texts.values()), truth, dedup),
        "removed": len(removed),
        "removed_exact": int(removed["exact"].sum()),
        "precision": share(removed["jaccard"] >= dedup.threshold),
        "precision_any": share(int(row) in similar for row in removed["row"]),
        "compared": duplicates.counts["pairs_compared"],
        "seconds_duplicates": round(took, 2),
    }


def at_threshold(texts: list[str], truth: Pairs, dedup: Dedup, seeds: int = 50) -> tuple[int, float, float] | None:
    """The pairs that are hardest to find: their number, the share found by LSH alone and by the formula, if any."""
    hard = {pair: s for pair, s in truth.items() if s < dedup.threshold + 0.05}
    hashes = {i: shingle_hashes(texts[i], dedup.shingle_words) for pair in hard for i in pair}
    found = []
    for hashers in (permutations(dedup.banding.hashes, seed) for seed in range(seeds)):
        rows = {i: signature(own, hashers).reshape(dedup.banding.bands, -1) for i, own in hashes.items()}
        found += [(rows[i] == rows[j]).all(axis=1).any() for i, j in hard]
    return (len(hard), share(found), share(map(dedup.banding.chance, hard.values()))) if hard else None


def share(hits: Any) -> float:
    values = [float(hit) for hit in hits]
    return round(sum(values) / max(1, len(values)), 4)


def main() -> None:
    path = Path(sys.argv[1])
    threshold, recall = (float(sys.argv[i]) if len(sys.argv) > i else None for i in (2, 3))
    dedup = Dedup(threshold=threshold or 0.8, recall=recall)
    texts = read(path)
    characters = sum(map(len, texts.values()))
    line = {"file": path.name, "threshold": dedup.threshold, "documents": len(texts), "characters": characters}
    print(json.dumps(line | quality(texts, dedup) | speed(list(texts.values()), dedup)))


if __name__ == "__main__":
    main()
