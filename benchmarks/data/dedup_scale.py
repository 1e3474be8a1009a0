"""Measures how deduplication scales: time, memory and disk of each phase of stage ``duplicates``.

    python -m benchmarks.data.dedup_scale --signatures 1000000 5000000 20000000

Prints one line of JSON for each size. Documents are synthetic (seed 0), everything from their signatures on is real:
the phases of data_prep/duplicates.py, task after task, each phase in a process of its own. Only the shingle sets of
candidates, which the stage computes from texts, are planted too. Signatures (448 bytes each) are made when they are
read, and the time of that is not counted.

    75 % of the documents are alone, 25 % are in clusters of 2 to 1,000 (a power law), spread over all shards. One
    member in five is an exact copy of its cluster's text, the others have a similarity that is drawn for the cluster
    from 0.5 to 1: in their signatures as in their shingle sets.

The keys of C4's global line deduplication (data_prep/filters/keys.py) are counted and timed as well: one key for each
document, half of them on two or more pages.

    cpu_seconds            of the process, without start-up; all tasks of the phase together
    records_per_second     documents (or keys) per CPU second
    peak_mb                highest resident memory of the process (10^6 bytes), files mapped by it included
    libraries_mb           of that, what it held before the first task: Python, numpy, numba
    scratch_mb             scratch files after the phase; while a task sorts more than memory_gb, its records once more,
                           and while it compares documents, their shingle sets once more
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
from datatrove.data import Document

from headrace.data_prep import duplicates
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.corpus import Corpus, Numbers, numbers_of, rows_of
from headrace.data_prep.dedup.lsh import mix
from headrace.data_prep.document import Drop
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.filters.filter import GlobalFilter
from headrace.data_prep.filters.keys import KeyWriter, Losers, decide
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Inputs, Phase

CLUSTERED = 0.25
COPIES = 0.2
SIZES_POWER, LARGEST_CLUSTER = 2.5, 1000
LEAST_SIMILARITY = 0.5
BATCH = 1 << 13
KEYS_PER_DOCUMENT = 30


def similarity_of(cluster: np.ndarray) -> np.ndarray:
    """Returns the similarity of two members of each of these clusters: (n,)."""
    return LEAST_SIMILARITY + (1 - LEAST_SIMILARITY) * (mix(cluster) >> np.uint64(11)) * 2.0**-53


def clusters(n_documents: int, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    """Returns the cluster of each document, (n,) uint64, and the number of those with several, which come first."""
    sizes = np.minimum(generator.zipf(SIZES_POWER, n_documents) + 1, LARGEST_CLUSTER)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), int(n_documents * CLUSTERED))]
    cluster = np.arange(n_documents, dtype=np.uint64) + np.uint64(sizes.size)
    cluster[: sizes.sum()] = np.repeat(np.arange(sizes.size, dtype=np.uint64), sizes)
    generator.shuffle(cluster)
    return cluster, sizes.size


def plant(folder: Path, n_documents: int, shard_documents: int) -> None:
    """Writes the artifacts ``clean``, without texts, and ``signatures``, without these, of documents in clusters."""
    generator = np.random.default_rng(0)
    cluster, n_clusters = clusters(n_documents, generator)
    copies = (cluster < n_clusters) & (generator.random(n_documents) < COPIES)
    n_shards = -(-n_documents // shard_documents)
    for shard in range(n_shards):
        own = slice(shard * shard_documents, (shard + 1) * shard_documents)
        out = TaskOutput(folder / "signatures", "signatures", shard)
        for kind, array in planted_arrays(shard, cluster[own], copies[own]).items():
            with out.shard(kind, "npy") as path:
                save_array(path, array)
        out.done({})
        TaskOutput(folder / "clean", "clean", shard).done({})
    for stage in ("clean", "signatures"):
        finish(folder / stage, {"stage": stage, "settings": {}}, {stage: n_shards})


def planted_arrays(shard: int, cluster: np.ndarray, copies: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the small arrays of stage ``signatures`` for a shard; a copy has the digest of its cluster."""
    generator = np.random.default_rng([1, shard])
    rows = np.arange(cluster.size)
    text = np.where(copies, mix(cluster), mix(numbers_of(shard, rows) + np.uint64(2**63)))
    digests = np.stack([text, mix(text), mix(mix(text)), mix(mix(mix(text)))], axis=1)
    return {
        "digests": digests.view(np.uint8).reshape(-1, 32),
        "characters": generator.integers(200, 5000, cluster.size).astype(np.uint32),
        "ids": np.char.add(f"{shard:05d}.warc.gz:", rows.astype(str)).astype("S"),
        "cluster": cluster,
        "copies": copies,
    }


