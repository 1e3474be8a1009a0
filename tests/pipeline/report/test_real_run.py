"""The report of a real run: its numbers are those of the files that the stages wrote, whatever the counts are named.

The other tests of this folder make artifacts by hand, to have every kind of content; their counts have the names that
real stages give.
"""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.run import summary
from headrace.train.data.rows import Rows
from tests.pipeline.report.test_report import Reader, full_run, metrics
from tests.small_runs import Corpus

pytestmark = pytest.mark.slow

NOT_HERE = {"texts": {"dropped"}, "clean": {"routed", *(f"removed_{unit}" for unit in REMOVED_UNITS)}}
"""Counts that stages make, but not of these pages."""


@pytest.fixture(scope="module")
def text(real_artifacts: dict[str, Artifact]) -> str:
    """The text of the page."""
    page = real_artifacts["report"].path("report.html")
    return " ".join(Reader(page.read_text(encoding="utf-8")).text.split())


def stored(artifact: Artifact, kind: str) -> list[Document]:
    return [document for path in artifact.shards(kind) for document in read_documents(path)]


def test_the_funnel_is_counted_in_the_files(real_corpus: Corpus, real_artifacts: dict[str, Artifact], text: str):
    files = [real_corpus.folder / name for name in (Corpus.first, Corpus.second)]
    records = sum(len(path.read_text().splitlines()) for path in files)
    stages = ("texts", "clean", "unique")
    documents = {stage: stored(real_artifacts[stage], "documents") for stage in stages}
    assert records > len(documents["clean"]) > len(documents["unique"]) > 0
    rows = [f"records read {records} 100.0 %"]
    for name, stage in zip(("readable", "kept by cleaning", "unique"), stages, strict=True):
        size = sum(len(document.text.encode()) for document in documents[stage])
        share = len(documents[stage]) / records
        rows.append(f"{name} {len(documents[stage])} {100 * share:.1f} % {size:,}")
    assert " ".join(rows) in text


def test_tokens_and_rows_are_counted_in_the_files(real_artifacts: dict[str, Artifact], text: str):
    packed, tokens = real_artifacts["packed"], real_artifacts["tokens"]
    number = sum(path.stat().st_size // np.dtype("<u2").itemsize for path in tokens.shards("tokens"))
    assert f"records → {len(stored(real_artifacts['unique'], 'documents'))} documents → {number:,} tokens" in text
    splits = {split: len(Rows(packed, tokens, split)) for split in ("train", "validation")}
    assert f"training rows {splits['train']} validation rows {splits['validation']}" in text


def test_drops_are_counted_in_the_files(real_artifacts: dict[str, Artifact], text: str):
    dropped = stored(real_artifacts["clean"], "dropped")
    rules = Counter(document.metadata["drop"]["rule"] for document in dropped)
    assert len(rules) == 3
    assert f"{len(dropped)} documents were dropped" in text
    read = len(dropped) + len(stored(real_artifacts["clean"], "documents"))
    for rule, number in rules.items():
        assert f"{number} {100 * number / read:.1f} %" in text[text.index(rule) :][:200]


def test_losses_are_those_of_the_files(real_artifacts: dict[str, Artifact], text: str):
    first, *_ = read_metrics(metrics_path(real_artifacts["weights"].folder))
    scores = json.loads(real_artifacts["scores"].path("scores.json").read_text())["benchmarks"]
    (held_out,) = (benchmark for benchmark in scores if benchmark["name"] == "validation")
    values = {metric["name"]: metric["value"] for metric in held_out["metrics"]}
    loss = f"its loss fell from {first['loss']:.2f} nats per token in step 1 to {values['loss']:.2f} on held-out text."
    assert loss in text
    assert f"Held-out text takes {values['bits_per_byte']:.2f} bits per byte" in text


def test_artifacts_made_by_hand_have_the_counts_of_real_ones(real_artifacts: dict[str, Artifact], tmp_path):
    """So a count that a stage names in another way is seen by all tests of the report."""
    for stage, artifact in full_run(tmp_path).items():
        kinds, real = ({name.partition(":")[0] for name in found.counts} for found in (artifact, real_artifacts[stage]))
        assert kinds <= real | NOT_HERE.get(stage, set()), stage


def test_metrics_made_by_hand_are_those_of_a_training(real_artifacts: dict[str, Artifact]):
    trained = {name for row in read_metrics(metrics_path(real_artifacts["weights"].folder)) for name in row}
    assert {name for row in metrics(50) for name in row} <= trained


def test_a_run_that_ends_after_its_training_prints_its_validation_loss(
    real_corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [stage for stage in real_corpus.steps if stage.name not in ("scores", "report")]
    summary.show(dataclasses.replace(real_corpus.run, stages=stages))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("validation loss")]
    rows = read_metrics(metrics_path(stages[-1].folder))
    losses = [row["validation_loss"] for row in rows if "validation_loss" in row]
    assert line.split() == ["validation", "loss", f"{losses[-1]:.4f}", "held-out", "rows"]
