"""The report on small artifacts: its content, hostile text that stays text, and its look in a browser.

The artifacts have the formats of docs/formats.md: counts, documents, removed/*.npy, metrics.jsonl, scores.json.
"""

import dataclasses
import html.parser
import itertools
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

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.c4.bad_words import BadWords
from headrace.data_prep.filters.c4.lines import C4Lines, CurlyBracket, FewWords
from headrace.data_prep.filters.language.identification import Language
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.json_files import write_json, write_sealed
from headrace.pipeline.core.settings import plain
from headrace.pipeline.core.work_log import Attempt
from headrace.pipeline.documents import document_choice, samples
from headrace.pipeline.documents.marking import MarkedLine
from headrace.pipeline.report import drawing
from headrace.pipeline.report.formatting import byte_size, duration, flat, percent, short, visible
from headrace.pipeline.report.funnel import count_rows, histogram, shortened
from headrace.pipeline.report.html_page import embed
from headrace.pipeline.report.report import Report
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.stages import stages
from tests.stage_run import texts_and_clean
from tests.unique_documents import write_documents

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=http://evil.example/x onerror=\"document.title='owned'\">"
    "<style>body{display:none}</style><!-- ]]> {{ 7*7 }} {% raw %} &amp; \u202egnp\x00\x1b[31m </blockquote></details>"
)
REMOVED = np.dtype([("row", "<u4"), ("survivor", "<u8"), ("survivor_id", "S40"), ("jaccard", "<f8"), ("exact", "?")])
VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}