def planted_signatures(shard: int, cluster: np.ndarray, copies: np.ndarray, hashes: int) -> np.ndarray:
    """Returns the signatures of a shard, (n, hashes) uint32; a copy has that of its cluster."""
    generator = np.random.default_rng([4, shard])
    columns = np.arange(hashes, dtype=np.uint64)
    signatures = np.empty((cluster.size, hashes), np.uint32)
    kept = np.sqrt(np.where(copies, 1.0, similarity_of(cluster)))
    for start in range(0, cluster.size, BATCH):
        piece = slice(start, start + BATCH)
        common = mix(cluster[piece, None] * np.uint64(4096) + columns).astype(np.uint32)
        own = generator.integers(0, 2**32, common.shape, np.uint32)
        signatures[piece] = np.where(generator.random(common.shape, np.float32) < kept[piece, None], common, own)
    return signatures


def planted_sets(documents: Numbers, cluster: np.ndarray, n_shingles: int) -> list[np.ndarray]:
    """Shingle sets of ``documents`` with the similarities that their clusters have."""
    columns, sets = np.arange(n_shingles, dtype=np.uint64), []
    for start in range(0, documents.size, BATCH):
        piece = slice(start, start + BATCH)
        common = mix(cluster[piece, None] * np.uint64(4096) + columns)
        own = mix(mix(documents[piece, None]) + columns)
        similarity = similarity_of(cluster[piece, None])
        kept = np.sqrt(2 * similarity / (1 + similarity))
        sets += list(np.sort(np.where((mix(own) >> np.uint64(11)) * 2.0**-53 < kept, common, own), axis=1))
    return sets


class Planted(Duplicates):
    """The stage, with shingle sets that are planted and not read from texts."""

    shingles: ClassVar[int]
    """Shingles of a document; a web page has some hundreds, which cost disk and comparisons in proportion."""

    def shingle_sets(self, task: int, wanted: Numbers, inputs: Inputs) -> list[np.ndarray]:
        cluster = np.load(inputs["signatures"].shard("cluster", task, "npy"))[rows_of(wanted)]
        return planted_sets(wanted, cluster, self.shingles)


class PlantedCorpus(Corpus):
    """The corpus of ``Planted``. It makes signatures when they are read: those of 10^8 documents would fill 45 GB."""

    seconds: ClassVar[float] = 0.0
    """CPU time that this took, which is not the stage's."""

    def array(self, kind: str, shard: int) -> np.ndarray:
        if kind != "signatures":
            return super().array(kind, shard)
        start = time.process_time()
        cluster, copies = super().array("cluster", shard), super().array("copies", shard)
        signatures = planted_signatures(shard, cluster, copies, Dedup().banding.hashes)
        PlantedCorpus.seconds += time.process_time() - start
        return signatures


class Line(GlobalFilter):
    """The keys of synthetic lines: half of them are on two or more pages."""

    rank_words: ClassVar[int] = 2

    def keys(self, document: Document) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        keys: np.ndarray = document.metadata["keys"]
        return keys, keys[0], np.arange(len(keys), dtype=np.uint32)

    def trim(self, document: Document, losers: np.ndarray) -> Drop | None:
        return None


