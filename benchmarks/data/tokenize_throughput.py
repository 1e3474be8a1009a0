"""Measures the encoding of texts on one core, and the tokenizers library; compares the ids. Prints one JSON line.

    python -m benchmarks.data.tokenize_throughput DOCUMENTS.jsonl[.zst] [--text-field text] [--runs 3]
        [--gpt2 FOLDER/tokenizer.json] [--kinds train wordpiece …]

Tokenizers of each kind that the stage ``tokenizer`` trains on the documents, by default byte-level BPE of 8,192 tokens
alone, and GPT-2's where its file is given. Candidates take turns on the same texts in this process. Figures: MB of
text (UTF-8) a second of CPU time.

    headrace cold          the stage's Encoder on batches of 1 MB, as the stage does; no word has been seen before
    headrace warm          the same Encoder once more: all words are known, as the frequent ones are in a long run
    with bytes             the same, and the UTF-8 bytes of each token, as the stage does where they are not fixed
    tokenizers             encode_batch_fast of the library on the same batches, one thread

``differing`` counts the documents for which Encoder and library give other ids. ``load_seconds`` is spent once in a
process, before the first text: reading tokenizer.json and proving that the fast path is exact.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tokenizers

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from headrace.data_prep.document import read_documents
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.encode import Encoder, batches, parse
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.made_tokenizers import Bpe, Bytes, Characters, Trained, WordPiece, Words
from headrace.data_prep.tokenizer import Tokenizer, TokenizerSettings
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Stage

KINDS: dict[str, TokenizerSettings] = {
    "train": Trained(),
    "byte": Bytes(),
    "word": Words(vocabulary_size=32768),
    "character": Characters(vocabulary_size=1024),
    "bpe": Bpe(),
    "wordpiece": WordPiece(special_tokens="bert"),
}
"""The kinds as in conf/tokenizer."""


def build(stage: Stage, folder: Path, **inputs: Artifact) -> Artifact:
    """The artifact of ``stage`` in ``folder``, made in this process."""
    phases = stage.phases({name: artifact.shard_count for name, artifact in inputs.items()})
    for phase in phases:
        for task in range(phase.tasks):
            out = TaskOutput(folder, phase.name, task)
            out.done(phase.run(task, inputs, out))
    addresses = {name: artifact.folder.name for name, artifact in inputs.items()}
    return finish(folder, stage.description(addresses), {phase.name: phase.tasks for phase in phases})


def by_library(library: tokenizers.Tokenizer, texts: list[str]) -> Iterator[list[int]]:
    for batch in batches(iter(texts)):
        for encoding in library.encode_batch_fast(batch, add_special_tokens=False):
            yield encoding.ids


def by_encoder(encoder: Encoder, texts: list[str]) -> Iterator[np.ndarray]:
    for batch in batches(iter(texts)):
        yield from encoder.encode(batch)


def with_bytes(encoder: Encoder, texts: list[str]) -> Iterator[object]:
    for batch in batches(iter(texts)):
        yield from encoder.encode_with_bytes(batch)


def cpu_seconds(work: Iterator[object]) -> float:
    start = time.process_time()
    for _ in work:
        pass
    return time.process_time() - start


def measure(path: Path, texts: list[str], runs: int) -> dict[str, object]:
    """One tokenizer: how many documents differ, and the rates of each candidate."""
    seconds: dict[str, list[float]] = defaultdict(list)
    loads: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        library = parse(path.read_text(encoding="utf-8"), str(path))
        encoder = Encoder(library)
        encoder.encode([])
        loads.append(time.process_time() - start)
        seconds["headrace cold"].append(cpu_seconds(by_encoder(encoder, texts)))
        seconds["headrace warm"].append(cpu_seconds(by_encoder(encoder, texts)))
        if encoder.token_bytes is None:
            seconds["with bytes"].append(cpu_seconds(with_bytes(encoder, texts)))
        seconds["tokenizers"].append(cpu_seconds(by_library(library, texts)))
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rates = {name: [round(megabytes / used, 2) for used in row] for name, row in seconds.items()}
    medians = {name: statistics.median(row) for name, row in rates.items()}
    pairs = list(zip(by_encoder(encoder, texts), by_library(library, texts), strict=True))
    return {
        "vocabulary": encoder.vocabulary_size,
        "slow_because": encoder.slow_because,
        "differing": sum(ours.tolist() != theirs for ours, theirs in pairs),
        "tokens": sum(len(ids) for ids, _ in pairs),
        "load_seconds": round(statistics.median(loads), 2),
        "text_megabytes_per_cpu_second": rates,
        "times_tokenizers": {name: round(rate / medians["tokenizers"], 1) for name, rate in medians.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--gpt2")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["train"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    candidates: dict[str, TokenizerSettings] = {kind: KINDS[kind] for kind in options.kinds}
    if options.gpt2:
        candidates["gpt2"] = GivenFile(path=options.gpt2)
    with tempfile.TemporaryDirectory() as root:
        source = Jsonl(paths=(str(options.documents),), text_field=options.text_field)
        unique = build(Texts(source=source), Path(root, "unique"))
        texts = [document.text for shard in unique.shards("documents") for document in read_documents(shard)]
        load = os.getloadavg()[0]
        results = {}
        for name, settings in candidates.items():
            tokenizer = build(Tokenizer(settings=settings), Path(root, name), unique=unique)
            results[name] = measure(tokenizer.path("tokenizer.json"), texts, options.runs)
    versions = {package: importlib.metadata.version(package) for package in ("tokenizers", "gigatoken")}
    summary = {"benchmark": "tokenize_throughput", "python": platform.python_version(), **versions}
    summary |= {"documents": len(texts), "text_megabytes": round(sum(len(t.encode()) for t in texts) / 1e6, 3)}
    print(json.dumps(summary | {"load_before_and_after": [load, os.getloadavg()[0]], **results}))


if __name__ == "__main__":
    main()
