"""Parquet tables."""

import fsspec
import pyarrow
import pytest
from pyarrow import parquet

from data_prep.document import Drop
from data_prep.sources.parquet import Parquet

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
        "one", Drop("no_text", "field 'text' is empty"), Drop("no_text", "field 'text' is absent"), "four",
        Drop("record_too_large", "200"),
    ]  # fmt: skip
    assert [document.id for document, _ in records] == [f"{name}:{number}" for number in range(5)]
    assert records[3][0].metadata == {"url": "http://x/4", "source_id": "4"}


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
    for data in (b"", b"PAR1", whole[:100], whole[:30] + b"\xff" * 40 + whole[70:], b"x" * 1000):
        path.write_bytes(data)
        *kept, (_, drop) = read(str(path))
        assert drop.rule == "broken_file"
        assert len(kept) <= 1
