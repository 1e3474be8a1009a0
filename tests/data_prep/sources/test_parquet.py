"""Parquet tables."""

import base64

import fsspec
import pyarrow
import pytest
from pyarrow import parquet

from headrace.data_prep.document import Drop
from headrace.data_prep.sources import tables
from headrace.data_prep.sources.tables import Parquet
from headrace.pipeline.core.amounts import counting

COLUMNS = {
    "text": ["one", "", None, "four", "long" * 50],
    "url": ["http://x/1", None, "", "http://x/4", None],
    "id": [1, 2, 3, 4, 5],
    "other": [[1], [2], [3], [4], [5]],
}


def read(name, **options):
    source = Parquet(paths=(name,), **options)
    return [record for file in source.files() for record in source.read(file.name)]


@pytest.mark.parametrize("batch_rows", [1, 2, 1000])
@pytest.mark.parametrize("name", ["{}/a.parquet", "memory://tables/a.parquet"])
def test_rows_are_documents(tmp_path, batch_rows, name):
    name = name.format(tmp_path)
    with fsspec.open(name, "wb") as stream:
        parquet.write_table(pyarrow.table(COLUMNS), stream, row_group_size=3)
    records = read(name, batch_rows=batch_rows, record_bytes=100)
    assert [drop or document.text for document, drop in records] == [
        "one", Drop("no_text", "field 'text' is empty"), Drop("no_text", "field 'text' is null"), "four",
        Drop("record_too_large", "200"),
    ]  # fmt: skip
    assert [document.id for document, _ in records] == [f"a.parquet:{number}" for number in range(5)]
    assert records[3][0].metadata == {"url": "http://x/4", "source_id": "4", "extra": {"other": [4]}}


def test_html_as_bytes(tmp_path):
    path = str(tmp_path / "a.parquet")
    page = "<meta charset=koi8-r><p>мир и труд".encode("koi8-r")
    parquet.write_table(pyarrow.table({"page": [page, b"<p>"]}), path)
    records = read(path, html_field="page")
    assert [drop or document.text for document, drop in records] == ["мир и труд", Drop("no_text", "")]


def test_a_table_without_the_field(tmp_path):
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"n": [1, 2]}), path)
    assert [drop for _, drop in read(path)] == [Drop("no_text", "field 'text' is absent")] * 2


def test_broken_files(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(COLUMNS), path, row_group_size=1)
    whole = path.read_bytes()
    for data in (b"", b"PAR1", whole[:100], b"x" * 1000):
        path.write_bytes(data)
        [(document, drop)] = read(str(path))
        assert (document.id, drop.rule) == ("a.parquet:0", "broken_file")


DAMAGED_STATISTICS = base64.b64decode(
    "UEFSMRUGFRIVElwVAhUAFQIVABUEFQQSHDYAKAFhGAFhEREAAAACAAIDAQAAAGEVBBlMNQAYBnNjaGVtYRUCADUCGAR0ZXh0FQIV"
    "Bkw8AAAANQQYBGxpc3QVAgAVDCUAGAdlbGVtZW50JQBMHAAAABYCGRwZHCYAHBUMGSUGABk4BHRleHQEbGlzdAdlbGVtZW50FQQW"
    "AhZWFlYmCDw2ACgBYRgBYRERABkcFQAVABUCADwWAhkmAgAZRgAAAAIAAAAWVhYCJggWVgAoIHBhcnF1ZXQtY3BwLWFycm93IHZl"
    "cnNpb24gMjYuMC4xGRwcAAAAxAAAAFBBUjE="
)
"""A table whose statistics of sizes are damaged: pyarrow ends a process that asks for its column."""


def test_damaged_statistics_drop_the_rows_and_do_not_end_the_process(tmp_path):
    (tmp_path / "a.parquet").write_bytes(DAMAGED_STATISTICS)
    source = Parquet(paths=(str(tmp_path / "a.parquet"),))
    assert [(document.id, reason) for document, reason in source.read("a.parquet")] == [
        ("a.parquet:0", Drop("broken_file", "OSError: Definition level histogram size mismatch, size: 4, expected: 3"))
    ]