CLEANING = Cleaning(filters=(C4Lines(rules=(FewWords(), CurlyBracket())), BadWords(), Language()))
SETTINGS = {"texts": {"source": plain(Jsonl(paths=(HOSTILE,)))}, "clean": {"cleaning": plain(CLEANING)}}

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
    """A run of two shards with every kind of content, and hostile text in every place for text."""

    def rows(out: TaskOutput) -> list[Document]:
        return [document(f"crawl-{out.task}.warc.gz:{n}", f"Page {n} of shard {out.task}. {HOSTILE}") for n in range(4)]

    def texts(out: TaskOutput) -> Mapping[str, int]:
        documents(out, "documents", rows(out))
        drop = {"rule": "http_status", "value": HOSTILE}
        documents(out, "dropped", [document(f"crawl-{out.task}.warc.gz:90", "", url="javascript:alert(1)", drop=drop)])
        counts = {"records_in": 5000, "kept": 4600, "bytes_kept": 40_000_000}
        return counts | {"dropped:http_status": 300, "dropped:no_text": 100}

    def clean(out: TaskOutput) -> Mapping[str, int]:
        documents(out, "documents", rows(out))
        drops = [{"rule": "c4_lines.curly_bracket", "value": HOSTILE}] * 5 + [
            {"rule": "language", "value": "de 0.93"}
        ] * 2
        gone = [
            document(
                f"crawl-{out.task}.warc.gz:{10 + n}", f"dropped {n} {HOSTILE}", url="javascript:alert(1)", drop=drop
            )
            for n, drop in enumerate(drops)
        ]
        documents(out, "dropped", gone)
        counts = {"documents_in": 4600, "kept": 2600, "bytes_kept": 14_000_000}
        counts |= {"dropped:c4_lines.curly_bracket": 800, "dropped:c4_lines.sentences": 1197}
        counts |= {
            "dropped:language": 402,
            "dropped:bad_words": 1,
            "removed_lines:no_end_mark": 20_000,
            "removed_lines:few_words": 3000,
        }
        counts |= {"removed_sentences:unique_spans": 77, "language:en": 2500, "language:de": 60, "language:fr": 40}
        counts |= {"routed:de_Latn:kept": 60, "routed:de_Latn:gopher_quality.word_count": 14}
        counts |= {"routed:de_Latn:bad_words": 1, "routed:zh_Hani:gopher_quality.symbols": 100}
        return counts | {f"length:{1 << n}": 100 * n * (17 - n) for n in range(7, 17)}

    def duplicates(out: TaskOutput) -> Mapping[str, int]:
        survivors = np.array([(1 << 32) | 0, 0, 0], dtype=np.uint64)
        table = np.zeros(3, dtype=REMOVED)
        table["row"], table["survivor"], table["survivor_id"] = [1, 2, 3], survivors, b"crawl-0.warc.gz:0"
        table["jaccard"], table["exact"] = [0.875, 0.97, 1.0], [False, False, True]
        with out.shard("removed", "npy") as path, path.open("wb") as stream:
            table = table if out.task == 0 else table[:0]
            np.save(stream, table)
        return {"removed_exact": int(table["exact"].sum()), "removed_near": int((~table["exact"]).sum())}

    def unique(out: TaskOutput) -> Mapping[str, int]:
        drop = {"rule": "near_duplicate", "value": "crawl-0.warc.gz:0 jaccard=0.88"}
        documents(out, "dropped", [document("crawl-0.warc.gz:1", "seen before", drop=drop)])
        counts = {"documents_in": 2600, "kept": 2100, "bytes": 12_000_000}
        return counts | {"dropped:near_duplicate": 400, "dropped:exact_duplicate": 100}

    def tokens(out: TaskOutput) -> Mapping[str, int]:
        """One training document of three tokens, and a held-out one of two."""
        arrays = {"bounds": ([0, 3, 5], "u8"), "text_bytes": ([9, 8], "u4"), "keys": ([2**63, 0], "u8")}
        for kind, (values, dtype) in arrays.items():
            with out.shard(kind, "npy") as path, path.open("wb") as stream:
                np.save(stream, np.array(values, f"<{dtype}"))
        with out.shard("tokens", "bin") as path:
            path.write_bytes(np.array([0, 7, 7, 0, 7, 0], "<u2").tobytes())
        return {"documents": 4200, "tokens": 2_480_000, "text_bytes": 10_912_000}

    def packed(out: TaskOutput) -> Mapping[str, int]:
        train = {"train_documents": 4158, "train_split_documents": 320, "train_rows": 2410, "train_tokens": 2_460_000}
        return train | {"train_padding": 7840, "validation_documents": 42, "validation_rows": 25}

    def weights(out: TaskOutput) -> Mapping[str, int]:
        with out.file("metrics.jsonl") as path:
            path.write_text("".join(json.dumps(row) + "\n" for row in metrics(300)))
        return {"steps": 300, "parameters": 3_412_480, "target_tokens": 1_228_800}

    def scores(out: TaskOutput) -> Mapping[str, int]:
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [agreement(), continuations(), held_out(), unanswered()]}))
        with out.file("samples/agreement.jsonl") as path:
            path.write_text("".join(json.dumps(question(n)) + "\n" for n in range(5)))
        with out.file("samples/continuations.jsonl") as path:
            path.write_text("".join(json.dumps(row) + "\n" for row in written()))
        return {"benchmarks": 4}

    return {
        "texts": artifact(root, "texts", SETTINGS["texts"], texts, texts),
        "clean": artifact(root, "clean", SETTINGS["clean"], clean, clean),
        "signatures": artifact(root, "signatures", {"hashes": 112}, lambda out: {"documents": 2600}),
        "duplicates": artifact(root, "duplicates", {"threshold": 0.8}, duplicates, duplicates),
        "unique": artifact(root, "unique", {}, unique, unique),
        "tokenizer": artifact(root, "tokenizer", {"settings": {"type": "train"}}, lambda out: {"vocabulary": 8192}),
        "tokens": artifact(root, "tokens", {}, tokens),
        "packed": artifact(root, "packed", {"packing": {"row_tokens": 1024, "validation_fraction": 0.01}}, packed),
        "weights": artifact(root, "weights", {"model": {"layers": 4}}, weights),
        "scores": artifact(root, "scores", {"evaluation": {"seed": 0, "benchmarks": SAMPLED}}, scores),
    }


def metrics(steps: int) -> list[dict[str, object]]:
    """A log as the trainer writes it: training values often, validation values now and then."""
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        loss = 3.5 + 5.5 * math.exp(-step / 60)
        rows.append({"step": step, "loss": loss + 0.1 * math.sin(step), "gradient_norm": 1 + 0.3 * math.cos(step)})
        rows[-1] |= {"learning_rate": 1e-3 * min(1, step / 30), "tokens_per_second": 9000 + step % 7}
        rows[-1]["epoch"] = step / 150
        if step % 50 == 0:
            rows[-1] |= {"validation_loss": loss + 0.1, "bits_per_byte": (loss + 0.1) / 4.4 / math.log(2)}
    return rows


def agreement() -> dict[str, object]:
    whole = {"name": "acc", "value": 0.71, "standard_error": 0.045, "interval": [0.62, 0.79], "random": 0.5}
    part = whole | {"group": "simple", "value": 0.9, "items": 26}
    return {
        "name": "agreement",
        "type": "agreement",
        "shots": 0,
        "items": 104,
        "metrics": [whole | {"group": "", "items": 104}, part],
    }


