"""Runs the data stages on many gigabytes of text, as a user does: time, processor time, memory and disk. One JSON line.

    python -m benchmarks.data.data_line PAGES.jsonl[.zst] FOLDER --gigabytes 20 [--workers 2] [OVERRIDE…]

PAGES: JSONL with ``text`` of real web pages. FOLDER gets ``raw/``, files of made pages, and ``runs/``, the root. Made
pages have the lengths, lines and punctuation of the real ones, in turn; a quarter of the longer words are others of the
real pages, drawn by how often they stand there, so that neither lines nor shingles repeat. A quarter of the pages are
in clusters of copies with the sizes and similarities of dedup_scale.py. Everything is a function of the seed 0.

``headrace source=jsonl until=packed`` follows in a process of its own. A command that was killed goes on where it was,
and then only the rest is measured.

    raw_gb, pages       UTF-8 text of the made pages (10^9 bytes) and their number
    wall_seconds        of the command; cpu_seconds: processor time of all its processes; load_before: of the machine
    peak_gb             highest sum of the proportional memory (PSS) of its processes, looked at each second
    stages              for each stage: wall-clock seconds, bytes of its folder, what is kept
    scratch_gb          the most that scratch folders held at a time, looked at each 10 seconds
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.commands.small_run import measured
from benchmarks.data.dedup_scale import COPIES, similarity_of
from benchmarks.data.dedup_scale import clusters as clusters_of
from benchmarks.data.stage_costs import bytes_below
from benchmarks.robustness.descendants import adopt_orphans, below
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.text_files import created, read_lines
from headrace.pipeline.core.work_log import attempts

WORD = re.compile(r"\b[A-Za-z]{4,}\b")
REPLACED = 0.25
SHINGLE_WORDS = 5
FILE_PAGES = 20_000


class Pages:
    """The real pages, cut into words that may be replaced and what stands between them."""

    def __init__(self, path: Path) -> None:
        texts = [text for line in read_lines(path) if (text := (orjson.loads(line).get("text") or "").strip())]
        self.pieces = [np.array(WORD.sub("\0\\g<0>\0", text).split("\0"), dtype=object) for text in texts]
        self.mean_bytes = sum(len(text.encode()) for text in texts) / len(texts)
        self.words = np.array([word for pieces in self.pieces for word in pieces[1::2]], dtype=object)

    def changed(self, pieces: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
        """Returns ``pieces`` with this share of the words replaced."""
        n_words = pieces.size // 2
        chosen = np.flatnonzero(generator.random(n_words) < share)
        pieces = pieces.copy()
        pieces[2 * chosen + 1] = self.words[generator.integers(0, self.words.size, chosen.size)]
        return pieces

    def text(self, number: int, cluster: int, is_alone: bool) -> str:
        """Returns the made page ``number``. Pages of one cluster are copies of one page."""
        origin = np.random.default_rng([0, cluster])
        pieces = self.changed(self.pieces[cluster % len(self.pieces)], REPLACED, origin)
        own = np.random.default_rng([1, number])
        if not is_alone and own.random() >= COPIES:
            # Two pages share the 5-grams in which neither has an own word: s of those of each, s / (2 - s) of all.
            jaccard = float(similarity_of(np.array([cluster], np.uint64))[0])
            both = 2 * jaccard / (1 + jaccard)
            pieces = self.changed(pieces, 1 - both ** (1 / (2 * SHINGLE_WORDS)), own)
        return "".join(pieces)


@cache
def pages_of(path: Path) -> Pages:
    return Pages(path)


def make_file(pages: Path, target: Path, first: int, cluster: np.ndarray, n_clusters: int) -> int:
    """Writes the made pages from the number ``first`` on; returns the bytes of their texts."""
    size, made = 0, pages_of(pages)
    with created(target) as stream:
        for number, own in enumerate(cluster.tolist(), first):
            text = made.text(number, own, own >= n_clusters)
            size += len(text.encode())
            stream.write(orjson.dumps({"url": f"https://site{own % 50_000}.example/{number}", "text": text}) + b"\n")
    return size


def make(pages: Path, folder: Path, gigabytes: float, workers: int) -> tuple[int, float]:
    """Writes the raw files unless they are there; returns the number of pages and their bytes."""
    facts = folder / "made.json"
    if not facts.exists():
        folder.mkdir(parents=True)
        number = int(gigabytes * 1e9 / pages_of(pages).mean_bytes)
        cluster, n_clusters = clusters_of(number, np.random.default_rng(0))
        starts = range(0, number, FILE_PAGES)
        with ProcessPoolExecutor(workers) as pool:
            sizes = [
                pool.submit(
                    make_file,
                    pages,
                    folder / f"{start // FILE_PAGES:05}.jsonl.zst",
                    start,
                    cluster[start : start + FILE_PAGES],
                    n_clusters,
                )
                for start in starts
            ]
            facts.write_text(json.dumps([number, sum(size.result() for size in sizes)]))
    number, size = json.loads(facts.read_text())
    return number, size


def memory_of(process: int) -> int:
    """Returns the proportional memory of ``process`` in bytes; 0 when it has just ended."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024


@contextlib.contextmanager
def watched(root: Path) -> Iterator[dict[str, int]]:
    """Yields the peaks of memory (of the processes below this one) and of scratch (below ``root``), in bytes."""
    peaks, over = {"memory": 0, "scratch": 0}, threading.Event()

    def watch() -> None:
        for look in itertools.count():
            peaks["memory"] = max(peaks["memory"], sum(map(memory_of, below(os.getpid()))))
            if look % 10 == 0:
                peaks["scratch"] = max(peaks["scratch"], sum(map(bytes_below, root.glob("*/*/scratch"))))
            if over.wait(1):
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def stage_facts(folder: Path) -> dict[str, Any]:
    """Returns what a finished stage took and kept."""
    own, counts = attempts(folder), Artifact(folder).counts
    seconds = sum(attempt.until - attempt.start for attempt in own)
    kept = {name: counts[name] for name in ("documents", "kept", "removed", "tokens", "rows") if name in counts}
    return {"seconds": round(seconds), "bytes": bytes_below(folder), **kept}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_intermixed_args()
    raw, root = given.folder / "raw", given.folder / "runs"
    number, size = make(given.pages, raw, given.gigabytes, given.workers)
    settings = ["source=jsonl", f"source.paths={raw}/*.jsonl.zst", "until=packed", f"workers={given.workers}"]
    adopt_orphans()
    with watched(root) as peaks:
        command = measured([*settings, f"root={root}", *given.overrides])
    folders = sorted(path.parent for path in root.glob("*/*/manifest.json") if path.parent.parent.name != "runs")
    result = {
        "benchmark": "data_line",
        "raw_gb": size / 1e9,
        "pages": number,
        "raw_zst_gb": bytes_below(raw) / 1e9,
        **command,
        "core_hours_per_tb": command["cpu_seconds"] / 3600 / (size / 1e12),
        "peak_gb": peaks["memory"] / 1e9,
        "scratch_gb": peaks["scratch"] / 1e9,
        "stages": {folder.parent.name: stage_facts(folder) for folder in folders},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
