"""Measures C4's rules on one core, and datatrove's C4QualityFilter on the same pages. Prints one JSON line.

    python -m benchmarks.data.clean_throughput PAGES.jsonl[.zst] [--runs 3]

PAGES: JSONL with ``url`` and ``text``. Each candidate reads it and writes zstd JSONL; candidates take turns, all in
this process. Figures: MB of text (UTF-8, in) a second of CPU time, one a run; the table goes to standard error.

    headrace c4                      the stages texts and clean with conf/cleaning/c4.yaml: every rule
    headrace c4_lines                only what C4QualityFilter does: the rules for lines, the count of sentences
    datatrove C4QualityFilter        JsonlReader, C4QualityFilter, JsonlWriter, with C4's thresholds; needs spaCy
    datatrove without sentences      the same without counting sentences (min_num_sentences=-1), which needs none

``agreement`` compares c4_lines with C4QualityFilter: pages that only one keeps, pages whose text differs. They cannot
agree fully: datatrove accepts ' as an end mark, counts words before citations are cut, and cuts sentences by spaCy.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import yaml
from datatrove.pipeline.filters import C4QualityFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import read_lines
from tests.stage_run import texts_and_clean

PRESET = Path(__file__).parents[2] / "conf" / "cleaning" / "c4.yaml"
Texts = dict[str, str]
"""The text of each page that is kept, by URL."""


def headrace(pages: Path, folder: Path, only: str | None) -> list[Path]:
    """The document shards of the stages texts and clean, with all of C4's filters or only the one of type ``only``."""
    preset = yaml.safe_load(PRESET.read_text(encoding="utf-8"))
    preset["filters"] = [rule for rule in preset["filters"] if only in (None, rule["type"])]
    _, clean = texts_and_clean(Jsonl(paths=(str(pages),)), decode(Cleaning, preset), folder)
    return clean.shards("documents")


def datatrove(pages: Path, folder: Path, min_sentences: int) -> list[Path]:
    """The shard that datatrove writes."""
    reader = JsonlReader(str(pages.parent), glob_pattern=pages.name, doc_progress=False)
    rules = C4QualityFilter(min_num_sentences=min_sentences, min_words_per_line=5)
    writer = JsonlWriter(str(folder), output_filename="${rank}.jsonl.zst", compression="zstd")
    for _ in writer.run(rules.run(reader.run())):
        pass
    return sorted(folder.glob("*.zst"))


def candidates() -> dict[str, Callable[[Path, Path], list[Path]]]:
    cleaners = {
        "headrace c4": lambda pages, folder: headrace(pages, folder, None),
        "headrace c4_lines": lambda pages, folder: headrace(pages, folder, "c4_lines"),
        "datatrove without sentences": lambda pages, folder: datatrove(pages, folder, -1),
    }
    if importlib.util.find_spec("spacy"):
        cleaners["datatrove C4QualityFilter"] = lambda pages, folder: datatrove(pages, folder, 3)
    else:
        print("spaCy is not installed: datatrove's C4QualityFilter cannot count English sentences", file=sys.stderr)
    return cleaners


def measure(pages: Path, runs: int) -> tuple[dict[str, list[float]], dict[str, Texts]]:
    """CPU seconds of each run of each candidate, and what it keeps. One run before them is not counted."""
    seconds: dict[str, list[float]] = defaultdict(list)
    kept: dict[str, Texts] = {}
    for run in range(runs + 1):
        for name, clean in candidates().items():
            folder = Path(tempfile.mkdtemp())
            start = time.process_time()
            shards = clean(pages, folder)
            used = time.process_time() - start
            if run:
                seconds[name].append(used)
            else:
                rows = [json.loads(line) for shard in shards for line in read_lines(shard)]
                kept[name] = {row["metadata"]["url"]: row.get("text", "") for row in rows}
            shutil.rmtree(folder)
    return seconds, kept


def agreement(ours: Texts, theirs: Texts) -> dict[str, int]:
    both = ours.keys() & theirs.keys()
    return {
        "kept_by_both": len(both),
        "only_headrace": len(ours.keys() - both),
        "only_datatrove": len(theirs.keys() - both),
        "other_text": sum(ours[url] != theirs[url] for url in both),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    source = Jsonl(paths=(str(options.pages),))
    records = [document for document, drop in source.read(source.groups()[0][0].name) if drop is None]
    megabytes = sum(len(document.text.encode()) for document in records) / 1e6
    load = os.getloadavg()[0]
    seconds, kept = measure(options.pages, options.runs)
    rates = {name: [round(megabytes / used, 3) for used in row] for name, row in seconds.items()}
    for name, row in rates.items():
        print(f"| {name} | {statistics.median(row)} ({min(row)}–{max(row)}) |", file=sys.stderr)
    summary = {
        "benchmark": "clean_throughput",
        "python": platform.python_version(),
        "pages": len(records),
        "text_megabytes": round(megabytes, 3),
        "text_megabytes_per_cpu_second": rates,
        "load_before_and_after": [load, os.getloadavg()[0]],
    }
    peer = "datatrove C4QualityFilter"
    if peer in kept:
        summary["agreement"] = agreement(kept["headrace c4_lines"], kept[peer])
        summary["times_datatrove"] = {
            name: round(statistics.median(row) / statistics.median(rates[peer]), 1) for name, row in rates.items()
        }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