SAMPLED = {"continuations": {"temperature": 0.8, "top_p": 0.95, "seed": 0}}


def continuations() -> dict[str, object]:
    repeated = {"name": "repeated_4grams (greedy)", "value": 0.25, "standard_error": None, "interval": None}
    rows = [repeated | {"random": None, "items": 2, "group": ""}]
    return {"name": "continuations", "type": "continuations", "shots": 0, "items": 2, "metrics": rows}


def written() -> list[dict[str, object]]:
    """Texts after the beginning of a document and after a prompt."""
    document = {"name": "00000:3", "prompts": ["The mill stands"], "right_answers": [" by the river."]}
    prompt = {"name": "prompt:1", "prompts": [f"Once {HOSTILE}"], "right_answers": []}
    texts = [[" and stands and stands", " on a\nhill."], [f" upon {HOSTILE}", ""]]
    return [row | {"written": two, "continuations": []} for row, two in zip((document, prompt), texts, strict=True)]


def held_out() -> dict[str, object]:
    loss = {"name": "bits_per_byte", "value": 1.234, "standard_error": 0.01, "interval": [1.21, 1.26], "random": 2.9}
    odd = {"name": "perplexity", "value": 2e9, "standard_error": None, "interval": None, "random": None}
    nats = loss | {"name": "loss", "value": 3.701}
    rows = [metric | {"items": 42, "group": ""} for metric in (loss, odd, nats)]
    return {"name": "validation", "type": "validation", "shots": 0, "items": 42, "metrics": rows}


def unanswered() -> dict[str, object]:
    return {"name": "held_out_words", "shots": 0, "items": 0, "metrics": []}


def question(number: int) -> dict[str, object]:
    texts = ["The file is empty.", f"The file are {HOSTILE}"]
    scored = {"log_likelihoods": [-21.5, -20.25], "greedy": [False, False], "gold": 0}
    judged = {"overlap": ["clean", None, "dirty"][number % 3], "outcome": {"acc": float(number in (1, 2))}}
    return {"name": f"item:{number}", "prompts": [f"Which one? {HOSTILE}"], "continuations": texts, **scored, **judged}


def empty_run(root: Path) -> dict[str, Artifact]:
    """A run without records, counts and scores."""

    def weights(out: TaskOutput) -> Mapping[str, int]:
        with out.file("metrics.jsonl") as path:
            path.write_bytes(b"")
        return {}

    def scores(out: TaskOutput) -> Mapping[str, int]:
        with out.file("scores.json") as path:
            path.write_text('{"benchmarks": []}')
        return {}

    fills: dict[str, Fill] = {"weights": weights, "scores": scores}
    names = [stage.name for stage in stages(decoded(compose([])))]
    return {name: artifact(root, name, SETTINGS.get(name, {}), fills.get(name, lambda out: {})) for name in names}


def write_report(inputs: Mapping[str, Artifact], folder: Path, cleaning: Cleaning = CLEANING, **about: str) -> Path:
    """Runs the stage and returns the page."""
    stage = Report(cleaning=cleaning, shown=tuple(inputs), **about)
    (phase,) = stage.phases({name: found.shard_count for name, found in inputs.items()})
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
        self.text += " " * (tag != "wbr")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.text += " "
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text += data


def test_main_numbers_are_on_the_page(page: Path) -> None:
    text = " ".join(Reader(page.read_text()).text.split())
    assert "10,000 records → 4,200 documents → 2.48 M tokens → one model" in text
    assert "unique documents 4,200 tokens 2.48 M parameters 3.41 M" in text
    assert "held-out loss 3.701 nats per token, all held-out text bits per byte 1.234 all held-out text" in text
    assert "agreement acc 71.0 % random 50.0 %" in text
    assert "records read 10,000 100.0 % readable 9,200 92.0 % 80.0 M" in text
    assert "80.0 M kept by cleaning 5,200 52.0 % 28.0 M unique 4,200 42.0 % 24.0 M" in text
    assert "800 of 10,000 records gave no text" in text
    assert "c4_lines.sentences Drops pages with fewer than 3 sentences left. 2,394 26.0 %" in text
    assert "bad_words Drops pages with a word of the list of bad words. 2 < 0.1 %" in text
    assert "few_words 6,000 13.0 %" in text
    assert "1,000 of 5,200 cleaned documents" in text
    assert "bytes per token 4.40" in text
    assert "padding 0.3 %" in text
    assert "agreement acc 71.0 % ± 4.5 % 62.0 % to 79.0 % 50.0 % 104" in text, "no column of zero shots"
    assert "validation perplexity 2.00e+09 – – 42" in text
    assert "agreement The sentence whose subject and verb agree in number, of two." in text
    assert "document 00000:3 prompt The mill stands model, greedy and stands and stands model, sampled on" in text
    assert "model, sampled on a hill. document by the river." in text
    assert "model, sampled the model ends the text here" in text
    assert "drawn at random (temperature 0.8, top-p 0.95, seed 0)" in text
    assert "held_out_words: no items." in text
    assert "cleaning.filters[0].rules[0].min_words 5" in text


