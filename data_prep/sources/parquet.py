"""Parquet tables: one document a row, read by batches.

text | url | id   ->  Document(text, "<file>:<row>", {"url", "source_id"})
"""

from collections.abc import Iterator
from typing import Any, Literal

import pyarrow
from datatrove.data import Document
from pyarrow import parquet

from data_prep.document import Drop
from data_prep.sources.fields import FieldSource
from data_prep.sources.files import open_raw
from data_prep.sources.source import Record
from pipeline.core.settings import settings, unhashed


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
                table = parquet.ParquetFile(stream)
                columns = [column for column in table.schema_arrow.names if column in wanted]
                for batch in table.iter_batches(self.batch_rows, columns=columns):
                    yield from (batch.slice(i, 1).to_pylist()[0] for i in range(batch.num_rows))
            except (pyarrow.ArrowException, OSError) as error:
                if getattr(error, "errno", None) is not None:
                    raise
                yield Drop("broken_file", type(error).__name__)
