"""Measures the search for repeated spans beside a suffix array of the same text. Prints a JSON line for each size.

    PYTHONPATH=<folder with pydivsufsort> python -m benchmarks.data.repeated_spans TEXT[.zst] --megabytes 5 10 20

The first megabytes of TEXT are cut into documents at blank lines, of 2,000 characters or more each, in shards of 2 MB.
Both run in this process, on one core.

    headrace       all phases of stage ``repeats``: 50 words, files compressed, checksummed and sorted on disk
    suffix array   libdivsufsort by pydivsufsort, and Kasai's array of common prefixes, of the UTF-8 bytes in memory:
                   the part of a suffix-array deduplication (Lee et al. 2022) that finds the repeats. It reads, cuts
                   and writes nothing

The measures are CPU seconds. ``span_share`` is the share of the characters that headrace cuts; ``repeated_share`` that
of the bytes in substrings of 300 bytes that occur twice, all copies. They differ in the unit: words, or bytes.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from datatrove.data import Document

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.document import DocumentWriter
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.repeats import Repeats
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.text_files import read_lines

WORDS, BYTES = 50, 300
DOCUMENT_CHARACTERS, SHARD_BYTES = 2_000, 2_000_000
PARAGRAPH = re.compile(r"(?<=\n)\n+")


def documents_of(path: Path, n_bytes: int) -> list[str]:
    """Returns the documents of the first ``n_bytes`` of the text."""
    lines, size = list[str](), 0
    for line in read_lines(path):
        lines.append(line.decode("utf-8", "replace"))
        size += len(line) + 1
        if size >= n_bytes:
            break
    documents = [""]
    for paragraph in PARAGRAPH.split("\n".join(lines)):
        if len(documents[-1]) >= DOCUMENT_CHARACTERS:
            documents.append("")
        documents[-1] += paragraph + "\n"
    return documents


def write_clean(folder: Path, documents: list[str]) -> Artifact:
    """Writes the documents as an artifact of stage ``clean``."""
    ends = np.cumsum([len(text.encode()) for text in documents]) // SHARD_BYTES
    shards = np.split(np.arange(len(documents)), np.flatnonzero(np.diff(ends)) + 1)
    for number, rows in enumerate(shards):
        out = TaskOutput(folder, "clean", number)
        with out.shard("documents", "jsonl.zst") as path, DocumentWriter(path) as writer:
            for row in rows.tolist():
                writer.write(Document(documents[row], f"text:{row}"))
        out.done({"kept": rows.size})
    return finish(folder, {"stage": "clean", "settings": {}}, {"clean": len(shards)})


def run(stage: Stage, artifacts: Mapping[str, Artifact], folder: Path) -> tuple[Artifact, dict[str, float]]:
    """Runs all tasks of ``stage``; returns its artifact and the CPU seconds of each phase."""
    inputs, seconds = {name: artifacts[name] for name in stage.inputs}, dict[str, float]()
    phases = stage.phases({name: artifact.shard_count for name, artifact in inputs.items()})
    for phase in phases:
        begin = time.process_time()
        for task in range(phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
        seconds[phase.name] = round(time.process_time() - begin, 2)
    addresses = dict.fromkeys(inputs, "")
    return finish(folder, stage.description(addresses), {phase.name: phase.tasks for phase in phases}), seconds


def measured(documents: list[str], root: Path, dedup: Dedup) -> dict[str, Any]:
    """Returns the measures of stage ``repeats``."""
    artifacts = {"clean": write_clean(root / "clean", documents)}
    for stage in (Signatures.of(dedup), Duplicates.of(dedup)):
        artifacts[stage.name], _ = run(stage, artifacts, root / stage.name)
    repeats, seconds = run(Repeats.of(dedup, WORDS), artifacts, root / "repeats")
    return {"seconds": round(sum(seconds.values()), 2), "phases": seconds, "span_share": cut_share(repeats, documents)}


def cut_share(repeats: Artifact, documents: list[str]) -> float:
    """Returns the share of the characters that are in a span."""
    covered = 0
    for path in repeats.shards("spans"):
        end, row = 0, -1
        for span in np.load(path)[["row", "start", "end"]].tolist():
            end = end if span[0] == row else 0
            row, covered, end = span[0], covered + max(0, span[2] - max(span[1], end)), max(end, span[2])
    return round(covered / sum(map(len, documents)), 4)


def suffix_array(documents: list[str]) -> dict[str, Any]:
    """Returns the measures of the suffix array; nothing without the package."""
    try:
        from pydivsufsort import divsufsort, kasai
    except ImportError:
        return {}
    text = "\0".join(documents).encode()
    begin = time.process_time()
    order = divsufsort(text)
    common = kasai(text, order)
    repeated = np.zeros(len(text) + 1, np.int32)
    long = np.flatnonzero(common[:-1] >= BYTES)
    for starts in (order[long], order[long + 1]):
        np.add.at(repeated, starts, 1)
        np.add.at(repeated, np.minimum(starts + common[long], len(text)), -1)
    share = float(np.mean(np.cumsum(repeated)[:-1] > 0))
    return {"seconds": round(time.process_time() - begin, 2), "repeated_share": round(share, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--memory-gb", type=float, default=2.0)
    arguments = parser.parse_args()
    dedup = Dedup(repeated_words=WORDS, memory_gb=arguments.memory_gb)
    for megabytes in [1, *arguments.megabytes]:  # the first one compiles
        documents = documents_of(arguments.text, megabytes * 1_000_000)
        with tempfile.TemporaryDirectory() as folder:
            ours = measured(documents, Path(folder), dedup)
        row = {"megabytes": megabytes, "documents": len(documents), "headrace": ours}
        print(json.dumps(row | {"suffix_array": suffix_array(documents)}), flush=True)


if __name__ == "__main__":
    main()