def test_each_language_has_a_funnel(page: Path, empty_page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    [table] = re.findall(r"<h3>Each language</h3>.*?</table>", text, re.DOTALL)
    rows = [re.findall("<td[^>]*>(.*?)</td>", row) for row in table.split("</tr>")[1:-1]]
    assert rows == [
        ["zh_Hani", "200", "0", "0.0 %", "gopher_quality.symbols 200"],
        ["de_Latn", "150", "120", "80.0 %", "gopher_quality.word_count 28, bad_words 2"],
    ]
    assert "Each language" not in empty_page.read_text(encoding="utf-8")


def test_without_scores_the_headline_is_the_last_validation_loss(tmp_path: Path) -> None:
    inputs = full_run(tmp_path / "full") | {"scores": empty_run(tmp_path / "empty")["scores"]}
    text = " ".join(Reader(write_report(inputs, tmp_path / "report").read_text()).text.split())
    assert "validation loss 3.637 nats per token, held-out rows bits per byte 1.193 held-out rows" in text


def test_samples_come_from_several_shards(page: Path) -> None:
    text = Reader(page.read_text()).text
    assert [name in text for name in ("gz:10 ·", "gz:11 ·", "gz:12 ·", "gz:15 ·", "gz:16 ·")] == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert "crawl-0.warc.gz:10 ·" in text
    assert "crawl-1.warc.gz:10 ·" in text
    meanings = {"in the line: </script>": 3, "identified as de 0.93": 3, "similar to crawl-0.warc.gz:0, Jaccard": 2}
    assert {meaning: text.count(meaning) for meaning in meanings} == meanings


def test_near_duplicates_stand_side_by_side_the_most_similar_first(page: Path) -> None:
    text = " ".join(Reader(page.read_text()).text.split())
    first, second = text.index("J = 0.970 kept · crawl-0.warc.gz:0"), text.index("J = 0.875 kept · crawl-1.warc.gz:0")
    assert first < second
    assert "removed · crawl-0.warc.gz:2 Page 2 of shard 0." in text[first:second]
    assert "J = 1.000" not in text


def test_every_colour_of_a_figure_is_defined_on_the_page(page: Path) -> None:
    named = set(re.findall(r"var\((--[^)]*)\)", page.read_text())) - {"--name"}  # in a comment of page.js
    assert "--grid" in named
    assert named <= set(re.findall(r"(--[a-z-]+):", page.read_text()))


def test_the_page_is_well_formed(page: Path, empty_page: Path) -> None:
    for path in (page, empty_page):
        reader = Reader(path.read_text())
        ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
        links = [attributes["href"] for tag, attributes in reader.elements if tag == "a"]
        assert reader.open == []
        assert len(ids) == len(set(ids))
        assert {f"#{id}" for id in ids} >= set(links)
        assert path.stat().st_size < 5_000_000


def test_hostile_text_stays_text(page: Path) -> None:
    reader = Reader(page.read_text())
    tags = [tag for tag, _ in reader.elements]
    attributes = [name for _, found in reader.elements for name in found]
    scripts = [found.get("type") for tag, found in reader.elements if tag == "script"]
    assert "img" not in tags
    assert tags.count("style") == 1
    assert not [name for name in attributes if name.startswith("on")]
    assert scripts.count(None) == 1
    assert set(scripts) == {None, "text/plain", "application/json"}
    shown = HOSTILE.replace("\u202e", "\ufffd").replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert f"dropped 0 {shown}" in reader.text
    assert f"Which one? {shown}" in reader.text


def test_the_page_loads_nothing(page: Path) -> None:
    text = page.read_text()
    for tag, attributes in Reader(text).elements:
        assert not {"srcset", "action", "data", "poster"} & set(attributes), tag
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in text


def test_the_page_of_an_empty_run_has_no_empty_columns_and_numbers(empty_page: Path) -> None:
    reader = Reader(empty_page.read_text())
    text = " ".join(reader.text.split())
    assert "→" not in text
    assert not [found for _, found in reader.elements if "data-figure" in found]
    assert re.findall("bytes of text|validation loss|vocabulary|padding|Language|Near duplicates side", text) == []
    assert "None" not in text
    assert "Duplicates There are none: no cleaned document equals another one" in text
    assert "Clusters" not in text


def test_a_run_without_a_model_has_a_page_of_what_there_is(tmp_path: Path) -> None:
    whole = full_run(tmp_path)
    for last, sections in (
        ("clean", ["funnel", "unreadable", "drops", "kept", "settings"]),
        ("duplicates", ["funnel", "unreadable", "drops", "kept", "duplicates", "settings"]),
        ("packed", ["funnel", "unreadable", "drops", "kept", "duplicates", "tokens", "settings"]),
    ):
        inputs = {name: whole[name] for name in list(whole)[: list(whole).index(last) + 1]}
        reader = Reader(write_report(inputs, tmp_path / "report" / last, run="0123456789ab").read_text())
        assert [found["id"] for tag, found in reader.elements if tag == "section"] == sections
        assert [found["href"] for tag, found in reader.elements if tag == "a"] == [f"#{name}" for name in sections]
        assert "Run 0123456789ab" in reader.text
        assert "one model" not in reader.text
        text = " ".join(reader.text.split())
        assert "records read 10,000 documents kept 5,200" in text
        assert f"From records to {'rows' if last == 'packed' else 'documents'}" in text


def test_the_page_has_the_name_command_time_and_machine_of_its_run(tmp_path: Path) -> None:
    inputs = full_run(tmp_path)
    overrides = ["experiment=demo", "source.paths=[my pages.jsonl]", f"tokenizer.path={HOSTILE}"]
    run_json = tmp_path / "runs" / "0123456789ab" / "run.json"
    write_sealed(run_json, {"overrides": overrides, "config": {}, "config_dir": "my presets"})
    attempt = Attempt("node7", "Fast CPU", 16, 64, ("NVIDIA H200", "NVIDIA H200"), 1000.0, 1090.0)
    killed, later = (
        dataclasses.replace(attempt, start=start, end=end) for start, end in ((1095.0, None), (1080, 1100))
    )
    for number, one in enumerate((attempt, killed, later)):
        write_json(inputs["weights"].folder / f"logs/hosts/{number}.json", dataclasses.asdict(one))
    about = {"root": str(tmp_path), "run": "0123456789ab", "run_name": "small"}
    text = " ".join(Reader(write_report(inputs, tmp_path / "report", **about).read_text()).text.split())
    assert "Headrace report · run 0123456789ab · started 20" in text
    assert "headrace experiment=demo 'source.paths=[my pages.jsonl]'" in text
    assert " --config-dir 'my presets'" in text
    assert "weights 1 min 40 s node7: 2 × NVIDIA H200, 16 × Fast CPU, 64 GiB 1970-01-01 " in text
    assert ", 1 attempts did not end" in text
    assert text.index("Typed experiment demo source.paths [my pages.jsonl]") < text.index("All, by stage")


def test_the_page_has_what_the_run_has_spent(tmp_path: Path) -> None:
    inputs, run = full_run(tmp_path), "0123456789ab"
    gpus = ("NVIDIA H200", "NVIDIA H200")
    attempt = Attempt("node7", "Fast CPU", 16, 64, gpus, 0.0, 3600.0, None, run, "", 16, 2)
    killed = dataclasses.replace(attempt, start=4000.0, end=None, seen=5800.0)
    others = dataclasses.replace(attempt, run="ba9876543210")
    for stage, number, one in (("weights", 0, attempt), ("weights", 1, killed), ("unique", 0, others)):
        write_json(inputs[stage].folder / f"logs/hosts/{number}.json", dataclasses.asdict(one))
    page = write_report(inputs, tmp_path / "report", root=str(tmp_path), run=run).read_text()
    text = " ".join(Reader(page).text.split())
    written = byte_size(sum(file["bytes"] for file in inputs["weights"].manifest["files"].values()))
    assert "stage time core-hours GPU-hours written machine started" in text
    assert "unique 1 h 0 min reused reused reused node7: " in text
    assert f"weights 1 h 30 min 24 3 {written} node7: " in text
    assert f" all 2 h 30 min 24 3 {written} " in text


def test_times_are_written_in_their_two_largest_units() -> None:
    found = [duration(seconds) for seconds in (0.04, 3.24, 59.96, 60, 754, 3600, 93_784)]
    assert found == ["0.0 s", "3.2 s", "60.0 s", "1 min 0 s", "12 min 34 s", "1 h 0 min", "1 d 2 h"]


def test_the_page_depends_on_its_inputs_alone(page: Path, tmp_path: Path) -> None:
    assert write_report(full_run(tmp_path), tmp_path / "report").read_bytes() == page.read_bytes()


def test_samples_are_searched_in_the_beginnings_of_few_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop = {"rule": "rare", "value": "1"}

    def shard(out: TaskOutput) -> Mapping[str, int]:
        rare_row = 10 + (out.task % 2)
        rows = [document(f"{out.task}:{n}", "", drop=drop if n == rare_row else {"rule": "common"}) for n in range(12)]
        documents(out, "dropped", rows)
        return {}

    made = artifact(tmp_path, "clean", {}, *[shard] * 40)
    opened: list[str] = []
    path = made.path
    monkeypatch.setattr(made, "path", lambda name: opened.append(name) or path(name))
    monkeypatch.setattr(document_choice, "DOCUMENTS_PER_SHARD", 11)
    found = document_choice.first_of_rules(
        made, "dropped", {"rare": 3, "common": 3, "never": 3}, lambda one: {one.metadata["drop"]["rule"]}
    )
    assert opened == [f"dropped/{number:05d}.jsonl.zst" for number in range(0, 40, 5)]
    assert [sample.id for _, sample in found["rare"]] == ["0:10", "10:10", "20:10"], "row 11 of odd shards is too far"
    assert [sample.id for _, sample in found["common"]] == ["0:0", "5:0", "10:0"]
    assert "never" not in found


ALL_LINE_RULES = Cleaning(filters=(C4Lines(),))
MENU = "Home"
SENTENCES = [f"The sentence with the number {n} has a number of words." for n in range(4)]


@pytest.fixture
def cleaned(tmp_path: Path) -> tuple[Artifact, Artifact]:
    """Texts and clean: twenty pages with a menu. Every fourth page is too short."""
    raw = tmp_path / "pages.jsonl"
    pages = ["\n".join([MENU, *SENTENCES[: 1 if n % 4 == 3 else 4]]) for n in range(20)]
    raw.write_text(
        "".join(json.dumps({"text": text, "url": f"https://{n}.example/"}) + "\n" for n, text in enumerate(pages))
    )
    found = texts_and_clean(Jsonl(paths=(str(raw),)), ALL_LINE_RULES, tmp_path)
    raw.unlink()
    return found


def test_kept_and_dropped_stand_side_by_side(cleaned: tuple[Artifact, Artifact]) -> None:
    texts, made = cleaned
    short, menu = "c4_lines.sentences", "c4_lines.end_mark"
    found = samples.side_by_side(made, texts, ALL_LINE_RULES, [short, "never"], [menu])
    file = next(read_documents(texts.shards("documents")[0])).id.removesuffix(":0")
    assert set(found) == {short, menu}
    assert [(pair.kept.id, pair.dropped.id) for pair in found[short]] == [
        (f"{file}:{kept}", f"{file}:{dropped}") for kept, dropped in ((0, 3), (1, 7), (2, 11))
    ]
    assert found[short][0].kept.lines == [MarkedLine(MENU, menu), *map(MarkedLine, SENTENCES)]
    assert found[short][0].dropped.lines == [MarkedLine(MENU, menu), MarkedLine(SENTENCES[0])]
    assert (found[short][0].dropped.rule, found[short][0].dropped.value) == (short, "1")
    assert [(pair.kept.id, pair.dropped.id) for pair in found[menu]] == [
        (f"{file}:{kept}", f"{file}:{dropped}") for kept, dropped in ((0, 3), (1, 7), (2, 11))
    ]
    without = samples.side_by_side(made, texts, ALL_LINE_RULES, [short], kept=0)
    assert all(pair.kept is None for pair in without[short])


def test_removed_lines_are_struck_through(cleaned: tuple[Artifact, Artifact], tmp_path: Path) -> None:
    inputs = empty_run(tmp_path / "empty") | dict(zip(("texts", "clean"), cleaned, strict=True))
    text = write_report(inputs, tmp_path / "report", ALL_LINE_RULES).read_text()
    assert text.count('<del dir="auto">Home</del> <span class="mark">c4_lines.end_mark</span>') == 2 * (3 + 3)
    assert text.count('<div class="side-by-side">') == 3 + 3


def test_counts_are_ranked_and_small_ones_are_summed_up() -> None:
    ranked = count_rows(
        {"dropped:b": 1, "dropped:a": 1, "dropped:c": 6, "dropped:zero": 0, "kept": 12}, "dropped:", total=20
    )
    assert [(row.name, row.count, row.share) for row in ranked] == [
        ("c", 6, 0.3),
        ("a", 1, 0.05),
        ("b", 1, 0.05),
    ]
    assert [row.name for row in shortened(ranked, 2)] == ["c", "a", "b"]
    assert [(row.name, row.count) for row in shortened(ranked, 1)] == [("c", 6), ("2 others", 2)]
    assert count_rows({"dropped:a": 3}, "dropped:", total=0)[0].share is None


@given(st.dictionaries(st.sampled_from([0] + [1 << n for n in range(20)]), st.integers(1, 99), min_size=1))
def test_a_histogram_has_no_gaps_and_loses_nothing(found: dict[int, int]) -> None:
    bars = histogram({f"length:{low}": n for low, n in found.items()}, "length:")
    lows = [low for low, _ in bars]
    assert {low: n for low, n in bars if n} == found
    assert all(after == max(1, 2 * before) for before, after in itertools.pairwise(lows))


@given(st.lists(st.floats(-1e6, 1e6), max_size=400), st.integers(20, 100))
def test_thinned_curves_keep_their_ends_and_extremes(values: list[float], limit: int) -> None:
    points = list(enumerate(values))
    shown = drawing.thinned(points, limit)
    assert len(shown) <= max(limit, 2)
    assert shown == sorted(set(shown))
    if points:
        assert {points[0], points[-1]} <= set(shown)
        assert {min(values), max(values)} <= {y for _, y in shown}


@given(st.text(), st.integers(1, 50))
def test_shown_text_cannot_change_its_surroundings(text: str, characters: int) -> None:
    shown = visible(text, characters)
    assert len(shown) <= characters + 1
    assert not set(shown) & {"\u202e", "\u2066", "\x00", "\x1b", "\r", "\ud800"}
    assert "<" not in embed(json.dumps(text))
    assert json.loads(embed(json.dumps(text))) == text


def test_numbers_are_formatted() -> None:
    assert [short(n) for n in (None, 0, 999_999, 1_234_567, 12_345_678, 123_456_789, 1.5e9, 2e12)] == [
        "none", "0", "999,999", "1.23 M", "12.3 M", "123 M", "1.50 B", "2.00 T",
    ]  # fmt: skip
    assert [percent(p) for p in (None, 0, 0.0001, 0.12345, 1)] == ["none", "0.0 %", "< 0.1 %", "12.3 %", "100.0 %"]


def test_settings_are_flattened_in_their_order() -> None:
    settings = {"b": {"x": [1, 2], "y": None}, "a": [{"type": "t"}, {"type": "u"}], "empty": {}}
    assert list(flat(settings)) == [
        ("b.x", "[1, 2]"), ("b.y", "null"), ("a[0].type", '"t"'), ("a[1].type", '"u"'), ("empty", "{}"),
    ]  # fmt: skip


BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --hide-scrollbars --enable-logging=stderr --virtual-time-budget=20000"""


@pytest.fixture
def browse(tmp_path: Path) -> Callable[..., tuple[str, list[str]]]:
    """``browse(page, flag, …)`` → what a real browser prints, and its console messages."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser (none of {', '.join(BROWSERS)} is installed)")

    def run(page: Path, *flags: str) -> tuple[str, list[str]]:
        command = [browser, *FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}", *flags, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


