"""Files of token ids in place of texts: Megatron-LM's .bin and .idx, and Parquet with lists of ids.

    corpus.idx + corpus.bin     sequences of a document, by the index         ──> (record, ids), (record, ids), …
    00000.parquet               a list of ids in each row: ``token_field``

Nothing is repaired: a damaged file, a float, or an index that does not fit its tokens is refused, because a lost part
would shift all documents after it. Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, BinaryIO, ClassVar, Literal

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet

from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record, few_of
from headrace.data_prep.sources.tables import BROKEN
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.settings import settings

INDEX, TOKENS = ".idx", ".bin"
MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEADER = struct.Struct("<QBQQ")
"""The version, the dtype, the number of sequences, and that of documents + 1."""
DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
"""The dtypes of tokens by their numbers in an index."""
FLOATS = {6: "float64", 7: "float32"}
LISTS = (pyarrow.types.is_list, pyarrow.types.is_large_list, pyarrow.types.is_fixed_size_list)
ROWS_AT_ONCE = 1_000

Document = tuple[int, NDArray[Any]]
"""The number of a record in its file, and its token ids: (tokens,), integers of any size."""


@settings
class TokenFiles(FileSource):
    """Token ids of documents. They enter at the stage ``tokens``, with the tokenizer that made them."""

    compressions: ClassVar[tuple[str, ...]] = ()

    type: Literal["token_files"] = "token_files"
    token_field: str = "input_ids"
    """The column of a Parquet file with the lists of ids."""

    def suffixes(self) -> tuple[str, ...]:
        return (INDEX, TOKENS, ".parquet", ".pq")

    def read(self, name: str) -> Iterator[Record]:
        raise TypeError(f"{type(self).__name__} has token ids, no records: use documents()")

    def check(self, names: Sequence[str]) -> None:
        """Reads the first document of some of the files ``names``.

        Raises:
            ConfigError: when a file cannot be read, an .idx or .bin file has no partner, or lines are to be joined.
        """
        if self.unwrap:
            raise ConfigError("source.unwrap", "is true, but token ids have no lines", "set source.unwrap=false")
        stems = {end: {stem_of(name) for name in names if name.endswith(end)} for end in (INDEX, TOKENS)}
        for end, other in ((INDEX, TOKENS), (TOKENS, INDEX)):
            if alone := sorted(stems[end] - stems[other]):
                problem = f"{self.location(alone[0] + end)!r} has no {other} file"
                raise ConfigError("source.paths", problem, f"name both files, {end} and {other}")
        try:
            for name in few_of(self.readable(names)):
                next(self.documents(name), None)
        except ArtifactError as error:
            raise ConfigError("source", f"{error.where} {error.problem}", error.remedy) from None

    def readable(self, names: Sequence[str]) -> list[str]:
        """Returns those of ``names`` that ``documents`` reads: not the .bin files, which belong to their indexes."""
        return [name for name in names if not name.endswith(TOKENS)]

    def documents(self, name: str) -> Iterator[Document]:
        """Yields the records of the file ``name``, an .idx or a Parquet file, in order.

        Raises:
            ArtifactError: when it is damaged, or holds no integers.
        """
        return self._indexed(name) if name.endswith(INDEX) else self._rows(name)

    def _indexed(self, name: str) -> Iterator[Document]:
        with self.open(name) as index, self.open(stem_of(name) + TOKENS) as tokens:
            dtype, lengths, offsets, bounds = _index(index, self.location(name))
            size = tokens.seek(0, 2)
            if ((offsets < 0) | (offsets > size - lengths * dtype.itemsize)).any():  # their sum may not fit int64
                raise _refused(self.location(name), f"names tokens beyond the {size:,} bytes of its {TOKENS} file")
            for number, (first, last) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
                parts = []
                for sequence in range(first, last):
                    tokens.seek(int(offsets[sequence]))
                    parts.append(tokens.read(int(lengths[sequence]) * dtype.itemsize))
                data = b"".join(parts)
                count(records=1, raw_bytes=len(data))
                yield number, np.frombuffer(data, dtype)

    def _rows(self, name: str) -> Iterator[Document]:
        number = 0
        with self.open(name) as stream:
            try:
                table = parquet.ParquetFile(stream)
                for batch in self._batches(table, name):
                    lists = batch.column(0)
                    for row in lists:
                        ids = np.empty(0, np.int64) if not row.is_valid else self._ids(row.values, name, number)
                        count(records=1, raw_bytes=ids.nbytes)
                        yield number, ids
                        number += 1
                if number != table.metadata.num_rows:
                    problem = f"has {number:,} rows, but {table.metadata.num_rows:,} by its metadata"
                    raise _refused(self.location(name), problem)
            except BROKEN as error:
                raise _refused(self.location(name), f"is damaged ({' '.join(str(error).split())[:200]})") from None

    def _batches(self, table: parquet.ParquetFile, name: str) -> Iterator[pyarrow.RecordBatch]:
        kinds = {field.name: field.type for field in table.schema_arrow}
        kind = kinds.get(self.token_field)
        is_list = kind is not None and any(test(kind) for test in LISTS)
        if kind is None or not is_list or not pyarrow.types.is_integer(kind.value_type):
            problem = f"has no lists of integers in {self.token_field!r} (columns: {', '.join(kinds)})"
            raise _refused(self.location(name), problem, "name the column: source.token_field=…")
        yield from table.iter_batches(ROWS_AT_ONCE, columns=[self.token_field])

    def _ids(self, values: pyarrow.Array, name: str, number: int) -> NDArray[Any]:
        if values.null_count:
            raise _refused(self.location(name), f"has a null among the tokens of row {number}")
        return np.asarray(values)


def stem_of(name: str) -> str:
    """Returns the ``name`` of a file without its suffix."""
    return str(PurePosixPath(name).with_suffix(""))


def _index(
    stream: BinaryIO, where: str
) -> tuple["np.dtype[Any]", NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Reads an index: the dtype of the tokens, lengths and offsets of the sequences, and bounds of the documents.

    Raises:
        ArtifactError: when it is damaged, or of another kind.
    """
    data = stream.read()
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + HEADER.size:
        raise _refused(where, "is no index of Megatron-LM (it begins with another mark, or is cut)")
    version, code, sequences, ends = HEADER.unpack_from(data, len(MAGIC))
    if version != VERSION:
        raise _refused(where, f"has version {version}; version {VERSION} is read")
    if code not in DTYPES:
        raise _refused(where, f"has tokens of the type {FLOATS.get(code, f'number {code}')}, no integers")
    start = len(MAGIC) + HEADER.size
    size = start + 12 * sequences + 8 * ends
    if len(data) not in (size, size + sequences):
        raise _refused(where, f"has {len(data):,} bytes, but {size:,} by its header (with modes {size + sequences:,})")
    if any(modes := data[size:]):
        at = next(number for number, mode in enumerate(modes) if mode)
        raise _refused(where, f"has the mode {modes[at]} of sequence {at}: only text, mode 0, has tokens")
    lengths = np.frombuffer(data, "<i4", sequences, start).astype(np.int64)
    offsets = np.frombuffer(data, "<i8", sequences, start + 4 * sequences)
    bounds = np.frombuffer(data, "<i8", ends, start + 12 * sequences)
    if (lengths < 0).any():
        raise _refused(where, f"has a sequence of {lengths.min()} tokens")
    if not len(bounds) or bounds[0] != 0 or bounds[-1] != sequences or (np.diff(bounds) < 0).any():
        raise _refused(where, f"has bounds of documents that are not 0 … {sequences} in order")
    return np.dtype(DTYPES[code]), lengths, offsets, bounds


def _refused(where: str, problem: str, remedy: str = "write the file again") -> ArtifactError:
    return ArtifactError(where, problem, remedy)
