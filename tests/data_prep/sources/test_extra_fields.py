"""Values of fields that no setting names: kept in a form that JSON has, or left out by a rule that is documented."""

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow
import pytest
from pyarrow import parquet

from headrace.data_prep.sources.extra_fields import folder_fields, is_rounded, small_values
from headrace.data_prep.sources.fields import FieldSource
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.table_sources import Parquet

DEEP = "[" * 240 + "]" * 240


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("5", 5),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", "18446744073709551616"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9" * 30, "9" * 30),
        ("9" * 900, "9" * 900),
        ("[1, " + "9" * 30 + "]", [1, "9" * 30]),
        ('{"a": {"b": ' + "9" * 30 + "}}", {"a": {"b": "9" * 30}}),
        ("1e30", 1e30),
        ("1.5", 1.5),
        ("NaN", None),
        ("-Infinity", None),
        ("1e400", None),
        ("[1, NaN]", [1, None]),
        ('{"a": NaN}', {"a": None}),
        ('"\\ud800"', "\ufffd"),
        ('["\\udc00", 1]', ["\ufffd", 1]),
        ('{"\\udc00": 1}', {"\ufffd": 1}),
        ('"e5 and 7e9"', "e5 and 7e9"),
        ("[]", []),
        ("false", False),
    ],
)
def test_values_of_json_lines(tmp_path: Path, written: str, kept: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "t", "n": {written}}}\n{{"text": "t", "n": {written}, "other": NaN}}\n')
    first, second = Jsonl(paths=(str(path),)).read("a.jsonl")
    assert first[0].metadata["extra"] == {"n": kept}
    assert second[0].metadata["extra"] == {"n": kept, "other": None}, "by the other parser"
    assert type(first[0].metadata["extra"]["n"]) is type(kept)
    assert orjson.loads(orjson.dumps(first[0].metadata)) == first[0].metadata


@pytest.mark.parametrize("written", ["null", "{}", '"' + "x" * 1000 + '"', "9" * 1001])
def test_what_is_left_out(tmp_path: Path, written: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "t", "n": {written}}}\n')
    ((document, drop),) = Jsonl(paths=(str(path),)).read("a.jsonl")
    assert (document.text, drop) == ("t", None)
    assert "extra" not in document.metadata


def test_an_id_of_many_digits_is_not_rounded(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "t", "id": {"7" * 25}, "meta": {{"date": {"8" * 25}}}}}\n')
    ((document, _),) = Jsonl(paths=(str(path),), date_field="meta.date").read("a.jsonl")
    assert document.metadata == {"url": "", "source_id": "7" * 25, "date": "8" * 25}


def test_a_value_of_many_levels_can_be_written() -> None:
    """orjson writes 254 levels; a document has some around the value."""
    extra = small_values({"n": json.loads(DEEP)}, 1_000)
    assert str(extra["n"]).count("[") == 240
    orjson.dumps({"id": "a", "metadata": {"extra": extra}, "more": [[extra]]})


def test_numbers_that_may_be_rounded() -> None:
    assert is_rounded({"a": [1, {"b": 1e25}]})
    assert not is_rounded({"a": [2**63, "1e25", 1.5, -1e18, math.inf, None]})


HIVE = {
    "lang=en/year=2024": {"lang": "en", "year": 2024},
    "n=01": {"n": 1},
    "n=-5/m=-0": {"n": -5, "m": 0},
    "n=2147483647/m=2147483648": {"n": 2147483647, "m": "2147483648"},
    "a=+1/b=1.5/c=true": {"a": "+1", "b": "1.5", "c": "true"},
    "city=New%20York": {"city": "New York"},
    "city=%C3%A9t%C3%A9": {"city": "été"},
    "a=b=c/d=e%3Df": {"a": "b=c", "d": "e=f"},
    "a=/b=x": {"a": "", "b": "x"},
    "a=__HIVE_DEFAULT_PARTITION__/b=x": {"a": None, "b": "x"},
    "plain/k=v/more": {"k": "v"},
    "plain": {},
}


@pytest.mark.parametrize("folders", HIVE)
def test_names_of_folders_are_fields_as_pyarrow_reads_them(tmp_path: Path, folders: str) -> None:
    path = tmp_path / folders / "p.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"text": ["t"]}), path)
    if "__HIVE" in folders:  # pyarrow needs one file with a value to know the type
        other = tmp_path / folders.replace("__HIVE_DEFAULT_PARTITION__", "x") / "p.parquet"
        other.parent.mkdir(parents=True)
        parquet.write_table(pyarrow.table({"text": ["other"]}), other)
    theirs = next(row for row in parquet.read_table(tmp_path).to_pylist() if row.pop("text") == "t")
    assert theirs == HIVE[folders] == folder_fields(f"{folders}/p.parquet")
    ours = [document for document, _ in Parquet(paths=(str(tmp_path),)).read(f"{folders}/p.parquet")]
    kept = {key: value for key, value in theirs.items() if value is not None}
    assert ours[0].metadata.get("extra", {}) == kept


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_fields_of_folders_may_be_named_and_the_record_has_its_own(tmp_path: Path, kind: str) -> None:
    row = {"text": "t", "lang": "fr"}
    path = tmp_path / "site=example.org/lang=en" / f"a.{kind}"
    path.parent.mkdir(parents=True)
    if kind == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps(row))
    source: FieldSource = {"parquet": Parquet, "jsonl": Jsonl}[kind](paths=(str(tmp_path),), url_field="site")
    (file,) = source.listing()
    source.check([file.name])
    ((document, _),) = source.read(file.name)
    assert document.metadata == {"url": "example.org", "extra": {"lang": "fr"}}


def test_percent_signs_that_are_no_code() -> None:
    name = f"a={quote('ä/b', safe='')}/100%=x/b=%E9/p.parquet"
    assert folder_fields(name) == {"a": "ä/b", "100%": "x", "b": "\ufffd"}
