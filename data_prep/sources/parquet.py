"""Parquet tables: one document a row, read by batches.

text | url | id   ->  Document(text, "<file>:<row>", {"url", "source_id"})
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

import pyarrow
from datatrove.data import Document
from pyarrow import parquet

from data_prep.document import Drop
from data_prep.sources.fields import FieldSource
from data_prep.sources.files import open_raw
from data_prep.sources.source import Record
from pipeline.core.settings import settings, unhashed

BATCH_BYTES = 64_000_000
"""What is decoded at a time, where rows are large."""


@settings
class Parquet(FieldSource):
    """Parquet files. Drops: ``no_text``, ``record_too_large``, ``broken_file`` (all or the rest of it is damaged)."""

    type: Literal["parquet"] = "parquet"
    batch_rows: int = unhashed(1000)
    """Rows decoded at a time: bounds memory, does not change the result."""

    def suffixes(self) -> tuple[str, ...]:
        return (".parquet", ".pq")

    def read(self, name: str) -> Iterator[Record]:
        for number, row in enumerate(self._rows(name)):
            identity = f"{name}:{number}"
            if isinstance(row, Drop):
                yield Document("", identity, metadata={"url": ""}), row
            else:
                yield self.document(identity, row)

    def _rows(self, name: str) -> Iterator[dict[str, Any] | Drop]:
        wanted = {self.html_field or self.text_field, self.url_field, self.id_field, self.date_field}
        with open_raw(name) as stream:
            try:
                table = _open(stream, wanted)
                columns = [column for column in table.schema_arrow.names if column in wanted]
                for batch in table.iter_batches(_rows_at_once(table.metadata, self.batch_rows), columns=columns):
                    named = list(zip(batch.schema.names, batch.columns, strict=True))
                    yield from ({key: _value(column[i]) for key, column in named} for i in range(batch.num_rows))
            except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
                if getattr(error, "errno", None) is not None:
                    raise
                yield Drop("broken_file", type(error).__name__)


def _open(stream: BinaryIO, wanted: set[str]) -> parquet.ParquetFile:
    """The table, with texts as dictionaries: a value that a page repeats a thousand times is held once."""
    table = parquet.ParquetFile(stream)
    fields = [field for field in table.schema_arrow if field.name in wanted and _is_text(field.type)]
    return parquet.ParquetFile(stream, metadata=table.metadata, read_dictionary=[field.name for field in fields])


def _rows_at_once(metadata: parquet.FileMetaData, most: int) -> int:
    """Rows of about BATCH_BYTES by the sizes that the file states, at most ``most``."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(most, BATCH_BYTES // max(row_bytes, 1)))


def _value(scalar: Any) -> Any:
    """A cell as Python has it. Text that is no UTF-8 comes as bytes; dates that Python has not, as text."""
    try:
        return scalar.as_py()
    except (pyarrow.ArrowException, ValueError, OverflowError, KeyError):
        plain = scalar.value if isinstance(scalar, pyarrow.DictionaryScalar) else scalar
    try:
        return plain.cast(pyarrow.binary() if _is_text(plain.type) else pyarrow.string()).as_py()
    except (pyarrow.ArrowException, ValueError):
        return None


def _is_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return any(
        is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    )
