"""Parts of one corpus by the values of a column, as the sources of a mixture."""

from pathlib import Path

import pytest

from headrace.data_prep.packed import SPLITS
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.core.metrics_file import read_metrics
from tests.small_runs import Corpus, build, overrides, run_with, trained, training_of

pytestmark = pytest.mark.slow
LENGTH = "+columns.scorers.characters={type: length}"
LIMIT = 1250


def part(folder: Path, limits: str) -> Corpus:
    """The run of the documents of ``plain_corpus`` whose numbers of characters are within ``limits``."""
    rule = f"selection.rules=[{{type: threshold, column: characters, {limits}}}]"
    return run_with(folder, [*overrides(folder, "none"), LENGTH, rule])


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    folder = tmp_path_factory.mktemp("parts")
    build(folder, "none")
    return [part(folder, f"min: {LIMIT}"), part(folder, f"max: {LIMIT - 1}")]


def documents(corpus: Corpus, split: str) -> set[tuple[int, int]]:
    """The shard and the number of each document that has a token in the rows of ``split``."""
    shards, rows = TokenShards(corpus.artifact("tokens")), PackedRows(corpus.artifact("packed"), split)
    spans = (span for row in range(len(rows)) for span in rows.spans(row).tolist())
    return {(shard, shards.document(shard, start)) for shard, start, length in spans if length}


def test_parts_share_all_but_their_rows(parts: list[Corpus]) -> None:
    first, second = ({step.name: step.address for step in corpus.steps} for corpus in parts)
    assert {name for name in first if first[name] != second[name]} == {"selected", "packed"}


def test_each_document_is_in_one_part_and_one_split(parts: list[Corpus]) -> None:
    sets = [documents(corpus, split) for corpus in parts for split in SPLITS]
    assert all(sets)
    assert sum(map(len, sets)) == len(set.union(*sets)) == parts[0].artifact("unique").counts["kept"]


def test_a_training_reads_both_by_their_weights(parts: list[Corpus]) -> None:
    long, short = parts
    sources = f"[{{name: long, weight: 1}}, {{name: short, weight: 3, packed: {short.artifact('packed').folder}}}]"
    run = trained(training_of(long, f"mixture.sources={sources}", "training.steps=4"))
    (weights,) = (step.folder for step in run.stages if step.name == "weights")
    last = read_metrics(weights / "metrics.jsonl")[-1]
    epochs = zip((last["epoch:long"], last["epoch:short"]), parts, strict=True)
    rows = [epoch * len(PackedRows(corpus.artifact("packed"), "train")) for epoch, corpus in epochs]
    assert rows[0] > 0
    assert rows[1] == pytest.approx(3 * rows[0])
