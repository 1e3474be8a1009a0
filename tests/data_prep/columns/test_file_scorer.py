"""Values of a file as a column, against a dictionary of them; and those of a fine-tuned encoder."""

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from headrace.data_prep.column import Column
from headrace.data_prep.columns.column_values import read_values, values_or_none
from headrace.data_prep.columns.file_scorer import FileValues
from headrace.data_prep.selected import COPIES, Selected, SelectionRules
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from tests.stage_run import RunStage, run_here
from tests.train.finetune.small_tasks import BAD, ENCODER, GOOD, sentence, sentiment, stage, tokenizer_artifact
from tests.unique_documents import unique_documents

IDS = [[f"web/{shard}.jsonl:{row}" for row in range(rows)] for shard, rows in enumerate((40, 0, 60))]
Rows = list[dict[str, Any]]


def rows_of(seed: int) -> Rows:
    """Rows in any order: of three quarters of the documents, and of others; some have no value."""
    chance = random.Random(seed)
    ids = [name for names in IDS for name in names if chance.random() < 0.75] + [f"other:{n}" for n in range(30)]
    chance.shuffle(ids)
    values = [chance.choice((None, chance.gauss(0, 1e3), float(chance.randrange(-5, 5)))) for _ in ids]
    return [
        {
            "key": {"of": name},
            "scores": {"hq": value},
            "topic": None if value is None else f"topic {chance.randrange(4)}",
        }
        for name, value in zip(ids, values, strict=True)
    ]


def written(path: Path, rows: Rows) -> FileValues:
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return FileValues(path=str(path), id="key.of", value="scores.hq")


def column_of(scorer: FileValues, folder: Path, ids: list[list[str]] = IDS) -> Artifact:
    unique = unique_documents(folder / "unique" / "u", [["text"] * len(names) for names in ids], ids)
    scorer.check()
    return run_here(Column(column="x", scorer=scorer), {"unique": unique}, folder / "column" / "c")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
@pytest.mark.parametrize("holds", ["numbers", "texts"])
def test_each_document_has_the_value_of_its_id(name: str, holds: Any, tmp_path: Path) -> None:
    rows = [row | {"scores": {"hq": row["topic"]}} if holds == "texts" else row for row in rows_of(3)]
    scorer = decode(FileValues, {**vars(written(tmp_path / name, rows)), "holds": holds})
    column = column_of(scorer, tmp_path)
    expected = {row["key"]["of"]: row["scores"]["hq"] for row in rows}
    for shard, names in enumerate(IDS):
        assert values_or_none(read_values(column, shard)) == [expected.get(name) for name in names]
    known = [name for names in IDS for name in names if expected.get(name) is not None]
    assert 0 < len(known) < 75
    assert column.counts["without_value"] == 100 - len(known)
    assert column.counts["rows_of_file"] == sum(value is not None for value in expected.values())


def test_the_content_of_the_file_is_in_the_address_and_its_row_order_is_not_in_the_values(tmp_path: Path) -> None:
    rows = rows_of(4)
    first = written(tmp_path / "a.jsonl", rows)
    values = [read_values(column_of(first, tmp_path / "1"), shard).tobytes() for shard in range(3)]
    before = Column(column="x", scorer=first).address({"unique": "u"})
    again = written(tmp_path / "a.jsonl", rows[::-1])
    assert [read_values(column_of(again, tmp_path / "2"), shard).tobytes() for shard in range(3)] == values
    assert Column(column="x", scorer=again).address({"unique": "u"}) != before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", ":2: is no JSON object; give JSON lines, or a .parquet file"),
        ("{", ":2: is no JSON object"),
        ('{"value": 1}', r"row 2 has no text in 'id'; set id \(its fields: value\)"),
        ('{"id": 7, "value": 1}', r"row 2 has no text in 'id'; set id \(its fields: id, value\)"),
        ('{"id": "b", "score": 1}', r"row 2 has no field 'value'; set value \(its fields: id, score\)"),
        ('{"id": "b", "value": "high"}', "row 2 has 'high' in 'value', no number; set value, or holds=texts"),
        ('{"id": "b", "value": true}', "row 2 has 'True' in 'value', no number"),
        ('{"id": "a", "value": 1}', "has several values of a; give one row for each document"),
    ],
)
def test_wrong_rows(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "a", "value": 1}\n' + line + "\n")
    with pytest.raises(ArtifactError, match=message):
        column_of(FileValues(path=str(tmp_path / "a.jsonl")), tmp_path)
    (tmp_path / "b.jsonl").write_text(line + "\n")
    if "several" not in message:
        with pytest.raises(ArtifactError, match=message.replace("row 2", "row 1").replace(":2:", ":1:")):
            FileValues(path=str(tmp_path / "b.jsonl")).check()