@pytest.mark.slow
def test_a_browser_draws_every_figure_without_errors(page: Path, browse: Callable[..., tuple[str, list[str]]]) -> None:
    tree, console = browse(page, "--dump-dom")
    assert console == []
    assert "<title>Run</title>" in tree
    plots = re.findall(r'id="figure-(\w+)".*?(?=id="figure-|<footer)', tree, flags=re.DOTALL)
    assert plots == ["funnel", "lengths", "clusters", "loss", "learning_rate", "gradient_norm", "scores"]
    drawn = dict(zip(plots, re.split(r'id="figure-', tree)[1:], strict=True))
    assert all('data-drawn="yes"' in part for part in drawn.values())
    marks = {name: len(re.findall(r'<path[^>]* d="M|<path class="js-line"', part)) for name, part in drawn.items()}
    assert drawn["lengths"].count('<g class="point">') == 10
    assert drawn["funnel"].count('<g class="point">') == 4
    assert "js-line" in drawn["loss"]
    assert marks["loss"] > 6
    assert "yerror" in drawn["scores"] or "xerror" in drawn["scores"]
    assert "var(--" not in "".join(re.findall(r"<svg.*?</svg>", tree, flags=re.DOTALL))


@pytest.mark.slow
def test_a_browser_makes_a_screenshot(page: Path, tmp_path: Path, browse: Callable[..., tuple[str, list[str]]]) -> None:
    picture = tmp_path / "report.png"
    browse(page, f"--screenshot={picture}", "--window-size=1280,2000")
    content = picture.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(content[at : at + 4], "big") for at in (16, 20)] == [1280, 2000]
    assert len(content) > 60_000, "a blank page of this size has some 10 kB"


