"""Measures the data stages on one core, from zstd text to packed rows, and datatrove's blocks. Prints one JSON line.

    python -m benchmarks.data.end_to_end PAGES.jsonl[.zst] TOKENIZER [--text-field text] [--runs 3]

PAGES: JSONL with ``url`` and text; TOKENIZER: GPT-2's tokenizer.json. Candidates take turns on the same pages, each in
this process, as one worker, file to file. Figures: MB of text (UTF-8, of the pages that can be read) a second of CPU
time, of threads and child processes too. A first run of each is reported apart: it loads what the process keeps, and
compiles where numba's cache is empty.

    headrace        texts, clean (only c4_lines: what C4QualityFilter does), signatures, duplicates with exact
                    verification (one bucket, as there is one worker), unique, tokens, packed (2,048 positions)
    headrace c4     the same with all of conf/cleaning/c4.yaml: URL and line deduplication, langdetect, bad words too
    datatrove       JsonlReader, C4QualityFilter (C4's thresholds), JsonlWriter; MinHash 1 to 4 (14 × 8, SHA-1, as its
                    xxHash rejects str) with reader and writer; DocumentTokenizer. It packs nothing, verifies no pair

datatrove needs spaCy, for sentences and words; without it only ours is measured.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml
from datatrove.pipeline.dedup import minhash
from datatrove.pipeline.filters import C4QualityFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokens import Tokens
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Stage

PRESET = Path(__file__).parents[2] / "conf" / "cleaning" / "c4.yaml"
STEPS = ("clean", "dedup", "tokens", "packed")
STEP_OF = {"texts": "clean", "signatures": "dedup", "duplicates": "dedup", "unique": "dedup"}
Clock = Callable[[str], None]
"""Called with the name of a step when it is done."""


def build(stage: Stage, folder: Path, inputs: dict[str, Artifact]) -> Artifact:
    """The artifact of ``stage`` in ``folder``, made in this process."""
    phases = stage.phases({name: artifact.shard_count for name, artifact in inputs.items()})
    for phase in phases:
        for task in range(phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
    return finish(folder, stage.description(dict.fromkeys(stage.inputs, "")), {p.name: p.tasks for p in phases})


def tokenizer_of(gpt2: GivenFile, folder: Path) -> Artifact:
    """An artifact as the stage ``tokenizer`` leaves it."""
    out = TaskOutput(folder, "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        path.write_text(gpt2.tokenizer().to_str(), encoding="utf-8")
    out.done({})
    return finish(folder, {"stage": "tokenizer"}, {"tokenizer": 1})


def headrace(source: Jsonl, tokenizer: Artifact, only: str | None, folder: Path, done: Clock) -> dict[str, int]:
    """The stages from raw pages to rows, with all of C4's filters or only the one of type ``only``."""
    preset = yaml.safe_load(PRESET.read_text(encoding="utf-8"))
    preset["filters"] = [rule for rule in preset["filters"] if only in (None, rule["type"])]
    dedup = Dedup(buckets=1)
    line = (
        Texts(source=source),
        Clean(cleaning=decode(Cleaning, preset)),
        Signatures.of(dedup),
        Duplicates.of(dedup),
        Unique(),
        Tokens(),
        Packed(packing=Packing(row_tokens=2048)),
    )
    made = {"tokenizer": tokenizer}
    for stage in line:
        made[stage.name] = build(stage, folder / stage.name, {name: made[name] for name in stage.inputs})
        done(STEP_OF.get(stage.name, stage.name))
    kept, tokens = made["unique"].counts["kept"], made["tokens"].counts["tokens"]
    return {"cleaned": made["clean"].counts["kept"], "unique": kept, "tokens": tokens}