def test_wrong_files(tmp_path: Path) -> None:
    scorer = FileValues(path=str(tmp_path / "none.jsonl"))
    for refuse in (scorer.check, scorer.raw_files):
        with pytest.raises(ConfigError, match=r"columns.scorers.path: there is no file .*; name a file of JSON lines"):
            refuse()
    (tmp_path / "a.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(ArtifactError, match=r"a.parquet: is damaged \(.*\); write it again"):
        FileValues(path=str(tmp_path / "a.parquet")).check()
    parquet.write_table(pyarrow.table({"id": ["a", "b"], "value": [math.inf, 1.0]}), tmp_path / "b.parquet")
    with pytest.raises(ArtifactError, match="row 1 has 'inf' in 'value', no number"):
        FileValues(path=str(tmp_path / "b.parquet")).check()


def test_nan_is_no_value(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"id": IDS[0][:2], "value": [math.nan, 1.0]}), tmp_path / "a.parquet")
    column = column_of(FileValues(path=str(tmp_path / "a.parquet")), tmp_path)
    assert values_or_none(read_values(column, 0)[:3]) == [None, 1.0, None]


def test_a_fine_tuned_encoder_selects_documents(run_stage: RunStage, tmp_path: Path) -> None:
    """Documents are exported, predicted as finetune.test by their ids, and selected by the probabilities."""
    chance = random.Random(9)
    ids = [names[:10] for names in IDS]
    texts = {name: sentence(chance, chance.choice(BAD + GOOD)) for names in ids for name in names}
    (tmp_path / "pages.jsonl").write_text(
        "".join(json.dumps({"id": name, "sentence": text}) + "\n" for name, text in sorted(texts.items(), reverse=True))
    )
    (tmp_path / "task").mkdir()
    files = sentiment(tmp_path / "task")
    fields = {"type": "fields", "texts": ["sentence"], "label": "label", "labels": {"0": "bad", "1": "good"}}
    task = {"type": "classification", "format": fields | {"id": "id"}}
    learning = stage(ENCODER, files | {"test": str(tmp_path / "pages.jsonl")}, task, seeds=[1], epochs=12)
    learned = run_stage(learning, {"tokenizer": tokenizer_artifact(tmp_path / "tokenizer")}, tmp_path / "learned")
    predictions = learned.path("seed_1/test_predictions.jsonl")
    rows = {row["id"]: row for row in map(json.loads, predictions.read_text().splitlines())}
    assert rows.keys() == texts.keys()
    column = column_of(FileValues(path=str(predictions), value="probabilities.good"), tmp_path, ids)
    unique = Artifact(tmp_path / "unique" / "u")
    rule = {"type": "threshold", "column": "x", "min": 0.5}
    selected = Selected(selection=decode(SelectionRules, {"rules": [rule]}))
    made = run_here(selected, {"unique": unique, "column.x": column}, tmp_path / "selected")
    copies = [number for shard in range(3) for number in np.load(made.shard(COPIES, shard, "npy")).tolist()]
    chosen = {name for name, number in zip(texts, copies, strict=True) if number}
    assert chosen == {name for name, row in rows.items() if row["probabilities"]["good"] >= 0.5}
    right = {name for name, text in texts.items() if set(GOOD) & set(text.split())}
    assert 0 < len(right) < len(texts)
    assert chosen == right