@pytest.mark.slow
def test_the_browser_runs_only_scripts_of_the_page(
    page: Path, tmp_path: Path, browse: Callable[..., tuple[str, list[str]]]
) -> None:
    """The second protection: if escaping failed, a script from the web still does not run."""
    pierced = tmp_path / "pierced.html"
    pierced.write_text(page.read_text().replace("</footer>", "<script>document.title='owned'</script>" + "</footer>"))
    tree, console = browse(pierced, "--dump-dom")
    assert "<title>Run</title>" in tree
    assert len(console) == 1
    assert "Content Security Policy" in console[0]


@pytest.mark.slow
def test_a_reader_filters_questions(page: Path, tmp_path: Path, browse: Callable[..., tuple[str, list[str]]]) -> None:
    chosen = """<script>addEventListener("load", () => {
        for (const [name, value] of [["verdict", "right"], ["overlap", "dirty"]]) {
            const select = document.querySelector(`select[name=${name}]`);
            select.value = value;
            select.dispatchEvent(new Event("change"));
        }
    });</script>"""
    filtered = tmp_path / "filtered.html"
    unlocked = re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text())
    filtered.write_text(unlocked.replace("</body>", chosen + "</body>"))
    for path, shown, status in ((page, [0, 1, 2, 3, 4], "5 of 5"), (filtered, [2], "1 of 1")):
        tree, _ = browse(path, "--dump-dom")
        items = re.findall(
            r'<div class="sample" data-benchmark="agreement"([^>]*)>\s*<p class="id">agreement · item:(\d)', tree
        )
        assert [int(number) for attributes, number in items if "hidden" not in attributes] == shown
        assert f'role="status">{status}<' in tree


