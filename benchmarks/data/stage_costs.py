"""Measures each data stage for a megabyte of raw text: time, disk and memory. Prints one JSON line.

    python -m benchmarks.data.stage_costs PAGES.jsonl[.zst] [--copies 1]

PAGES: JSONL with ``url`` and ``text``, such as text extracted from web pages. The stages texts, clean
(conf/cleaning/c4.yaml), signatures, duplicates, unique, tokenizer (trained on a sample), tokens and packed run on it
one after the other in this process, in a temporary folder, after a run on the first 100 pages that loads and compiles
everything. With ``copies`` each page is read that many times, with other words appended to its lines, to make more
text.

    raw_mb, pages       UTF-8 text of the input (10^6 bytes) and its pages
    documents, kept_mb  what clean keeps
    key_lines           keys of lines that UNIQUE_LINES compares
    cpu_seconds         of the stage
    artifact_mb         its files
    scratch_mb          the most that its scratch held between two tasks
    peak_mb             highest resident memory of the process so far, all libraries included
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.filters.keys import record_dtype
from headrace.data_prep.filters.unique_text import UniqueLines
from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.core.text_files import created, read_lines

PRESET = Path(__file__).parents[2] / "conf" / "cleaning" / "c4.yaml"
WARM_UP_PAGES = 100


def line_up(pages: Path) -> tuple[Stage, ...]:
    dedup = Dedup(buckets=4)
    cleaning = decode(Cleaning, yaml.safe_load(PRESET.read_text(encoding="utf-8")))
    return (
        Texts(source=Jsonl(paths=(str(pages),), task_bytes=4_000_000)),
        Clean(cleaning=cleaning),
        Signatures.of(dedup),
        Duplicates.of(dedup),
        Unique(),
        Tokenizer(settings=Trained(sample_bytes=5_000_000)),
        Tokens(),
        Packed(packing=Packing(row_tokens=2048, validation_fraction=0.1)),
    )


def run(stage: Stage, made: dict[str, Artifact], folder: Path) -> dict[str, float]:
    """Runs ``stage``, adds its artifact to ``made``, and returns its cost."""
    inputs = {name: made[name] for name in stage.inputs}
    phases = stage.phases({name: artifact.shard_count for name, artifact in inputs.items()})
    start, scratch = time.process_time(), 0
    for phase in phases:
        for task in range(phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
        scratch = max(scratch, bytes_below(folder / "scratch"))
    seconds = time.process_time() - start
    line_key = record_dtype(UniqueLines.rank_words)
    lines = [path.stat().st_size // line_key.itemsize for path in folder.glob("scratch/2-filter/keys/*.records")]
    addresses = dict.fromkeys(inputs, "")
    made[stage.name] = finish(folder, stage.description(addresses), {phase.name: phase.tasks for phase in phases})
    costs = {"cpu_seconds": round(seconds, 2), "artifact_mb": bytes_below(folder) / 1e6, "scratch_mb": scratch / 1e6}
    return costs | {"peak_mb": peak_bytes() / 1e6} | ({"key_lines": sum(lines)} if lines else {})


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def several(pages: Path, copies: int) -> Iterator[dict[str, Any]]:
    """Each page ``copies`` times, the lines of each copy different from those of the others."""
    for line in read_lines(pages):
        page = orjson.loads(line)
        if not (page["text"] or "").strip():
            continue
        for number in range(copies):
            own = f" Version {number}." if number else ""
            text = "\n".join(line + own for line in page["text"].split("\n"))
            yield {"url": f"{page['url']}?v={number}", "text": text}


def write(path: Path, pages: list[dict[str, Any]]) -> int:
    """Writes ``pages`` and returns the number of bytes of their texts."""
    with created(path) as stream:
        for page in pages:
            stream.write(orjson.dumps(page) + b"\n")
    return sum(len(page["text"].encode()) for page in pages)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    given = parser.parse_args()
    pages = list(several(given.pages, given.copies))
    result: dict[str, Any] = {}
    for chosen in (pages[:WARM_UP_PAGES], pages):
        with tempfile.TemporaryDirectory() as name:
            source, made = Path(name, "pages.jsonl.zst"), dict[str, Artifact]()
            result = {
                "pages": len(chosen),
                "raw_mb": write(source, chosen) / 1e6,
                "raw_zst_mb": bytes_below(source.parent) / 1e6,
            }
            for stage in line_up(source):
                result[stage.name] = run(stage, made, Path(name, stage.name))
            counts = made["clean"].counts
            result |= {"documents": counts["kept"], "kept_mb": counts["bytes_kept"] / 1e6}
            result |= {"tokens_stored": made["tokens"].counts["tokens"]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
