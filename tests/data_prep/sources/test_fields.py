"""Fields of records: nested names, extra fields, and the check of settings before a run."""

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow
import pytest
from pyarrow import parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.fields import (
    FieldSource,
    folder_fields,
    is_rounded,
    nearest_field,
    small_values,
    value_at,
)
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.source import few_of
from headrace.data_prep.sources.tables import Parquet
from headrace.pipeline.core.artifact import Artifact
from tests.command_line import headrace_here

TEXT = "A text of some length, longer than its URL."
NESTED = {"content": {"body": TEXT}, "meta": {"url": "http://a.example", "lang": "en"}, "tags": ["x", "y"], "n": 3}
NAMES = {"text_field": "content.body", "url_field": "meta.url"}


def written(folder: Path, rows: list[dict[str, Any]], format: str) -> Path:
    path = folder / f"a.{format}"
    if format == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def documents(path: Path, **names: Any) -> list[Any]:
    source = Parquet if path.suffix == ".parquet" else Jsonl
    return [document for document, _ in source(paths=(str(path),), **names).read(str(path))]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_nested_fields_are_read_and_the_others_are_kept(tmp_path: Path, format: str) -> None:
    (document,) = documents(written(tmp_path, [NESTED], format), **NAMES)
    assert document.text == TEXT
    assert document.metadata == {
        "url": "http://a.example",
        "extra": {"meta": {"lang": "en"}, "tags": ["x", "y"], "n": 3},
    }


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_name_with_a_dot_is_first_the_name_of_a_field(tmp_path: Path, format: str) -> None:
    row = {"content.body": "Outer.", "content": {"body": "Inner.", "other": 1}}
    (document,) = documents(written(tmp_path, [row], format), text_field="content.body")
    assert document.text == "Outer."


def test_large_fields_and_html_are_left_out(tmp_path: Path) -> None:
    row = {"text": "t", "html": "<p>Page", "large": "x" * 1_000, "small": "x" * 900, "none": None, "empty": {}}
    path = written(tmp_path, [row], "jsonl")
    assert documents(path)[0].metadata["extra"].keys() == {"html", "small"}
    assert documents(path, html_field="html")[0].metadata["extra"].keys() == {"small"}
    assert "extra" not in documents(path, extra_field_bytes=0)[0].metadata


def test_large_columns_are_not_read(tmp_path: Path) -> None:
    rows = [{"text": "t", "image": bytes(range(256)) * 20, "score": 0.5}] * 3
    path = written(tmp_path, rows, "parquet")
    assert documents(path)[0].metadata["extra"] == {"score": 0.5}
    with path.open("rb") as stream:
        assert Parquet(paths=(str(path),))._wanted(parquet.ParquetFile(stream), stream) == ["text", "score"]


def test_the_nearest_field() -> None:
    rows = [{"title": "Short", "body": {"contents": "x" * 80, "links": "http://x"}, "n": 3}]
    assert nearest_field("content", rows) == "body.contents"
    assert nearest_field("text", rows) == "body.contents", "the longest"
    assert nearest_field("url", rows, ("http://",)) == "body.links"
    assert nearest_field("text", [{"n": 3}]) is None
    assert value_at({"a": "text"}, "a.b") is None


def test_the_files_that_are_looked_at() -> None:
    assert few_of([]) == []
    assert few_of(["a", "b"]) == ["a", "b"]
    assert few_of([str(n) for n in range(9)]) == ["0", "4", "8"]


def run(folder: Path, *overrides: str) -> tuple[int, str]:
    result = headrace_here("run", *overrides, "cleaning=none", "until=clean", f"root={folder}/runs", "tracking=file")
    return result.returncode, result.stderr.replace(f"{folder}/", "")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_run_with_the_wrong_field_does_not_start(tmp_path: Path, format: str) -> None:
    path = written(tmp_path, [NESTED] * 30, format)
    assert run(tmp_path, f"source={format}", f"source.paths={path}") == (
        2,
        "headrace: source.text_field: 20 of the first 20 records have no text in 'text' (their fields: content, "
        "content.body, meta, meta.url, meta.lang, tags, n); did you mean source.text_field=content.body?\n",
    )
    assert not (tmp_path / "runs").exists()


def test_html_is_recognized(tmp_path: Path) -> None:
    path = written(tmp_path, [{"page": "<!doctype html><p>Text"}], "jsonl")
    status, printed = run(tmp_path, "source=jsonl", f"source.paths={path}")
    assert (status, printed.split("; ")[1]) == (2, "did you mean source.html_field=page?\n")