def key_phases(n_keys: int, shard_keys: int, dedup: Dedup) -> tuple[Phase, ...]:
    """Runs the phases of stage ``clean`` on the keys of a global filter."""
    n_shards = -(-n_keys // shard_keys)

    def write(task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        generator = np.random.default_rng([2, task])
        with KeyWriter(Line(), out, dedup.buckets, dedup.memory_bytes) as writer:
            for _ in range(shard_keys // KEYS_PER_DOCUMENT):
                lines = generator.integers(0, n_keys, KEYS_PER_DOCUMENT).astype(np.uint64)
                writer.add(Document("", "", metadata={"keys": mix(np.stack([lines, ~lines], axis=1))}))
        return Counter()

    def settle(task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        return Counter(losers=decide(Line(), out, "keys_write", n_shards, dedup.memory_bytes))

    def read(task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        with Losers(out, "keys_decide", dedup.buckets, dedup.memory_bytes) as losers:
            return Counter(read=sum(losers.of(n).size for n in range(shard_keys // KEYS_PER_DOCUMENT)))

    return (
        Phase("keys_write", n_shards, write),
        Phase("keys_decide", dedup.buckets, settle),
        Phase("keys_losers", n_shards, read),
    )


def phases_of(folder: Path, n_records: int, shard_documents: int, dedup: Dedup) -> tuple[Phase, ...]:
    stage = Planted.of(dedup)
    shards = -(-n_records // shard_documents)
    return (*stage.phases({"clean": shards}), *key_phases(n_records, shard_documents, dedup))


def run_phase(folder: Path, name: str, phases: tuple[Phase, ...]) -> dict[str, object]:
    """All tasks of a phase in this process, and what they took."""
    duplicates.Corpus = PlantedCorpus  # type: ignore[attr-defined,misc]
    phase = next(phase_of_stage for phase_of_stage in phases if phase_of_stage.name == name)
    inputs = {stage: Artifact(folder / stage) for stage in ("clean", "signatures")}
    libraries, start = peak_bytes(), time.process_time()
    counts: Counter[str] = Counter()
    for task in range(phase.tasks):
        out = TaskOutput(folder / "duplicates", name, task)
        counted = phase.run(task, inputs, out)
        out.done(counted)
        counts += counted
    seconds = time.process_time() - start - PlantedCorpus.seconds
    scratch = sum(path.stat().st_size for path in (folder / "duplicates" / "scratch").rglob("*") if path.is_file())
    sizes = {"peak_mb": peak_bytes(), "libraries_mb": libraries, "scratch_mb": scratch}
    return {"tasks": phase.tasks, "cpu_seconds": round(seconds, 2)} | {
        "counts": dict(counts),
        **{kind: round(value / 1e6) for kind, value in sizes.items()},
    }


def peak_bytes() -> int:
    """Highest resident memory of this program so far (getrusage would count the one that started it, too)."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--signatures", type=int, nargs="+", required=True)
    parser.add_argument("--shard-documents", type=int, default=250_000)
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--memory-gb", type=float, default=0.25)
    parser.add_argument("--shingles", type=int, default=100, help="of a document")
    parser.add_argument("--folder", type=Path, help="where to make the artifacts; default: a temporary folder")
    parser.add_argument("--phase", help="run this one in this process, on what is in the folder")
    given = parser.parse_args()
    dedup = Dedup(buckets=given.buckets, memory_gb=given.memory_gb)
    Planted.shingles = given.shingles
    for n_documents in given.signatures:
        if given.phase:
            phases = phases_of(given.folder, n_documents, given.shard_documents, dedup)
            print(json.dumps(run_phase(given.folder, given.phase, phases)))
            continue
        with tempfile.TemporaryDirectory(dir=given.folder) as name:
            print(json.dumps(measure(Path(name), n_documents, given, dedup)), flush=True)


def measure(folder: Path, n_documents: int, given: argparse.Namespace, dedup: Dedup) -> dict[str, object]:
    """Every phase in a process of its own."""
    plant(folder, n_documents, given.shard_documents)
    result: dict[str, object] = {"documents": n_documents, "buckets": dedup.buckets, "memory_gb": dedup.memory_gb}
    for phase in phases_of(folder, n_documents, given.shard_documents, dedup):
        command = [sys.executable, "-m", "benchmarks.data.dedup_scale", "--phase", phase.name]
        command += ["--signatures", str(n_documents), "--shard-documents", str(given.shard_documents)]
        command += ["--buckets", str(dedup.buckets), "--memory-gb", str(dedup.memory_gb), "--folder", str(folder)]
        command += ["--shingles", str(given.shingles)]
        figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        figures["records_per_second"] = round(n_documents / max(figures["cpu_seconds"], 0.01))
        result[phase.name] = figures
        print(phase.name, figures, file=sys.stderr)
    return result


if __name__ == "__main__":
    main()