def datatrove(pages: Path, text_field: str, tokenizer: Path, folder: Path, done: Clock) -> dict[str, int]:
    """The same work with datatrove's blocks, one after another as its examples chain them."""

    def reader(where: Path, key: str = "text") -> JsonlReader:
        return JsonlReader(str(where), glob_pattern="*.jsonl.zst", text_key=key, doc_progress=False)

    def write(where: str, documents: object) -> int:
        writer = JsonlWriter(str(folder / where), output_filename="${rank}.jsonl.zst", compression="zstd")
        return sum(1 for _ in writer.run(documents))

    raw = JsonlReader(str(pages.parent), glob_pattern=pages.name, text_key=text_field, doc_progress=False)
    rules = C4QualityFilter(min_num_sentences=3, min_words_per_line=5)
    cleaned = write("clean", rules.run(raw.run()))
    done("clean")
    config = minhash.MinhashConfig(hash_config=HashConfig(precision=64, hash_fc="sha1"))
    signed, paired, clustered = (str(folder / name) for name in ("signatures", "pairs", "clusters"))
    minhash.MinhashDedupSignature(signed, config).run(reader(folder / "clean").run())
    for bucket in range(config.num_buckets):
        minhash.MinhashDedupBuckets(signed, paired, config=config).run(None, bucket, config.num_buckets)
    minhash.MinhashDedupCluster(paired, clustered, config).run()
    unique = write("unique", minhash.MinhashDedupFilter(clustered).run(reader(folder / "clean").run()))
    done("dedup")
    tokens = DocumentTokenizer(
        str(folder / "tokens"), str(tokenizer), eos_token="<|endoftext|>", batch_size=100, shuffle_documents=False
    )
    tokens.run(reader(folder / "unique").run())
    written = sum(path.stat().st_size for path in (folder / "tokens").glob("*.ds")) // 2
    done("tokens")
    return {"cleaned": cleaned, "unique": unique, "tokens": written}


def cpu_seconds() -> float:
    """CPU time of this process, its threads and its children so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(work: Callable[[Path, Clock], dict[str, int]]) -> tuple[dict[str, float], dict[str, int]]:
    """CPU seconds of each step of ``work``, and its counts."""
    seconds: dict[str, float] = defaultdict(float)
    last = cpu_seconds()

    def done(step: str) -> None:
        nonlocal last
        now = cpu_seconds()
        seconds[step] += now - last
        last = now

    with tempfile.TemporaryDirectory() as folder:
        counts = work(Path(folder), done)
    return seconds, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path)
    parser.add_argument("tokenizer")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    source = Jsonl(paths=(str(options.pages),), text_field=options.text_field)
    gpt2 = GivenFile(path=options.tokenizer)
    texts = [document.text for document, drop in source.read(source.groups()[0][0].name) if drop is None]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = tokenizer_of(gpt2, Path(folder))
        works = {
            "headrace": partial(headrace, source, tokenizer, "c4_lines"),
            "headrace c4": partial(headrace, source, tokenizer, None),
        }
        if importlib.util.find_spec("spacy"):
            given = tokenizer.path("tokenizer.json")
            works["datatrove"] = partial(datatrove, options.pages, options.text_field, given)
        else:
            print("spaCy is not installed: datatrove cannot do the same work", file=sys.stderr)
        runs: dict[str, list[dict[str, float]]] = defaultdict(list)
        counts: dict[str, dict[str, int]] = {}
        for _ in range(options.runs + 1):
            for name, work in works.items():
                seconds, counts[name] = measure(work)
                runs[name].append(seconds)
    rates = {name: [round(megabytes / sum(run.values()), 3) for run in rows[1:]] for name, rows in runs.items()}
    medians = {name: statistics.median(row) for name, row in rates.items()}
    summary = {
        "benchmark": "data_end_to_end",
        "python": platform.python_version(),
        "pages": len(texts),
        "text_megabytes": round(megabytes, 3),
        "text_megabytes_per_cpu_second": rates,
        "cpu_seconds": {
            name: {step: round(statistics.median(run[step] for run in rows[1:]), 2) for step in STEPS}
            for name, rows in runs.items()
        },
        "first_run_cpu_seconds": {name: round(sum(rows[0].values()), 2) for name, rows in runs.items()},
        "counts": counts,
        "load_before_and_after": [load, os.getloadavg()[0]],
    }
    if "datatrove" in medians:
        summary["times_datatrove"] = {n: round(rate / medians["datatrove"], 1) for n, rate in medians.items()}
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
