"""Records of tasks have the types that ``datasets`` gives them: those of pandas and pyarrow; others are refused."""

import csv
import io
import json
import random
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.evaluation.lm_eval.csv_cells import MISSING, typed
from headrace.train.evaluation.lm_eval.task_data import read_table
from headrace.train.evaluation.lm_eval.task_keys import DataFiles

COLUMNS = [
    ("1", "2"), ("1", ""), ("1", "2.5"), ("True", "false"), ("TRUE", ""), ("1", "x"), ("1", "True"), ("yes", "no"),
    ("1_000", "2"), ("١", "2"), ("²", "2"), ("+5", "-3"), (" 5", "6 "), ("5\t", "6"), ("\xa01", "2"), ("1\xa0", "2"),
    ("\x0b1", "2"), ("1e5", "2"), ("1E-3", "2"), ("1e", "2"), ("e5", "2"), ("1e 5", "2"), ("1d5", "2"), ("0x10", "2"),
    ("inf", "1"), ("Infinity", "-INF"), (" inf", "2"), ("infinit", "1"), ("nan", "1"), ("1.", "2"), (".5", "1"),
    (".", "1"), ("-", "2"), ("--5", "2"), ("- 5", "1"), ("1 2", "3"), ("1,5", "2"), ("007", "8"), ("-0", "1"),
    ("-0.0", "1"), ("true ", "false"), ("tRUE", "false"), ("", "NA"), ("", "x"), ("None", "true"), ("NONE", "x"),
    ("9223372036854775807", "1"), ("9223372036854775808", "1"), ("18446744073709551615", "1"), ("1e400", "1"),
    ("1e-400", "1"), ("0.1", "0.30000000000000004"), ("2020-01-01", "2021-01-01"), ("  ", "x"), ("a\nb", 'c"d'),
    ("[1, 2]", "[3]"), ("größer", "水車"),
]  # fmt: skip
"""Cells of a column. The column after it shows that rows with an empty cell are rows."""


def table_text(cells) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([("a", "z"), *((cell, "k") for cell in cells)])
    return text.getvalue()


def read(path: Path, kind: str, separator: str = ","):
    return read_table(path, DataFiles(kind, {}, separator))


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("cells", [*COLUMNS, *((cell, "1") for cell in sorted(MISSING))], ids=repr)
def test_csv_has_the_types_of_pandas(tmp_path, cells):
    pandas = pytest.importorskip("pandas", reason="the optional extra 'notebook' is not installed")
    path = write(tmp_path / "rows.csv", table_text(cells))
    expected = pyarrow.Table.from_pandas(pandas.read_csv(path)).to_pylist()
    assert [*map(repr, read(path, "csv").rows)] == [*map(repr, expected)]


def test_decimals_are_those_of_pandas():
    pandas = pytest.importorskip("pandas", reason="the optional extra 'notebook' is not installed")
    generator = random.Random(0)
    cells = [
        f"{generator.randrange(10**12)}.{generator.randrange(10**6)}e{generator.randrange(-9, 9)}" for _ in range(500)
    ]
    assert typed(cells) == ("float", pandas.read_csv(io.StringIO(table_text(cells)))["a"].tolist())


JSON_ROWS = [
    [{"a": 1}, {"a": 2.5}, {"a": None}],
    [{"a": 1, "b": "x"}, {"b": "y"}],
    [{"a": {"x": [1, 2], "y": "é"}}, {"a": {"x": [], "y": None}}],
    [{"a": [{"x": 1}, {"x": 2}]}, {"a": []}],
    [{"a": True}, {"a": False}],
    [{"a": "2020-01-01"}, {"a": "2021-05-06"}],
    [{"a": "2020-01-01 10:00:00"}, {"a": "x"}],
    [{"a": None}, {"a": None}],
    [{"a": "1"}, {"a": ""}],
    [{"a": "\u2028 \\n"}, {"a": '"q"'}],
]


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("rows", JSON_ROWS, ids=repr)
def test_json_has_the_types_of_datasets(tmp_path, rows, as_list):
    datasets = pytest.importorskip("datasets", reason="the optional extra 'evaluation' is not installed")
    text = json.dumps(rows) if as_list else "".join(json.dumps(row) + "\n" for row in rows)
    path = write(tmp_path / "rows.json", text)
    expected = list(datasets.load_dataset("json", data_files=str(path), cache_dir=str(tmp_path / "c"))["train"])
    assert [*map(repr, read(path, "json").rows)] == [*map(repr, expected)]


LINES = ["a\nb\n\nc", "a\r\nb\rc\n", "x\x0by\x0cz\u2028w\n", "\n\n", " a \n\tb"]


