"""Each scorer against what it measures, computed another way."""

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from datatrove.data import Document
from pyarrow import parquet

from headrace.data_prep.column import Column, Columns, column_stage
from headrace.data_prep.columns import AnyScorer
from headrace.data_prep.columns.scorer import has_value, read_values, values_array, values_or_none
from headrace.data_prep.columns.scorers import FileValues, FilterValue, Length
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.language.identification import Language, LanguageFasttext
from headrace.data_prep.filters.page_filter import PageFilter
from headrace.data_prep.filters.quality_rules import FineWebQuality, GopherQuality, GopherRepetition
from headrace.data_prep.selected import COPIES, Selected, SelectionRules
from headrace.data_prep.text.words import words
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from tests.stage_run import RunStage, run_here
from tests.train.finetune.small_tasks import BAD, ENCODER, GOOD, sentence, sentiment, stage, tokenizer_artifact
from tests.unique_documents import unique_documents

TEXTS = [
    ["The mill turns in the river, and the wheel turns with it.\nIt is old.", "", "• one\n• two\n• two\n• two ..."],
    [],
    ["Das Rad der alten Mühle dreht sich im Fluss, und das Wasser fließt.", "word " * 200, "# # # #"],
]
FILTERS: list[AnyFilter] = [
    GopherQuality(), GopherQuality(counting="datatrove"), GopherRepetition(),
    GopherRepetition(counting="datatrove"), FineWebQuality(), Language(), LanguageFasttext(),
]  # fmt: skip


def scores(scorer: AnyScorer, folder: Path) -> list[list[float | str]]:
    unique = unique_documents(folder / "unique" / "u", TEXTS)
    column = run_here(Column(column="x", scorer=scorer), {"unique": unique}, folder / "column" / "c")
    assert column.counts["documents"] == 6
    return [read_values(column, shard).tolist() for shard in range(3)]


def test_lengths(tmp_path: Path) -> None:
    assert scores(Length(), tmp_path / "a") == [[len(text) for text in texts] for texts in TEXTS]
    assert scores(Length(unit="words"), tmp_path / "b") == [[len(words(text)) for text in texts] for texts in TEXTS]


@pytest.mark.parametrize("filter", [f for f in FILTERS if isinstance(f, PageFilter)], ids=lambda one: one.type)
def test_a_filter_drops_by_the_values_that_it_measures(filter: PageFilter) -> None:
    """The value in the reason of the drop is the measured one; a page that passes has values for all rules."""
    dropped = 0
    for text in (text for texts in TEXTS for text in texts):
        document = Document(text=text, id="a:0")
        values, drop = filter.values(document), filter.judge(document)
        assert values.keys() == filter.value_kinds.keys()
        if drop is not None:
            dropped += 1
            rule = drop.rule.removeprefix(f"{filter.type}.")
            measured = [value for name, value in values.items() if name in (rule, f"{rule}_characters")]
            assert drop.value in {f"{value:.4f}" for value in measured} | set(map(str, measured))
        assert document.text == text
        assert not document.metadata
    assert dropped


@pytest.mark.parametrize(
    "identifier", [Language(languages=None, min_score=0), LanguageFasttext(languages=None, min_score=0)]
)
def test_languages_are_those_that_the_filter_stores(identifier: Language | LanguageFasttext, tmp_path: Path) -> None:
    expected: dict[str, list[list[float | str]]] = {"language": [], "language_score": []}
    for texts in TEXTS:
        documents = [Document(text=text, id="a:0") for text in texts]
        for document in documents:
            identifier.judge(document)
        for name, missing in (("language", ""), ("language_score", None)):
            expected[name].append([document.metadata.get(name, missing) for document in documents])
    for name in expected:
        of_column = scores(FilterValue(filter=identifier, value=name), tmp_path / name)
        assert [[None if value != value else value for value in shard] for shard in of_column] == expected[name]
    assert (expected["language"][0][0], expected["language"][2][0]) == ("en", "de")


def test_a_missing_file_is_refused_by_a_run_and_not_when_settings_are_read(tmp_path: Path) -> None:
    scorer = decode(FileValues, {"type": "file", "path": str(tmp_path / "none.txt"), "value": "score"})
    with pytest.raises(ConfigError, match=r"columns\.scorers\.path: there is no file .*none\.txt"):
        scorer.raw_files()


@pytest.mark.parametrize(
    ("filter", "other", "value", "is_same"),
    [
        ({"type": "language_fasttext"}, {"languages": ["de"], "min_score": 0.1}, "language", True),
        ({"type": "language_fasttext"}, {"max_characters": 7}, "language", False),
        ({"type": "fineweb_quality"}, {"rules": [{"type": "short_lines", "max_fraction": 0.3}]}, "short_lines", True),
        ({"type": "fineweb_quality"}, {"rules": [{"type": "short_lines", "max_characters": 3}]}, "short_lines", False),
        ({"type": "linear_classifier", "label": "a", "min_score": 0.5}, {"min_score": 0.25}, "a", True),
    ],
)
def test_thresholds_are_in_no_address_of_a_column(
    filter: dict[str, Any], other: dict[str, Any], value: str, is_same: bool
) -> None:
    rules = {"rules": [{"type": rule["type"]} for rule in other["rules"]]} if "rules" in other else {}
    columns = [
        Column(column="x", scorer=decode(FilterValue, {"filter": {**filter, **changes}, "value": value}))
        for changes in (rules, other)
    ]
    addresses = {column.address({"unique": "u", "classifier": "c"}) for column in columns}
    assert (len(addresses) == 1) is is_same


def test_every_value_of_a_filter_is_a_column() -> None:
    document = Document(text=TEXTS[0][0], id="a:0")
    for measure in FILTERS:
        for name, kind in measure.value_kinds.items():
            scorer = FilterValue(filter=measure, value=name)
            scorer.check()
            assert scorer.kind is kind
            assert isinstance(scorer.scoring(None)(document), (kind, int))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"filter": {"type": "c4_lines"}}, "c4_lines measures nothing of a document; give one that does"),
        ({"filter": {"type": "unique_lines"}}, "unique_lines measures nothing"),
        ({"filter": {"type": "gopher_quality"}}, "measures 7 values, and value is None; give one of word_count"),
        ({"filter": {"type": "gopher_quality"}, "value": "word_counts"}, "did you mean 'word_count'"),
    ],
)
def test_a_filter_without_the_value_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decode(FilterValue, {"type": "filter", **values}).check()


def test_names_of_columns() -> None:
    assert [stage.name for stage in Columns(scorers={"a": Length(), "b_2": Length()}).stages()] == [
        "column.a",
        "column.b_2",
    ]
    assert column_stage("a") == "column.a"
    for name in ("", "A", "a.b", "a/b", "x" * 33):
        with pytest.raises(ConfigError, match="is not the name of a column"):
            Columns(scorers={name: Length()})


def test_the_name_is_not_in_the_address_and_the_scorer_is() -> None:
    def address(name: str, scorer: Length) -> str:
        return Column(column=name, scorer=scorer).address({"unique": "u"})

    assert address("a", Length()) == address("b", Length()) != address("a", Length(unit="words"))


def test_values_without_one() -> None:
    numbers, texts = values_array([1.5, None], float), values_array(["en", None, "x" * 99], str)
    np.testing.assert_array_equal(numbers, [1.5, np.nan])
    assert texts.tolist() == ["en", "", "x" * 64]
    assert has_value(numbers).tolist() == [True, False]
    assert has_value(texts).tolist() == [True, False, True]


# Values of a file as a column, against a dictionary of them; and those of a fine-tuned encoder.


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


@pytest.mark.slow
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
