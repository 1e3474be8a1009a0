"""Every type, encoding, codec and nesting that pyarrow writes, compared with ``pyarrow.parquet.read_table``."""

import datetime
import decimal
import io
import itertools
import math
import subprocess
import sys
import uuid
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from pyarrow import parquet

from headrace.data_prep.sources.source import Section
from headrace.data_prep.sources.table_sources import Parquet
from headrace.data_prep.sources.table_values import dictionaries

UTC = zoneinfo.ZoneInfo("UTC")
DAY = datetime.date(2024, 2, 29)
NEW_YORK = pyarrow.timestamp("us", "America/New_York")
TYPES: dict[str, tuple[pyarrow.DataType, list[Any]]] = {
    "string": (pyarrow.string(), ["a", "", "ä" * 40]),
    "large_string": (pyarrow.large_string(), ["a", "b", "a"]),
    "string_view": (pyarrow.string_view(), ["a", "b" * 20, "a"]),
    "binary": (pyarrow.binary(), [b"a", b"\xff", b""]),
    "large_binary": (pyarrow.large_binary(), [b"a", b"\xff", b""]),
    "binary_view": (pyarrow.binary_view(), [b"a", b"\xff" * 20, b""]),
    "fixed_size_binary": (pyarrow.binary(2), [b"ab", b"\xff\x00", b"ab"]),
    "dictionary of texts": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), ["a", "b", "a"]),
    "dictionary of bytes": (pyarrow.dictionary(pyarrow.int8(), pyarrow.binary()), [b"a", b"\xff", b"a"]),
    "dictionary of numbers": (pyarrow.dictionary(pyarrow.int8(), pyarrow.int64()), [1, 2, 1]),
    "bool": (pyarrow.bool_(), [True, False, True]),
    "null": (pyarrow.null(), [None] * 3),
    "uint8": (pyarrow.uint8(), [0, 255, 1]),
    "int16": (pyarrow.int16(), [-(2**15), 2**15 - 1, 0]),
    "int32": (pyarrow.int32(), [-(2**31), 2**31 - 1, 0]),
    "uint32": (pyarrow.uint32(), [0, 2**32 - 1, 1]),
    "int64": (pyarrow.int64(), [-(2**63), 2**63 - 1, 0]),
    "uint64": (pyarrow.uint64(), [0, 2**64 - 1, 2**63]),
    "float16": (pyarrow.float16(), [1.5, math.nan, -math.inf]),
    "float32": (pyarrow.float32(), [1.5, math.nan, math.inf]),
    "float64": (pyarrow.float64(), [0.1, math.nan, -0.0]),
    "decimal32": (pyarrow.decimal32(5, 2), [decimal.Decimal("1.50"), decimal.Decimal("-0.01"), decimal.Decimal(0)]),
    "decimal128": (pyarrow.decimal128(38, 2), [decimal.Decimal("9" * 36 + ".25"), decimal.Decimal("-0.01")] * 2),
    "decimal256": (pyarrow.decimal256(76, 2), [decimal.Decimal("9" * 70 + ".25"), decimal.Decimal("-0.01")] * 2),
    "date32": (pyarrow.date32(), [DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    "date64": (pyarrow.date64(), [DAY, datetime.date(1970, 1, 1), DAY]),
    "timestamp s": (pyarrow.timestamp("s"), [0, 1_700_000_000, -1]),
    "timestamp ms": (pyarrow.timestamp("ms"), [0, 1_700_000_000_123, -1]),
    "timestamp us": (pyarrow.timestamp("us"), [0, 1_700_000_000_123_456, -1]),
    "timestamp UTC": (pyarrow.timestamp("us", "UTC"), [0, 1_700_000_000_123_456, -1]),
    "timestamp zone": (NEW_YORK, [0, 1_700_000_000_123_456, -1]),
    "timestamp offset": (pyarrow.timestamp("ms", "+05:30"), [0, 1, -1]),
    "time32": (pyarrow.time32("ms"), [0, 86_399_999, 1]),
    "time64": (pyarrow.time64("us"), [0, 86_399_999_999, 1]),
    "duration s": (pyarrow.duration("s"), [0, 86_400, -1]),
    "duration us": (pyarrow.duration("us"), [0, 86_400, -1]),
    "uuid": (pyarrow.uuid(), [uuid.UUID(int=5).bytes, uuid.UUID(int=2**127).bytes, uuid.UUID(int=0).bytes]),
    "json": (pyarrow.json_(), ['{"a": 1}', "1", "null"]),
    "bool8": (pyarrow.bool8(), [1, 0, 1]),
    "tensor": (pyarrow.fixed_shape_tensor(pyarrow.int8(), [2]), [[1, 2], [3, 4], [5, 6]]),
    "list_view": (pyarrow.list_view(pyarrow.int8()), [[1, None], [], [2]]),
    "fixed_size_list": (pyarrow.list_(pyarrow.int8(), 2), [[1, None], [2, 3], [4, 5]]),
}
Wrap = Callable[[pyarrow.Array], pyarrow.Array]


def lists(values: pyarrow.Array) -> pyarrow.Array:
    """Lists of one value, of none, of a null, and no list."""
    offsets = pyarrow.array([0, *range(1, len(values)), len(values), len(values), None, len(values)], pyarrow.int32())
    return pyarrow.ListArray.from_arrays(offsets, values)


def structs(values: pyarrow.Array) -> pyarrow.Array:
    mask = pyarrow.array([number == 1 for number in range(len(values))])
    return pyarrow.StructArray.from_arrays([values, values], ["one", "other"], mask=mask)


def maps(values: pyarrow.Array) -> pyarrow.Array:
    offsets = pyarrow.array([0, 2, 2, len(values)], pyarrow.int32())
    keys = pyarrow.array([f"k{number}" for number in range(len(values))])
    return pyarrow.MapArray.from_arrays(offsets, keys, values)


WRAPS: dict[str, Wrap] = {
    "plain": lambda values: values,
    "list": lists,
    "struct": structs,
    "map": maps,
    "list of lists": lambda values: lists(lists(values)),
    "list of structs": lambda values: lists(structs(values)),
    "struct of lists": lambda values: structs(lists(values)),
}
ENCODINGS = ("PLAIN", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT", "RLE")
CODECS = ("NONE", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD")


def array(name: str) -> pyarrow.Array:
    """The values of a type, with a null."""
    kind, values = TYPES[name]
    if isinstance(kind, pyarrow.BaseExtensionType):
        return pyarrow.ExtensionArray.from_storage(kind, pyarrow.array([*values, None], kind.storage_type))
    return pyarrow.array([*values, None], kind)


def leaves(kind: pyarrow.DataType, path: str = "c") -> list[str]:
    """The names of the columns of a type in the file, for their encodings."""
    if pyarrow.types.is_map(kind):
        return [f"{path}.key_value.key", *leaves(kind.item_type, f"{path}.key_value.value")]
    if pyarrow.types.is_struct(kind):
        return [leaf for field in kind for leaf in leaves(field.type, f"{path}.{field.name}")]
    if isinstance(kind, pyarrow.BaseExtensionType):
        return leaves(kind.storage_type, path)
    is_list = pyarrow.types.is_nested(kind)
    return leaves(kind.value_type, f"{path}.list.element") if is_list else [path]


def written(column: pyarrow.Array, encoding: str | None, **options: Any) -> bytes | None:
    """A table with ``column``; None if pyarrow cannot write it."""
    file = io.BytesIO()
    table = pyarrow.table({"text": ["t"] * len(column), "c": column})
    if encoding is not None:
        options |= {"use_dictionary": False}
        options |= {"column_encoding": {leaf: encoding for leaf in leaves(column.type) if "key_value.key" not in leaf}}
    try:
        parquet.write_table(table, file, **options)
    except (pyarrow.ArrowException, OSError, TypeError):
        return None
    return file.getvalue()


def ours(data: bytes) -> list[Any]:
    stream = io.BytesIO(data)
    section = Section("a", len(data))
    return [
        row["c"]
        for _, row in Parquet(paths=("a",), extra_field_bytes=10**9)._rows(stream, section)
        if isinstance(row, dict)
    ]


def theirs(data: bytes, column: pyarrow.Array) -> list[Any]:
    """The values by ``read_table``, which reads no dictionary of texts in a DELTA encoding: then those written."""
    try:
        return parquet.read_table(io.BytesIO(data)).column("c").to_pylist()
    except OSError:
        return column.to_pylist()


@pytest.mark.parametrize(
    ("wrap", "encoding"),
    [*((wrap, None) for wrap in WRAPS), *(("plain", encoding) for encoding in ENCODINGS),
     *(("list of structs", encoding) for encoding in ENCODINGS if "DELTA" in encoding)],
)  # fmt: skip
def test_values_are_those_of_pyarrow(wrap: str, encoding: str | None) -> None:
    """Of each type, in each encoding, page version and nesting, with and without Arrow's own schema."""
    unwritten = set()
    for name, (version, store) in itertools.product(TYPES, (("1.0", True), ("2.0", False))):
        column = WRAPS[wrap](array(name))
        data = written(column, encoding, data_page_version=version, store_schema=store, row_group_size=3)
        if data is None:
            unwritten.add(name)
        else:
            assert repr(ours(data)) == repr(theirs(data, column)), (name, version)
    views = {name for name in unwritten if name.endswith("_view")}
    assert len(unwritten) < len(TYPES) if encoding else unwritten == views, "pyarrow writes no objects of views"


TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "dictionary of texts")
LINES = [f"https://example.org/pages/{number} is a line that shares its beginning" for number in range(40)]


@pytest.mark.parametrize("encoding", [None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
def test_texts_in_every_encoding_are_documents(tmp_path: Path, encoding: str | None) -> None:
    """Of each type; the codecs and versions of pages take turns."""
    path = tmp_path / "a.parquet"
    encoded = {"use_dictionary": False, "column_encoding": {"text": encoding}} if encoding else {}
    forms = itertools.product(CODECS, ("1.0", "2.0"))
    for name, (codec, version) in zip(itertools.cycle(TEXTS), forms, strict=False):
        values: list[Any] = [line.encode() for line in LINES] if name.endswith(("binary", "binary_view")) else LINES
        table = pyarrow.table({"text": pyarrow.array(values, TYPES[name][0]), "id": range(40)})
        parquet.write_table(table, path, compression=codec, data_page_version=version, row_group_size=7, **encoded)
        records = list(Parquet(paths=(str(path),)).read("a.parquet"))
        assert [drop or document.text for document, drop in records] == LINES, (name, codec, version)
        assert [document.metadata["source_id"] for document, _ in records] == [str(number) for number in range(40)]


NANOSECONDS: list[tuple[pyarrow.DataType, int, Any]] = [
    (pyarrow.timestamp("ns"), 1_000, datetime.datetime(1970, 1, 1, microsecond=1)),
    (pyarrow.timestamp("ns"), 1_001, "1970-01-01 00:00:00.000001001"),
    (pyarrow.timestamp("ns", "UTC"), 1_001, "1970-01-01 00:00:00.000001001Z"),
    (pyarrow.timestamp("ns", "UTC"), 2_000, datetime.datetime(1970, 1, 1, microsecond=2, tzinfo=UTC)),
    (pyarrow.time64("ns"), 1_000, datetime.time(0, 0, 0, 1)),
    (pyarrow.time64("ns"), 1, "00:00:00.000000001"),
    (pyarrow.duration("ns"), 1_000, datetime.timedelta(microseconds=1)),
    (pyarrow.duration("ns"), 1, "1 ns"),
    (pyarrow.timestamp("s"), 10**12, "1000000000000 s"),
    (pyarrow.timestamp("s", "UTC"), 10**12, "1000000000000 s"),
    (pyarrow.timestamp("us", "Nowhere/At_all"), 1, datetime.datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
]


@pytest.mark.parametrize(("kind", "value", "expected"), NANOSECONDS)
def test_times_that_python_does_not_have_are_the_same_everywhere(
    kind: pyarrow.DataType, value: int, expected: Any
) -> None:
    """They do not depend on pandas, which is installed where these tests run, and no nanosecond is lost."""
    for wrap in WRAPS.values():
        wanted = wrap(pyarrow.array(["x", "x", None])).to_pylist()
        (batch,) = pyarrow.table({"c": wrap(pyarrow.array([value, value, None], kind))}).to_batches()
        assert repr([row["c"] for row in dictionaries(batch)]).replace(repr(expected), "'x'") == repr(wanted)


def test_values_of_dictionaries_and_of_extension_types() -> None:
    """As Python has them, else as they are stored: times of nanoseconds, and text that is not UTF-8."""
    times, texts = pyarrow.array([1_001, 2_000], "timestamp[ns]"), pyarrow.array([b"a", b"\xff"]).view(pyarrow.string())
    opaque = pyarrow.opaque(times.type, "time", "a vendor")
    columns = {
        "times": times.dictionary_encode(),
        "opaque": pyarrow.ExtensionArray.from_storage(opaque, times),
        "texts": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1]), texts),
        "ids": array("uuid")[:2],
    }
    (batch,) = pyarrow.table(columns).to_batches()
    stamps = ["1970-01-01 00:00:00.000001001", datetime.datetime(1970, 1, 1, microsecond=2)]
    expected = (stamps, stamps, ["a", b"\xff"], [uuid.UUID(int=5), uuid.UUID(int=2**127)])
    assert [[row[name] for row in dictionaries(batch)] for name in columns] == [*expected]


def test_the_same_values_without_pandas(tmp_path: Path) -> None:
    columns = [pyarrow.array([value, None], kind) for kind, value, _ in NANOSECONDS[:8]]
    table = pyarrow.table({"text": ["t", "t"], **{f"c{number}": one for number, one in enumerate(columns)}})
    parquet.write_table(table, tmp_path / "a.parquet")
    program = f"""
import sys

class Absent:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
from headrace.data_prep.sources.table_sources import Parquet
for document, drop in Parquet(paths=({str(tmp_path / "a.parquet")!r},)).read("a.parquet"):
    print(document.metadata)
"""
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    found = Parquet(paths=(str(tmp_path / "a.parquet"),)).read("a.parquet")
    assert printed.splitlines() == [str(document.metadata) for document, _ in found]


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
