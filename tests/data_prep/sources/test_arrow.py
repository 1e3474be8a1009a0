"""Arrow files: every type of value as Parquet has it, both formats, saved datasets, and damage."""

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.tables import STREAM_END, Arrow, Parquet
from headrace.pipeline.core.errors import ConfigError

FORMATS = {"stream": ipc.new_stream, "file": ipc.new_file}


def written(
    table: pyarrow.Table, form: str = "stream", rows: int | None = None, compression: str | None = None
) -> bytes:
    sink = io.BytesIO()
    with FORMATS[form](sink, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def read(folder: Path, data: bytes, **settings) -> list:
    (folder / "a.arrow").write_bytes(data)
    records = list(Arrow(paths=(str(folder),), **settings).read("a.arrow"))
    return [(document.id, document.text, document.metadata, drop) for document, drop in records]


def texts(count: int) -> pyarrow.Table:
    return pyarrow.table({"text": [f"text {n}" for n in range(count)], "url": [f"http://x/{n}" for n in range(count)]})


def values() -> pyarrow.Table:
    """Three rows of each type."""
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    columns = {
        "text": pyarrow.array(["one", "two", None], pyarrow.large_string()),
        "id": pyarrow.array([7, 8, 9], pyarrow.uint64()),
        "date": pyarrow.array([moment, None, moment], pyarrow.timestamp("ms", "UTC")),
        "nested": pyarrow.array([{"a": {"b": [1, 2]}}, None, {"a": None}]),
        "dictionary": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        "null": pyarrow.nulls(3),
        "decimal": pyarrow.array([Decimal("1.50"), None, Decimal("-2.25")], pyarrow.decimal128(9, 2)),
        "nanoseconds": pyarrow.array([1, 1_000, None], pyarrow.timestamp("ns")),
        "lists": pyarrow.array([[b"a"], [], None], pyarrow.large_list(pyarrow.binary())),
        "view": pyarrow.array(["v", None, "w"], pyarrow.string_view()),
        "map": pyarrow.array([[("k", 1)], [], None], pyarrow.map_(pyarrow.string(), pyarrow.int8())),
        "duration": pyarrow.array([1, None, 3], pyarrow.duration("s")),
        "half": pyarrow.array([1.5, None, float("nan")], pyarrow.float32()),
    }
    return pyarrow.table(columns)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("form", FORMATS)
def test_values_are_those_of_the_same_parquet_table(tmp_path: Path, form: str, compression: str | None) -> None:
    parquet.write_table(values(), tmp_path / "a.parquet")
    records = Parquet(paths=(str(tmp_path),)).read("a.parquet")
    expected = [(document.text, document.metadata, drop) for document, drop in records]
    assert [record[1:] for record in read(tmp_path, written(values(), form, 2, compression))] == expected
    assert expected[0][1]["extra"]["nested"] == {"a": {"b": [1, 2]}}
    assert expected[2][2] == Drop("no_text", "field 'text' is null")


def both(folder: Path, table: pyarrow.Table) -> list:
    """The metadata and drops of ``table`` as an Arrow file, which are those of it as Parquet."""
    parquet.write_table(table, folder / "a.parquet")
    expected = [(one.metadata, drop) for one, drop in Parquet(paths=(str(folder),)).read("a.parquet")]
    assert [record[2:] for record in read(folder, written(table))] == expected
    return expected


def test_fields_of_one_name_are_kept_as_pairs(tmp_path: Path) -> None:
    numbers = pyarrow.array([1, 2])
    twice = pyarrow.StructArray.from_arrays([numbers, numbers, pyarrow.array(["x", None])], names=["a", "b", "a"])
    [first, second] = both(tmp_path, pyarrow.table({"text": ["one", "two"], "twice": twice}))
    assert first == ({"url": "", "extra": {"twice": [["a", 1], ["b", 1], ["a", "x"]]}}, None)
    assert second == ({"url": "", "extra": {"twice": [["a", 2], ["b", 2], ["a", None]]}}, None)


@pytest.mark.parametrize("name", ["text", "url", "other"])
def test_several_columns_of_one_name_are_refused(tmp_path: Path, name: str) -> None:
    columns = ["text", "url", "other", name]
    table = pyarrow.Table.from_arrays([pyarrow.array([f"{n}", "x"]) for n in range(4)], names=columns)
    refusal = f"several columns are named {name!r}"
    assert both(tmp_path, table) == [({"url": ""}, Drop("broken_file", f"ArrowInvalid: {refusal}"))]
    for source, file in ((Arrow, "a.arrow"), (Parquet, "a.parquet")):
        with pytest.raises(ConfigError) as error:
            source(paths=(str(tmp_path / file),)).check([file])
        assert refusal in str(error.value)


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("form", FORMATS)
def test_records_are_numbered_over_batches(tmp_path: Path, form: str, rows: int) -> None:
    records = read(tmp_path, written(texts(10), form, rows))
    assert [(identity, text) for identity, text, _, _ in records] == [(f"a.arrow:{n}", f"text {n}") for n in range(10)]


def test_a_saved_dataset_is_read_without_its_caches(tmp_path: Path) -> None:
    for split, count in (("train", 4), ("test", 2)):
        (tmp_path / split).mkdir()
        (tmp_path / split / "data-00000-of-00001.arrow").write_bytes(written(texts(count)))
        (tmp_path / split / "cache-0123456789abcdef.arrow").write_bytes(written(texts(9)))
        (tmp_path / split / "state.json").write_text("{}")
    source = Arrow(paths=(str(tmp_path),))
    names = [file.name for file in source.listing()]
    assert names == ["test/data-00000-of-00001.arrow", "train/data-00000-of-00001.arrow"]
    assert "2 with the name of a cache, cache-*.arrow" in source.left_out
    assert "2 with the suffix .json" in source.left_out
    source.check(names)


def test_datasets_saves_what_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"text": f"text {n}", "tags": ["a", "b"][: n % 3], "score": n / 7} for n in range(2_500)]
    saved = datasets.Dataset.from_list(rows)
    saved.map(lambda row: {"text": row["text"] + "!"})
    datasets.DatasetDict({"train": saved}).save_to_disk(str(tmp_path / "saved"), num_shards={"train": 3})
    source = Arrow(paths=(str(tmp_path / "saved"),))
    documents = [document for file in source.listing() for document, _ in source.read(file.name)]
    assert [{"text": document.text, **document.metadata["extra"]} for document in documents] == rows