@pytest.mark.parametrize("sections", [1, 2, 3, 7])
def test_sections_hold_the_rows_of_the_file(tmp_path, sections):
    """Damage costs the rest of its row group, and the rows after it keep their numbers."""
    path = tmp_path / "a.parquet"
    texts = [f"text {number} " + "z" * 100 for number in range(10)]
    parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=3, compression="none")
    for damaged in (False, True):
        data = path.read_bytes()
        if damaged:
            metadata = parquet.read_metadata(path)
            second = metadata.row_group(1).column(0).dictionary_page_offset
            path.write_bytes(data[:second] + b"\xff" * 40 + data[second + 40 :])
        source = Parquet(paths=(str(path),), section_bytes=len(data) // sections)
        records, first = [], 0
        for (section,) in source.groups():
            records += source.read_section(section, first)
            first += source.count(section)
        found = {int(document.id.removeprefix("a.parquet:")): drop or document.text for document, drop in records}
        assert len(source.groups()) == sections
        assert len(found) == len(records)
        expected = dict(enumerate(texts))
        if damaged:
            expected = {n: text for n, text in expected.items() if n not in (3, 4, 5)}
            assert found.pop(3).rule == "broken_file"
        assert found == expected
        assert first == 10


def test_a_file_that_cannot_be_opened_is_one_record_of_its_first_section(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"x" * 100)
    source = Parquet(paths=(str(path),), section_bytes=40)
    counts = [source.count(section) for (section,) in source.groups()]
    assert counts == [1, 0]
    assert [len(list(source.read_section(section, 0))) for (section,) in source.groups()] == counts


def test_text_that_is_no_utf8_is_decoded_all_the_same(tmp_path):
    path = str(tmp_path / "a.parquet")
    text = pyarrow.array(["naïve mill".encode("cp1252"), "é".encode(), b"plain"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": text}), path)
    records = read(path)
    assert [document.text for document, _ in records] == ["naïve mill", "é", "plain"]
    assert [drop for _, drop in records] == [None] * 3
    parquet.write_table(pyarrow.table({"text": ["a"] * 3, "url": text}), path)
    assert [drop for _, drop in read(path)] == [Drop("not_utf8", "field 'url', byte 2"), None, None]


@pytest.mark.parametrize("batch_rows", [2, 1000])
def test_the_progress_of_a_task_is_the_bytes_of_its_section(tmp_path, batch_rows):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": [f"text {number}" for number in range(9)]}), path, row_group_size=3)
    source = Parquet(paths=(str(path),), section_bytes=path.stat().st_size // 3, batch_rows=batch_rows)
    for (section,) in source.groups():
        reported = []
        with counting(reported.append):
            list(source.read_section(section, 0))
        assert sum(amounts.raw_bytes for amounts in reported) == pytest.approx(section.end - section.start, abs=2)
        with counting(reported.append):
            source.count(section)
        assert reported[-1].raw_bytes == section.end - section.start


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("ns", 1, "1970-01-01 00:00:00.000000001"),
        ("s", 10**15, None),
        ("us", 0, "1970-01-01 00:00:00"),
    ],
)
def test_dates_beyond_those_of_python(tmp_path, unit, value, expected):
    path = str(tmp_path / "a.parquet")
    date = pyarrow.array([value], pyarrow.timestamp(unit))
    parquet.write_table(pyarrow.table({"text": ["a"], "date": date}), path)
    [(document, drop)] = read(path)
    assert (document.text, drop) == ("a", None)
    assert expected is None or document.metadata["date"] == expected


def test_a_page_that_repeats_a_large_value_is_held_once(tmp_path):
    path = tmp_path / "a.parquet"
    repeated = pyarrow.DictionaryArray.from_arrays([0] * 1000, ["y" * 3_000_000])
    parquet.write_table(pyarrow.table({"text": repeated}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 10_000
    before = pyarrow.total_allocated_bytes()
    peak = 0
    for _, drop in read(str(path), record_bytes=1000):
        assert drop == Drop("record_too_large", "3000000")
        peak = max(peak, pyarrow.total_allocated_bytes() - before)
    assert peak < 30_000_000


@pytest.mark.parametrize("batch_bytes", [1, 100_000, 10**9])
def test_few_rows_at_once_where_rows_are_large(tmp_path, batch_bytes, monkeypatch):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": [f"{number} " + "z" * 20_000 for number in range(100)]}), path)
    monkeypatch.setattr(tables, "BATCH_BYTES", batch_bytes)
    assert [document.text.split()[0] for document, _ in read(str(path))] == [str(number) for number in range(100)]


@pytest.mark.parametrize("value", [{"a": 1}, ["a"]])
def test_a_url_that_is_no_text(tmp_path, value):
    path = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"text": ["a"], "url": [value]}), path)
    [(document, _)] = read(path)
    assert document.metadata["url"] == ""