def test_a_nested_url_is_pointed_out(tmp_path: Path) -> None:
    path = written(tmp_path, [NESTED], "jsonl")
    status, printed = run(tmp_path, "source=jsonl", f"source.paths={path}", "source.text_field=content.body")
    assert status == 0, printed
    hint = (
        "source.url_field: the first 1 records have no field 'url'; to use 'meta.url', give source.url_field=meta.url"
    )
    assert hint in printed.splitlines()


@pytest.mark.parametrize(
    ("source", "content", "reason"),
    [
        (
            "jsonl",
            b"WARC/1.0\r\n" * 5,
            "5 of the first 5 records have another format (pages:0 is not_json: 'WARC/1.0')",
        ),
        ("jsonl", b'[\n{"text": "a"},\n{"text": "b"}\n]\n', "3 of the first 4 records have another format (pages:0 is"),
        ("parquet", b'{"text": "a"}\n', "1 of the first 1 records have another format (pages:0 is broken_file"),
        ("warc", b'{"text": "a"}\n' * 3, "1 of the first 1 records have another format (pages:0 is broken_record"),
    ],
)
def test_a_run_with_the_wrong_format_does_not_start(tmp_path: Path, source: str, content: bytes, reason: str) -> None:
    (tmp_path / "pages").write_bytes(content)
    status, printed = run(tmp_path, f"source={source}", f"source.paths={tmp_path}/pages")
    assert status == 2
    assert printed.startswith(f"headrace: source: {reason}"), printed
    assert "choose the source of these files" in printed


def test_files_in_another_encoding_do_not_start(tmp_path: Path) -> None:
    (tmp_path / "pages").write_bytes('{"text": "Mühle"}\n'.encode("latin-1") * 2)
    status, printed = run(tmp_path, "source=jsonl", f"source.paths={tmp_path}/pages")
    assert (status, printed.split("; ")[1]) == (2, "save the files in UTF-8\n")
    assert "pages:0 is not_utf8: 'byte 11 of the line: " in printed


@pytest.mark.parametrize(
    ("row", "state"),
    [({}, "absent"), ({"a": "text"}, "absent"), ({"a": {"b": None}}, "null"), ({"a": {"b": {}}}, "an object, no text")],
)
def test_why_a_nested_field_has_no_text(tmp_path: Path, row: dict[str, Any], state: str) -> None:
    path = written(tmp_path, [row], "jsonl")
    ((_, drop),) = Jsonl(paths=(str(path),), text_field="a.b").read("a.jsonl")
    assert drop == Drop("no_text", f"field 'a.b' is {state}")


def test_binary_columns_are_read_as_utf8(tmp_path: Path) -> None:
    """One record whose URL, date or id is not UTF-8 is dropped with its reason; if most are, the run does not start."""
    row = {"text": TEXT, "url": "http://ä.example".encode(), "date": b"2026-01-02", "id": "ä".encode()}
    bad = [row | {field: b"a\xff"} for field in ("url", "date", "id")]
    path = written(tmp_path, [row] * 3 + bad, "parquet")
    settings = ("source=parquet", f"source.paths={path}")
    assert run(tmp_path, *settings)[0] == 0
    records = list(Parquet(paths=(str(path),)).read("a.parquet"))
    metadata = {"url": "http://ä.example", "date": "2026-01-02", "source_id": "ä"}
    assert [document.metadata for document, drop in records if drop is None] == [metadata] * 3
    assert [drop for _, drop in records[3:]] == [
        Drop("not_utf8", f"field {f!r}, byte 1") for f in ("url", "date", "id")
    ]
    (texts,) = (tmp_path / "runs/texts").iterdir()
    assert Artifact(texts).counts["dropped:not_utf8"] == 3
    written(tmp_path, [row, *[row | {"id": b"\xff\x00"}] * 2], "parquet")
    assert run(tmp_path, *settings) == (
        2,
        "headrace: source.id_field: 2 of the first 3 records have bytes in 'id' that are not UTF-8; "
        "name another field, or one that does not exist: source.id_field=…\n",
    )
    assert run(tmp_path, *settings, "source.id_field=none")[0] == 0


def test_few_broken_records_stop_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{}\nnot JSON\n{"text": "b"}\n')
    assert run(tmp_path, "source=jsonl", f"source.paths={path}")[0] == 0


# Values of fields that no setting names: kept in a form that JSON has, or left out by a rule that is documented.


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