def test_text_that_is_not_utf8_is_decoded_as_in_parquet(tmp_path: Path) -> None:
    column = pyarrow.array([b"caf\xe9", b"fine"]).view(pyarrow.string())
    table = pyarrow.table({"text": column, "url": column})
    rules = [(text, drop and drop.rule) for _, text, _, drop in read(tmp_path, written(table))]
    parquet.write_table(table, tmp_path / "a.parquet")
    expected = [(one.text, drop and drop.rule) for one, drop in Parquet(paths=(str(tmp_path),)).read("a.parquet")]
    assert rules == expected == [("", "not_utf8"), ("fine", None)]


def test_damage_is_counted(tmp_path: Path) -> None:
    whole = written(texts(9), "stream", 3)
    assert whole.endswith(STREAM_END)
    for data, kept in ((b"", 0), (b"ARROW1", 0), (whole[:40], 0), (whole[:-8], 9), (whole[: len(whole) // 2], None)):
        records = read(tmp_path, data)
        drop = records[-1][3]
        assert drop is not None
        assert drop.rule == "broken_file"
        assert all(record[3] is None for record in records[:-1])
        assert kept is None or len(records) == kept + 1


def test_a_batch_with_wrong_offsets_is_lost_alone(tmp_path: Path) -> None:
    for form in FORMATS:
        data = bytearray(written(texts(9), form, 3))
        offsets = b"".join(number.to_bytes(4, "little") for number in (0, 6, 12, 18))
        places = [place for place in range(len(data)) if data.startswith(offsets, place)]
        assert len(places) == 3
        data[places[1] + 4 : places[1] + 8] = b"\xff\xff\xff\x7f"
        records = read(tmp_path, bytes(data))
        assert [text or drop.rule for _, text, _, drop in records] == [
            "text 0", "text 1", "text 2", "broken_file", "text 6", "text 7", "text 8"
        ]  # fmt: skip


def test_every_single_wrong_byte_is_survived(tmp_path: Path) -> None:
    whole = written(texts(4), "stream", 2)
    for place in range(0, len(whole), 3):
        data = bytearray(whole)
        data[place] ^= 0xFF
        for number, (identity, *_) in enumerate(read(tmp_path, bytes(data))):
            assert identity == f"a.arrow:{number}"


def test_a_file_is_one_task(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(written(texts(50_000)))
    source = Arrow(paths=(str(tmp_path),), section_bytes=1000)
    assert [[section.of for section in group] for group in source.groups()] == [[1]]


def test_the_first_rows_show_a_wrong_field(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(written(pyarrow.table({"body": [json.dumps("long text")]})))
    with pytest.raises(ConfigError, match=r"did you mean source\.text_field=body"):
        Arrow(paths=(str(tmp_path),)).check(["a.arrow"])
