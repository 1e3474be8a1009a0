"""Parquet and Arrow tables: rows, both formats of Arrow, saved datasets, sections, and damage."""

import base64
import datetime
import decimal
import io
import itertools
import math
import uuid
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import orjson
import pyarrow
import pytest
from pyarrow import ipc, parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import tables
from headrace.data_prep.sources.tables import STREAM_END, Arrow, Parquet, dictionaries
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.progress import counting

COLUMNS = {
    "text": ["one", "", None, "four", "long" * 50],
    "url": ["http://x/1", None, "", "http://x/4", None],
    "id": [1, 2, 3, 4, 5],
    "other": [[1], [2], [3], [4], [5]],
}
FORMATS = {"stream": ipc.new_stream, "file": ipc.new_file}
EMPTY = Drop("no_text", "field 'text' is empty")


UTC = zoneinfo.ZoneInfo("UTC")
DAY = datetime.date(2024, 2, 29)
NEW_YORK = pyarrow.timestamp("us", "America/New_York")
TYPES: dict[str, tuple[pyarrow.DataType, list[Any]]] = {
    "string": (pyarrow.string(), ["a", "", "ä" * 40]),
    "string_view": (pyarrow.string_view(), ["a", "b" * 20, "a"]),
    "binary": (pyarrow.binary(), [b"a", b"\xff", b""]),
    "fixed_size_binary": (pyarrow.binary(2), [b"ab", b"\xff\x00", b"ab"]),
    "dictionary of texts": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), ["a", "b", "a"]),
    "dictionary of bytes": (pyarrow.dictionary(pyarrow.int8(), pyarrow.binary()), [b"a", b"\xff", b"a"]),
    "bool": (pyarrow.bool_(), [True, False, True]),
    "uint8": (pyarrow.uint8(), [0, 255, 1]),
    "int64": (pyarrow.int64(), [-(2**63), 2**63 - 1, 0]),
    "uint64": (pyarrow.uint64(), [0, 2**64 - 1, 2**63]),
    "float64": (pyarrow.float64(), [0.1, math.nan, -0.0]),
    "decimal128": (pyarrow.decimal128(38, 2), [decimal.Decimal("9" * 36 + ".25"), decimal.Decimal("-0.01")] * 2),
    "date32": (pyarrow.date32(), [DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "timestamp us": (pyarrow.timestamp("us"), [0, 1_700_000_000_123_456, -1]),
    "timestamp UTC": (pyarrow.timestamp("us", "UTC"), [0, 1_700_000_000_123_456, -1]),
    "timestamp zone": (NEW_YORK, [0, 1_700_000_000_123_456, -1]),
    "time64": (pyarrow.time64("us"), [0, 86_399_999_999, 1]),
    "duration us": (pyarrow.duration("us"), [0, 86_400, -1]),
    "uuid": (pyarrow.uuid(), [uuid.UUID(int=5).bytes, uuid.UUID(int=2**127).bytes, uuid.UUID(int=0).bytes]),
    "json": (pyarrow.json_(), ['{"a": 1}', "1", "null"]),
    "tensor": (pyarrow.fixed_shape_tensor(pyarrow.int8(), [2]), [[1, 2], [3, 4], [5, 6]]),
    "list_view": (pyarrow.list_view(pyarrow.int8()), [[1, None], [], [2]]),
    "fixed_size_list": (pyarrow.list_(pyarrow.int8(), 2), [[1, None], [2, 3], [4, 5]]),
}


def array(name: str) -> pyarrow.Array:
    """The values of a type, with a null."""
    kind, values = TYPES[name]
    if isinstance(kind, pyarrow.BaseExtensionType):
        return pyarrow.ExtensionArray.from_storage(kind, pyarrow.array([*values, None], kind.storage_type))
    return pyarrow.array([*values, None], kind)


def arrow(table: pyarrow.Table, form: str = "stream", rows: int | None = None, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with FORMATS[form](sink, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def parquet_bytes(table: pyarrow.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(table, sink, **options)
    return sink.getvalue()


def read(path: Path | str, data: bytes, **settings: Any) -> list[tuple[str, str, dict[str, Any], Drop | None]]:
    """The id, text, metadata and drop of each row of a file that has ``data``."""
    with fsspec.open(str(path), "wb") as stream:
        stream.write(data)
    source = (Parquet if str(path).endswith(".parquet") else Arrow)(paths=(str(path),), **settings)
    (file,) = source.listing()
    return [(one.id, one.text, one.metadata, drop) for one, drop in source.read(file.name)]


def both(folder: Path, table: pyarrow.Table, **settings: Any) -> list[tuple[str, dict[str, Any], Drop | None]]:
    """The texts, metadata and drops of ``table`` as a Parquet file, which are those of it as an Arrow file."""
    found = [record[1:] for record in read(folder / "a.parquet", parquet_bytes(table), **settings)]
    assert [record[1:] for record in read(folder / "a.arrow", arrow(table), **settings)] == found
    return found


def texts(count: int) -> pyarrow.Table:
    return pyarrow.table({"text": [f"text {n}" for n in range(count)], "url": [f"http://x/{n}" for n in range(count)]})


@pytest.mark.parametrize(
    ("name", "settings"),
    [("{}/a.parquet", {}), ("memory://t/a.parquet", {}), ("{}/a.arrow", {})],
)  # fmt: skip
def test_rows_are_documents(tmp_path: Path, name: str, settings: dict[str, Any]) -> None:
    path, table = name.format(tmp_path), pyarrow.table(COLUMNS)
    data = arrow(table, "stream", 3) if path.endswith("arrow") else parquet_bytes(table, row_group_size=3)
    records = read(path, data, record_bytes=100, **settings)
    null, large = Drop("no_text", "field 'text' is null"), Drop("record_too_large", "200")
    assert [drop or text for _, text, _, drop in records] == ["one", EMPTY, null, "four", large]
    assert [identity for identity, *_ in records] == [f"{path.rpartition('/')[2]}:{number}" for number in range(5)]
    assert records[3][2] == {"url": "http://x/4", "source_id": "4", "extra": {"other": [4]}}


NUMBERS = pyarrow.array([1, 2])
TWICE = pyarrow.StructArray.from_arrays([NUMBERS, NUMBERS, pyarrow.array(["x", None])], names=["a", "b", "a"])
NO_UTF8 = pyarrow.array(["naïve mill".encode("cp1252"), "é".encode()]).view(pyarrow.string())
PAGE = "<meta charset=koi8-r><p>мир и труд".encode("koi8-r")
TWO = ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "settings", "expected"),
    [
        pytest.param({"page": [PAGE, b"<p>"]}, {"html_field": "page"},
                     [("мир и труд", {}, None), ("", {}, Drop("no_text", ""))], id="HTML as bytes"),
        pytest.param({"n": [1, 2]}, {}, [("", {"extra": {"n": n}}, Drop("no_text", "field 'text' is absent"))
                                         for n in (1, 2)], id="without the field"),
        pytest.param({"text": TWO, "url": [{"a": 1}, None]}, {}, [("a", {}, None), ("b", {}, None)], id="an object"),
        pytest.param({"text": TWO, "url": [["a"], None]}, {}, [("a", {}, None), ("b", {}, None)], id="a list"),
        pytest.param({"text": TWO, "twice": TWICE}, {},
                     [("a", {"extra": {"twice": [["a", 1], ["b", 1], ["a", "x"]]}}, None),
                      ("b", {"extra": {"twice": [["a", 2], ["b", 2], ["a", None]]}}, None)], id="fields of one name"),
        pytest.param({"text": NO_UTF8}, {}, [("naïve mill", {}, None), ("é", {}, None)], id="a text that is no UTF-8"),
        pytest.param({"text": TWO, "url": NO_UTF8}, {},
                     [("", {}, Drop("not_utf8", "field 'url', byte 2")), ("b", {"url": "é"}, None)],
                     id="a URL that is no UTF-8"),
        pytest.param({"text": TWO, "date": pyarrow.array([1, 0], pyarrow.timestamp("ns"))}, {},
                     [("a", {"date": "1970-01-01 00:00:00"}, None),
                      ("b", {"date": "1970-01-01 00:00:00"}, None)],
                     id="dates in nanoseconds"),
        pytest.param({"text": TWO, "date": pyarrow.array([10**18, None], pyarrow.timestamp("ms"))}, {},
                     [("a", {"date": f"{10**18} ms"}, None), ("b", {}, None)], id="a date beyond those of Python"),
    ],
)  # fmt: skip
def test_kinds_of_rows(tmp_path: Path, columns: Any, settings: dict[str, Any], expected: list[Any]) -> None:
    wanted = [(text, {"url": "", **metadata}, drop) for text, metadata, drop in expected]
    assert both(tmp_path, pyarrow.table(columns), **settings) == wanted


@pytest.mark.parametrize("name", ["text", "url", "other"])
def test_several_columns_of_one_name_are_refused(tmp_path: Path, name: str) -> None:
    columns = ["text", "url", "other", name]
    table = pyarrow.Table.from_arrays([pyarrow.array([f"{n}", "x"]) for n in range(4)], names=columns)
    refusal = f"several columns are named {name!r}"
    assert both(tmp_path, table) == [("", {"url": ""}, Drop("broken_file", f"ArrowInvalid: {refusal}"))]
    for source, file in ((Arrow, "a.arrow"), (Parquet, "a.parquet")):
        with pytest.raises(ConfigError) as error:
            source(paths=(str(tmp_path / file),)).check([file])
        assert refusal in str(error.value)


@pytest.mark.parametrize(("form", "compression"), [("stream", None), ("stream", "zstd"), ("file", "lz4")])
def test_values_of_arrow_are_those_of_parquet(tmp_path: Path, form: str, compression: str | None) -> None:
    """Of each type, over several batches."""
    table = pyarrow.table({"text": TWO * 2, **{name: array(name)[-4:] for name in TYPES}})
    found = read(tmp_path / "a.arrow", arrow(table, form, 3, compression))
    expected = read(tmp_path / "a.parquet", parquet_bytes(table))
    assert [record[1:] for record in found] == [record[1:] for record in expected]
    assert [identity for identity, *_ in found] == [f"a.arrow:{number}" for number in range(4)]


DAMAGED_STATISTICS = base64.b64decode(
    "UEFSMRUGFRIVElwVAhUAFQIVABUEFQQSHDYAKAFhGAFhEREAAAACAAIDAQAAAGEVBBlMNQAYBnNjaGVtYRUCADUCGAR0ZXh0FQIV"
    "Bkw8AAAANQQYBGxpc3QVAgAVDCUAGAdlbGVtZW50JQBMHAAAABYCGRwZHCYAHBUMGSUGABk4BHRleHQEbGlzdAdlbGVtZW50FQQW"
    "AhZWFlYmCDw2ACgBYRgBYRERABkcFQAVABUCADwWAhkmAgAZRgAAAAIAAAAWVhYCJggWVgAoIHBhcnF1ZXQtY3BwLWFycm93IHZl"
    "cnNpb24gMjYuMC4xGRwcAAAAxAAAAFBBUjE="
)
"""A table whose statistics of sizes are damaged: pyarrow ends a process that asks for its column."""
STREAM = arrow(texts(9), "stream", 3)
assert STREAM.endswith(STREAM_END)


@pytest.mark.parametrize(
    ("name", "data", "kept", "message"),
    [
        *(("a.parquet", data, 0, "ArrowInvalid: Parquet")
          for data in (b"", b"PAR1", b"x" * 1000, b"PK\x03\x04" + b"x" * 100, parquet_bytes(texts(9))[:100])),
        ("a.parquet", DAMAGED_STATISTICS, 0, "OSError: Definition level histogram size mismatch, size: 4, expected: 3"),
        *(("a.arrow", data, 0, "") for data in (b"", b"ARROW1", STREAM[:40])),
        ("a.arrow", STREAM[:-8], 9, "ArrowInvalid: the stream has no end: the file is cut"),
        ("a.arrow", STREAM[: len(STREAM) // 2], 3, ""),
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_file_is_one_drop_after_the_rows_that_are_whole(
    tmp_path: Path, name: str, data: bytes, kept: int, message: str
) -> None:
    *whole, (identity, _, _, drop) = read(tmp_path / name, data)
    assert [text for _, text, _, _ in whole] == [f"text {number}" for number in range(kept)]
    assert identity == f"{name}:{kept}"
    assert isinstance(drop, Drop)
    assert drop.rule == "broken_file"
    assert drop.value.startswith(message)


def sectioned(source: Parquet) -> tuple[int, list[tuple[str, Any]], int]:
    """The number of sections of the only file, their records, and the rows that they count."""
    records, first = [], 0
    for (section,) in source.groups():
        records += [(document.id, drop or document.text) for document, drop in source.read_section(section, first)]
        first += source.count(section)
    return len(source.groups()), records, first


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize("sections", [1, 3, 7])
def test_sections_hold_the_rows_of_the_file(tmp_path: Path, sections: int, encoding: str) -> None:
    """Damage costs the rest of its row group, and the rows after it keep their numbers."""
    path, lines = tmp_path / "a.parquet", [f"text {number} " + "z" * 100 for number in range(10)]
    options = {"use_dictionary": False, "column_encoding": {"text": encoding}, "compression": "NONE"}
    data = parquet_bytes(pyarrow.table({"text": lines}), row_group_size=3, **options)
    path.write_bytes(data)
    expected = [(f"a.parquet:{number}", line) for number, line in enumerate(lines)]
    source = Parquet(paths=(str(path),), section_bytes=len(data) // sections)
    assert sectioned(source) == (sections, expected, 10)
    start = parquet.read_metadata(path).row_group(1).column(0).data_page_offset
    path.write_bytes(data[:start] + b"\xff" * 40 + data[start + 40 :])
    _, records, rows = sectioned(source)
    assert (records[:3], records[4:], rows) == (expected[:3], expected[6:], 10)
    assert records[3][0] == "a.parquet:3"
    assert records[3][1].rule == "broken_file"
    assert len(records[3][1].value) > 20, "the message"


def test_a_file_that_cannot_be_opened_is_one_record_of_its_first_section(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"x" * 100)
    source = Parquet(paths=(str(path),), section_bytes=40)
    counts = [source.count(section) for (section,) in source.groups()]
    assert counts == [1, 0]
    assert [len(list(source.read_section(section, 0))) for (section,) in source.groups()] == counts


def test_the_progress_of_a_task_is_the_bytes_of_its_section(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet_bytes(texts(9), row_group_size=3))
    source = Parquet(paths=(str(path),), section_bytes=path.stat().st_size // 3)
    for (section,) in source.groups():
        reported: list[Any] = []
        with counting(reported.append):
            list(source.read_section(section, 0))
        assert sum(amounts.raw_bytes for amounts in reported) == pytest.approx(section.end - section.start, abs=2)
        with counting(reported.append):
            source.count(section)
        assert reported[-1].raw_bytes == section.end - section.start


def peak_while(records: Callable[[], Any]) -> int:
    """The most bytes that Arrow holds while the records are read."""
    before = pyarrow.total_allocated_bytes()
    return max(pyarrow.total_allocated_bytes() - before for _ in records())


def test_a_large_value_that_is_repeated_is_held_a_few_times(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    repeated = pyarrow.DictionaryArray.from_arrays([0] * 100, ["y" * 3_000_000])
    path.write_bytes(parquet_bytes(pyarrow.table({"text": repeated}), compression="zstd", store_schema=False))
    assert path.stat().st_size < 10_000
    drops = []
    source = Parquet(paths=(str(path),), record_bytes=1000)
    assert peak_while(lambda: (drops.append(drop) for _, drop in source.read("a.parquet"))) < 250_000_000
    assert drops == [Drop("record_too_large", "3000000")] * 100


def test_an_encoding_that_expands_is_decoded_in_small_steps(tmp_path: Path) -> None:
    """Texts that share their beginnings take few bytes in the file."""
    path, lines = tmp_path / "a.parquet", ["y" * 100_000 + str(number) for number in range(400)]
    options = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    path.write_bytes(parquet_bytes(pyarrow.table({"text": lines}), **options))
    assert path.stat().st_size < 100_000
    found: list[str] = []
    source = Parquet(paths=(str(path),))
    assert peak_while(lambda: (found.append(one.text) for one, _ in source.read("a.parquet"))) < 20_000_000
    assert found == lines


@pytest.mark.parametrize("batch_bytes", [1, 100_000, 10**9])
def test_few_rows_at_once_where_rows_are_large(
    tmp_path: Path, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{number} " + "z" * 20_000 for number in range(100)]
    monkeypatch.setattr(tables, "BATCH_BYTES", batch_bytes)
    found = read(tmp_path / "a.parquet", parquet_bytes(pyarrow.table({"text": lines})))
    assert [text for _, text, _, _ in found] == lines


def test_a_saved_dataset_is_read_without_its_caches(tmp_path: Path) -> None:
    for split, count in (("train", 4), ("test", 2)):
        (tmp_path / split).mkdir()
        (tmp_path / split / "data-00000-of-00001.arrow").write_bytes(arrow(texts(count)))
        (tmp_path / split / "cache-0123456789abcdef.arrow").write_bytes(arrow(texts(9)))
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


@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_with_wrong_offsets_is_lost_alone(tmp_path: Path, form: str) -> None:
    data = bytearray(arrow(texts(9), form, 3))
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 6, 12, 18))
    places = [place for place in range(len(data)) if data.startswith(offsets, place)]
    assert len(places) == 3
    data[places[1] + 4 : places[1] + 8] = b"\xff\xff\xff\x7f"
    found = [text or drop.rule for _, text, _, drop in read(tmp_path / "a.arrow", bytes(data))]
    assert found == ["text 0", "text 1", "text 2", "broken_file", "text 6", "text 7", "text 8"]


def test_every_single_wrong_byte_is_survived(tmp_path: Path) -> None:
    whole = arrow(texts(4), "stream", 2)
    for place in range(0, len(whole), 3):
        data = bytearray(whole)
        data[place] ^= 0xFF
        for number, (identity, *_) in enumerate(read(tmp_path / "a.arrow", bytes(data))):
            assert identity == f"a.arrow:{number}"


def test_a_file_of_arrow_is_one_task(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(arrow(texts(50_000)))
    source = Arrow(paths=(str(tmp_path),), section_bytes=1000)
    assert [[section.of for section in group] for group in source.groups()] == [[1]]


@pytest.mark.parametrize("encoding", [None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_in_every_encoding_are_documents(tmp_path: Path, encoding: str | None) -> None:
    path, lines = tmp_path / "a.parquet", [f"https://example.org/{number} shares its beginning" for number in range(40)]
    encoded = {"use_dictionary": False, "column_encoding": {"text": encoding}} if encoding else {}
    codecs = itertools.cycle(("NONE", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD"))
    kinds = (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), pyarrow.binary(), pyarrow.large_binary())
    for kind, version in itertools.product(kinds, ("1.0", "2.0")):
        table = pyarrow.table({"text": pyarrow.array([line.encode() for line in lines]).cast(kind), "id": range(40)})
        codec = next(codecs)
        parquet.write_table(table, path, compression=codec, data_page_version=version, row_group_size=7, **encoded)
        records = list(Parquet(paths=(str(path),)).read("a.parquet"))
        assert [drop or document.text for document, drop in records] == lines, (kind, codec, version)
        assert [document.metadata["source_id"] for document, _ in records] == [str(number) for number in range(40)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pyarrow.timestamp("ns"), 1_001, datetime.datetime(1970, 1, 1, microsecond=1)),
        (pyarrow.timestamp("ns", "UTC"), 2_000, datetime.datetime(1970, 1, 1, microsecond=2, tzinfo=UTC)),
        (pyarrow.time64("ns"), 1_000, datetime.time(0, 0, 0, 1)),
        (pyarrow.duration("ns"), 1_000, datetime.timedelta(microseconds=1)),
        (pyarrow.timestamp("s"), 10**12, "1000000000000 s"),
        (pyarrow.timestamp("us", "Nowhere/At_all"), 1, "1 us"),
    ],
)
def test_times_do_not_depend_on_pandas(kind: pyarrow.DataType, value: int, expected: Any) -> None:
    """It is installed where these tests run."""
    times = pyarrow.array([value, None], kind)
    lists = pyarrow.ListArray.from_arrays([0, 1, 2], times)
    columns = {"t": times, "list": lists, "object": pyarrow.StructArray.from_arrays([times], ["t"])}
    (batch,) = pyarrow.table(columns).to_batches()
    rows = [{"t": one, "list": [one], "object": {"t": one}} for one in (expected, None)]
    assert repr(list(dictionaries(batch))) == repr(rows)


def test_one_bad_item_costs_no_other(tmp_path: Path) -> None:
    """Texts in lists and objects that are not UTF-8 are bytes, and bytes become base64 in the metadata."""
    texts = pyarrow.array([b"good", b"\xff"]).view(pyarrow.string())
    row = {
        "text": pyarrow.array(["t"]),
        "list": pyarrow.ListArray.from_arrays([0, 2], texts),
        "object": pyarrow.StructArray.from_arrays([texts[:1], texts[1:]], ["a", "b"]),
        "view": pyarrow.array([b"\xff"], pyarrow.binary_view()).view(pyarrow.string_view()),
    }
    parquet.write_table(pyarrow.table(row), tmp_path / "a.parquet")
    ((document, drop),) = Parquet(paths=(str(tmp_path / "a.parquet"),)).read("a.parquet")
    assert drop is None
    assert document.metadata["extra"] == {
        "list": ["good", "/w=="],
        "object": {"a": "good", "b": "/w=="},
        "view": "/w==",
    }


def test_every_type_is_kept_as_json(tmp_path: Path) -> None:
    """A value is in the metadata, in a form that is written and read again, or it is null."""
    columns = {name: array(name)[-4:] for name in TYPES}
    parquet.write_table(pyarrow.table({"text": ["t"] * 4, **columns}), tmp_path / "a.parquet")
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    records = list(Parquet(paths=(str(tmp_path / "a.parquet"),)).read("a.parquet"))
    for (document, drop), row in zip(records, rows, strict=True):
        assert drop is None
        assert orjson.loads(orjson.dumps(document.metadata)) == document.metadata
        extra = document.metadata.get("extra", {})
        for name in TYPES:
            value = row[name]
            assert (name in extra) == (value is not None), name
            if isinstance(value, float):
                assert extra[name] == (value if math.isfinite(value) else None), name
            elif isinstance(value, (int, str, list)):
                assert extra[name] == value, name
