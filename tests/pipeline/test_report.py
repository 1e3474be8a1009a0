"""The report on small artifacts: what it says, that hostile text stays text, and that a browser draws it.

The artifacts are made with the formats of docs/formats.md: counts, documents, removed/*.npy, metrics.jsonl, scores.json.
"""

import html.parser
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from datatrove.data import Document
from hypothesis import given
from hypothesis import strategies as st

from data_prep.document import write_documents
from pipeline.core.artifact import Artifact, TaskOutput, finish
from pipeline.report import Report
from pipeline.report_page import figures, samples
from pipeline.report_page.formatting import flat, percent, short, visible
from pipeline.report_page.page import embed
from pipeline.report_page.tallies import histogram, shortened, tallies

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=http://evil.example/x onerror=\"document.title='owned'\">"
    "<style>body{display:none}</style><!-- ]]> {{ 7*7 }} {% raw %} &amp; \u202egnp.exe\x00\x1b[31m </blockquote></details>"
)
REMOVED = np.dtype([("row", "<u4"), ("survivor", "<u8"), ("survivor_id", "S40"), ("jaccard", "<f8"), ("exact", "?")])
VOID = {"meta", "link", "br", "img", "hr", "input"}

Fill = Callable[[TaskOutput], Mapping[str, int]]


def artifact(root: Path, stage: str, settings: Mapping[str, object], *fills: Fill) -> Artifact:
    """A finished artifact whose tasks are ``fills``."""
    folder = root / stage / "0123456789ab"
    for task, fill in enumerate(fills):
        out = TaskOutput(folder, stage, task)
        out.done(fill(out))
    description = {"stage": stage, "version": 1, "settings": settings, "inputs": {}, "raw_files": []}
    return finish(folder, description, {stage: len(fills)})


def documents(out: TaskOutput, kind: str, rows: list[Document]) -> None:
    with out.shard(kind, "jsonl.zst") as path:
        write_documents(path, rows)


def document(name: str, text: str, **metadata: object) -> Document:
    return Document(text=text, id=name, metadata=metadata)


def full_run(root: Path) -> dict[str, Artifact]:
    """A run of two shards in which everything occurs, with hostile text wherever text may stand."""

    def clean(out: TaskOutput) -> Mapping[str, int]:
        rows = [document(f"crawl-{out.task}.warc.gz:{n}", f"Page {n} of shard {out.task}. {HOSTILE}") for n in range(4)]
        documents(out, "documents", rows)
        gone = [
            document(f"crawl-{out.task}.warc.gz:{10 + n}", f"dropped {n} {HOSTILE}", url="javascript:alert(1)", drop=drop)
            for n, drop in enumerate(
                [{"rule": "c4_lines.curly_bracket", "value": HOSTILE}] * 5 + [{"rule": "language", "value": "de 0.93"}] * 2
            )
        ]
        documents(out, "dropped", gone)
        counts = {"records_in": 5000, "bytes_in": 40_000_000, "kept": 2600, "bytes_kept": 14_000_000}
        counts |= {"dropped:c4_lines.curly_bracket": 800, "dropped:c4_lines.few_sentences": 1197, "dropped:language": 402}
        counts |= {"dropped:bad_words": 1, "removed_lines:no_end_mark": 20_000, "removed_lines:few_words": 3000}
        counts |= {"removed_sentences:unique_spans": 77, "language:en": 2500, "language:de": 60, "language:fr": 40}
        return counts | {f"length:{1 << n}": 100 * n * (17 - n) for n in range(7, 17)}

    def duplicates(out: TaskOutput) -> Mapping[str, int]:
        survivors = np.array([(1 << 32) | 0, 0, 0], dtype=np.uint64)
        table = np.zeros(3, dtype=REMOVED)
        table["row"], table["survivor"], table["survivor_id"] = [1, 2, 3], survivors, b"crawl-0.warc.gz:0"
        table["jaccard"], table["exact"] = [0.875, 0.97, 1.0], [False, False, True]
        with out.shard("removed", "npy") as path, path.open("wb") as stream:
            np.save(stream, table if out.task == 0 else table[:0])
        return {"removed": len(table)}

    def unique(out: TaskOutput) -> Mapping[str, int]:
        drop = {"rule": "near_duplicate", "value": "crawl-0.warc.gz:0 jaccard=0.88"}
        documents(out, "dropped", [document("crawl-0.warc.gz:1", "seen before", drop=drop)])
        counts = {"documents_in": 2600, "kept": 2100, "bytes": 12_000_000}
        return counts | {"dropped:near_duplicate": 400, "dropped:exact_duplicate": 100}

    def packed(out: TaskOutput) -> Mapping[str, int]:
        train = {"train_documents": 4158, "train_split_documents": 320, "train_rows": 2410, "train_tokens": 2_460_000}
        return train | {"train_padding": 7840, "validation_documents": 42, "validation_rows": 25}

    def weights(out: TaskOutput) -> Mapping[str, int]:
        with out.file("metrics.jsonl") as path:
            path.write_text("".join(json.dumps(row) + "\n" for row in metrics(300)))
        return {"steps": 300, "parameters": 3_412_480}

    def scores(out: TaskOutput) -> Mapping[str, int]:
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [agreement(), held_out(), unanswered()]}))
        with out.file("samples/agreement.jsonl") as path:
            path.write_text("".join(json.dumps(question(n)) + "\n" for n in range(5)))
        return {"benchmarks": 3}

    settings = {"cleaning": {"filters": [{"type": "c4_lines", "min_words": 5}, {"type": "language", "languages": ["en"]}]}}
    return {
        "clean": artifact(root, "clean", settings | {"source": {"paths": [HOSTILE]}}, clean, clean),
        "signatures": artifact(root, "signatures", {"hashes": 112}, lambda out: {"documents": 2600}),
        "duplicates": artifact(root, "duplicates", {"threshold": 0.8}, duplicates, duplicates),
        "unique": artifact(root, "unique", {}, unique, unique),
        "tokenizer": artifact(root, "tokenizer", {"settings": {"type": "train"}}, lambda out: {"vocabulary": 8192}),
        "tokens": artifact(
            root, "tokens", {}, lambda out: {"documents": 4200, "tokens": 2_480_000, "text_bytes": 10_912_000}
        ),
        "packed": artifact(root, "packed", {"packing": {"row_tokens": 1024}}, packed),
        "weights": artifact(root, "weights", {"model": {"layers": 4}}, weights),
        "scores": artifact(root, "scores", {"evaluation": {"seed": 0}}, scores),
    }