def test_scores_show_clean_and_dirty_items(tmp_path: Path) -> None:
    entry = agreement()
    whole, _ = entry["metrics"]
    whole |= {"clean": whole | {"value": 0.7, "items": 1100}, "dirty": whole | {"value": 0.8125, "items": 4}}
    entry |= {"overlap": {"clean": 1100, "dirty": 4, "too_short": 0}}

    def scores(out: TaskOutput) -> Mapping[str, int]:
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [entry, held_out()]}))
        return {}

    table = ScoreTable.of(artifact(tmp_path, "scores", {}, scores))
    assert [(row.cells["clean"], row.cells["dirty"]) for row in table.rows[:2]] == [
        ("70.0 % (1,100)", "81.2 % (4)"),
        ("–", "–"),
    ]
    assert [(row.cells["clean"], row.cells["dirty"]) for row in table.groups] == [("–", "–")]
    assert "agreement: 4 items overlap with training documents, 1,100 do not, 0 are too short to decide." in table.notes
    inputs = full_run(tmp_path / "run") | {"scores": artifact(tmp_path, "split", {}, scores)}
    page = write_report(inputs, tmp_path / "report" / "0123456789ab").read_text()
    assert '<td class="number">70.0 % (1,100)</td><td class="number">81.2 % (4)</td>' in page
    assert table.columns(table.rows) == [heading for heading in table.rows[0].cells if heading != "shots"]
    assert "".join(f'<th class="number">{column}</th>' for column in table.columns(table.rows)) in page