@pytest.mark.parametrize("text", LINES, ids=repr)
def test_text_has_the_lines_of_datasets(tmp_path, text):
    datasets = pytest.importorskip("datasets", reason="the optional extra 'evaluation' is not installed")
    path = write(tmp_path / "rows.txt", text)
    expected = list(datasets.load_dataset("text", data_files=str(path), cache_dir=str(tmp_path / "c"))["train"])
    assert read(path, "text").rows == expected


TABLES = [
    "a,b\n1,2\n\n3,\n",
    "\ufeffa,b\n1,x\n",
    'a,b\n"x\r\ny","p""q"\n',
    "a,b\r\n1,2\r\n",
    "a,b\n1\n2,3\n",
    "a\n \nx\n",
]


@pytest.mark.parametrize("text", TABLES, ids=repr)
def test_tables_have_the_rows_of_datasets(tmp_path, text):
    datasets = pytest.importorskip("datasets", reason="the optional extra 'evaluation' is not installed")
    path = write(tmp_path / "rows.csv", text)
    expected = list(datasets.load_dataset("csv", data_files=str(path), cache_dir=str(tmp_path / "c"))["train"])
    assert read(path, "csv").rows == expected


def test_types_by_hand(tmp_path):
    """Without the packages: a column of each type, in each format."""
    text = "id,price,good,name,note\n1,2.5,True,NA,007x\n2,,False,é,\n"
    rows = read(write(tmp_path / "rows.csv", text), "csv").rows
    assert rows == [
        {"id": 1, "price": 2.5, "good": True, "name": None, "note": "007x"},
        {"id": 2, "price": None, "good": False, "name": "é", "note": None},
    ]
    assert read(write(tmp_path / "rows.tsv", "a\tb\n1\t2,3\n"), "csv", "\t").rows == [{"a": 1, "b": "2,3"}]
    assert read(write(tmp_path / "rows.json", '{"a": 1}\n\n{"a": 2.5, "b": ["x"]}'), "json").rows == [
        {"a": 1.0, "b": None},
        {"a": 2.5, "b": ["x"]},
    ]
    assert read(write(tmp_path / "rows.txt", "a \n\nb"), "text").rows == [{"text": "a "}, {"text": ""}, {"text": "b"}]
    parquet.write_table(pyarrow.table({"a": [1, None], "b": [["x"], []]}), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet", "parquet").rows == [{"a": 1, "b": ["x"]}, {"a": None, "b": []}]


REFUSED = [
    ("csv", b"", "holds no records; give a file of csv with records"),
    ("csv", b"a,b\n", "holds no records"),
    (
        "csv",
        b"a,b\n1,2,3\n",
        ":2: has 3 cells, and the first line names 2 fields; put cells with a separator in quotes",
    ),
    ("csv", b"a,a\n1,2\n", "names its fields ['a', 'a']; give each field a name of its own"),
    ("csv", b"a,\n1,2\n", "names its fields ['a', '']"),
    ("csv", b"a\n18446744073709551616\n1\n", "field 'a' holds 18446744073709551616, a number of more than 64 bits"),
    ("csv", b"a\n-1\n9223372036854775808\n", "field 'a' holds 9223372036854775808"),
    ("csv", b"a\nx\n\xff\n", ":3: is not UTF-8 (byte 0xff); convert the file to UTF-8"),
    ("text", b"x\n\xff\n", ":2: is not UTF-8 (byte 0xff)"),
    ("text", b"", "holds no records; give a file of text with records"),
    ("json", b"", "holds no records"),
    ("json", b'{"a": 1}\n{"a"', ":2: is not JSON"),
    ("json", b"[1", "is not JSON"),
    ("json", b"3\n", ":1: is not a JSON object; give one object a line"),
    ("json", b'["x"]', ":1: is not a JSON object"),
    ("json", b'{"a": 1}\n{"a": "x"}', "has fields of mixed types"),
    ("json", b'{"a": [1]}\n{"a": "x"}', "in the field 'a'"),
    ("json", b'{"a": {"x": 1}}\n{"a": {"y": 1}}', "objects in the field 'a' have different fields; give all of them"),
    ("json", b'{"a": [{"x": 1}, {"x": 1, "y": 2}]}', "objects in the field 'a' have different fields"),
    ("json", b'{"a": {}}', "objects in the field 'a' have different fields"),
    ("parquet", b"PAR1", "is not Parquet"),
]


@pytest.mark.parametrize(("kind", "content", "message"), REFUSED)
def test_what_is_no_table_is_refused(tmp_path, kind, content, message):
    path = write(tmp_path / f"rows.{kind}", content)
    with pytest.raises(ArtifactError) as caught:
        read(path, kind)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