def metrics(steps: int) -> list[dict[str, object]]:
    """A log as the trainer writes it: training values often, validation values now and then."""
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        loss = 3.5 + 5.5 * math.exp(-step / 60)
        rows.append({"step": step, "loss": loss + 0.1 * math.sin(step), "gradient_norm": 1 + 0.3 * math.cos(step)})
        rows[-1] |= {"learning_rate": 1e-3 * min(1, step / 30), "tokens_per_second": 9000 + step % 7, "epoch": step / 150}
        if step % 50 == 0:
            rows[-1] |= {"validation_loss": loss + 0.1, "validation_bits_per_byte": (loss + 0.1) / 4.4 / math.log(2)}
    return rows


def agreement() -> dict[str, object]:
    whole = {"name": "acc", "value": 0.71, "standard_error": 0.045, "interval": [0.62, 0.79], "random": 0.5, "items": 104}
    part = whole | {"group": "simple", "value": 0.9, "items": 26}
    return {"name": "agreement", "shots": 0, "items": 104, "metrics": [whole | {"group": ""}, part]}


def held_out() -> dict[str, object]:
    loss = {"name": "bits_per_byte", "value": 1.234, "standard_error": 0.01, "interval": [1.21, 1.26], "random": 2.9}
    odd = {"name": "perplexity", "value": 2e9, "standard_error": None, "interval": None, "random": None}
    rows = [metric | {"items": 42, "group": ""} for metric in (loss, odd)]
    return {"name": "validation", "shots": 0, "items": 42, "metrics": rows}


def unanswered() -> dict[str, object]:
    return {"name": "held_out_words", "shots": 0, "items": 0, "metrics": []}


def question(number: int) -> dict[str, object]:
    texts = ["The file is empty.", f"The file are {HOSTILE}"]
    scored = {"log_likelihoods": [-21.5, -20.25], "greedy": [False, False], "gold": 0}
    return {"name": f"item:{number}", "prompts": [f"Which one? {HOSTILE}"], "continuations": texts, **scored}


def empty_run(root: Path) -> dict[str, Artifact]:
    """A run in which nothing was read, nothing counted and nothing scored."""

    def weights(out: TaskOutput) -> Mapping[str, int]:
        with out.file("metrics.jsonl") as path:
            path.write_bytes(b"")
        return {}

    def scores(out: TaskOutput) -> Mapping[str, int]:
        with out.file("scores.json") as path:
            path.write_text('{"benchmarks": []}')
        return {}

    fills: dict[str, Fill] = {"weights": weights, "scores": scores}
    return {name: artifact(root, name, {}, fills.get(name, lambda out: {})) for name in Report.inputs}


def write_report(inputs: Mapping[str, Artifact], folder: Path) -> Path:
    """Run the stage; the page."""
    (phase,) = Report().phases({name: found.shard_count for name, found in inputs.items()})
    out = TaskOutput(folder, phase.name, 0)
    out.done(phase.run(0, inputs, out))
    return finish(folder, {"stage": "report", "settings": {}}, {phase.name: 1}).path("report.html")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of ``full_run``."""
    root = tmp_path_factory.mktemp("runs")
    return write_report(full_run(root), root / "report" / "0123456789ab")


@pytest.fixture(scope="module")
def empty_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of ``empty_run``."""
    root = tmp_path_factory.mktemp("runs")
    return write_report(empty_run(root), root / "report" / "0123456789ab")


class Reader(html.parser.HTMLParser):
    """Elements with their attributes, the text, and whether every element was closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data
