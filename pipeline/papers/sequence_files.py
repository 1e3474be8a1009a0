"""Tokens of an artifact as sequences, in files of limited size and in the formats of trainers.

    tokens    a sequence is a document and the end of text after it:      t t t E    of each split, in their order
    packed    a sequence is a row: the inputs of its spans, then padding  E t t t E t t E E    in the order of the rows

The first E of a shard of tokens, which no document comes before, is left out. The rows of ``packed`` are those of the
artifact, in its order; a training shuffles them (``headrace why STEP --as step``). Padding is E. ``span_lengths`` of a
row are the positions of its spans; what their sum leaves of the row is padding.

    batches ──> data/train/00000.bin, .idx │ data/train/00001.bin, .idx │ data/validation/00000.bin, .idx

    megatron   00000.bin                   the tokens of all sequences; uint16, or int32 for larger vocabularies
               00000.idx                   MMIDIDX: lengths and offsets of the sequences; each is a document, too
    nanoset    00000.ds                    the same, uint16 or uint32
               00000.ds.index, .metadata   uint64 ends of the sequences; the tokenizer, bytes of a token, their number
    parquet    00000.parquet               input_ids, and of rows span_lengths

All numbers are little-endian. Sources: Megatron-LM, megatron/core/datasets/indexed_dataset.py; datatrove,
pipeline/tokens/tokenizer.py. A file ends before the batch that would bring it above ``shard_bytes`` of tokens; a batch
has at most so many bytes, or one sequence.
"""

import abc
import dataclasses
import functools
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from headrace.data_prep.packed import SPLITS, held_out
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.papers.table_files import parquet_writer

MAGIC, VERSION, CODES = b"MMIDIDX\x00\x00", 1, {"<u2": 8, "<i4": 4}
"""The beginning of an index of Megatron-LM, its version, and the codes of dtypes."""
HEADER = struct.Struct("<QBQQ")
"""The version, the code, the number of sequences, and that of documents + 1."""
BATCH_BYTES = 16_000_000
"""Bytes of the tokens of a batch, if it has more than one sequence."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Consecutive sequences."""

    ids: NDArray[Any]
    """The tokens of all sequences, one after the other: (tokens,), uint16 or uint32."""
    lengths: NDArray[np.int64]
    """The tokens of each sequence: (sequences,)."""
    spans: tuple[NDArray[np.int64], ...] = ()
    """The lengths of the spans of each row; empty for documents."""


@dataclasses.dataclass(frozen=True)
class SequenceSet:
    """The sequences of one split."""

    split: str
    row_tokens: int | None
    """The tokens of each sequence; None if they differ."""
    batches: Callable[[int], Iterator[Batch]]
    """Gives all sequences in batches of at most so many bytes of tokens, or of one sequence."""


def sequence_sets(
    inputs: Mapping[str, Artifact], stage: str, end_of_text: int, validation_fraction: float
) -> list[SequenceSet]:
    """Returns the sequences of ``stage``, ``tokens`` or ``packed``, for each split.

    Documents of ``tokens`` are held out as rows of them with this ``validation_fraction`` are (packed.py).
    """
    shards, sets = TokenShards(inputs["tokens"]), []
    for split in SPLITS:
        if stage == "tokens":
            read = functools.partial(document_batches, inputs["tokens"], shards, split, validation_fraction)
            sets.append(SequenceSet(split, None, read))
        else:
            rows = PackedRows(inputs["packed"], split)
            sets.append(SequenceSet(split, rows.row_tokens, functools.partial(row_batches, shards, rows, end_of_text)))
    return sets


def document_batches(
    tokens: Artifact, shards: TokenShards, split: str, validation_fraction: float, most_bytes: int
) -> Iterator[Batch]:
    """Yields the documents of ``split`` in ``tokens``, each with the end of text after it."""
    for shard in range(len(shards)):
        is_held_out = held_out(np.load(tokens.shard("keys", shard, "npy")), validation_fraction)
        is_chosen = is_held_out == (split == "validation")
        bounds = shards.bounds(shard).astype(np.int64)
        item_bytes = shards.slice(shard, 0, 1).dtype.itemsize
        first = 0
        while first < len(bounds) - 1:
            limit = bounds[first] + most_bytes // item_bytes
            last = max(first + 1, int(np.searchsorted(bounds, limit, side="right")) - 1)
            ids = shards.slice(shard, int(bounds[first]) + 1, int(bounds[last]) + 1)
            lengths, chosen = np.diff(bounds[first : last + 1]), is_chosen[first:last]
            if chosen.any():
                yield Batch(ids[np.repeat(chosen, lengths)], lengths[chosen])
            first = last


def row_batches(shards: TokenShards, rows: PackedRows, end_of_text: int, most_bytes: int) -> Iterator[Batch]:
    """Yields ``rows``, padded with ``end_of_text``."""
    dtype = shards.slice(0, 0, 1).dtype
    at_once = max(1, most_bytes // (rows.row_tokens * dtype.itemsize))
    for first in range(0, len(rows), at_once):
        numbers = range(first, min(first + at_once, len(rows)))
        ids = np.full((len(numbers), rows.row_tokens), end_of_text, dtype)
        spans = []
        for row, number in zip(ids, numbers, strict=True):
            position, of_row = 0, rows.spans(number)
            for shard, start, length in of_row.tolist():
                row[position : position + length] = shards.slice(shard, start, start + length)
                position += length
            spans.append(of_row["length"].astype(np.int64))
        yield Batch(ids.reshape(-1), np.full(len(numbers), rows.row_tokens, np.int64), tuple(spans))


class TokenFile(abc.ABC):
    """One new file of sequences, ``path`` without its suffix. ``close`` makes it whole."""

    def __init__(self, path: Path, row_tokens: int | None, dtype: "np.dtype[Any]") -> None:
        self.path, self.has_spans, self.dtype = path, row_tokens is not None, dtype
        self.open()

    @abc.abstractmethod
    def open(self) -> None:
        """Creates the file."""

    @abc.abstractmethod
    def write(self, batch: Batch) -> None:
        """Appends the sequences of ``batch``."""

    @abc.abstractmethod
    def close(self) -> None:
        """Writes what belongs to the end."""

    def named(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{suffix}")


class _FlatFile(TokenFile):
    """All tokens one after the other, with an index."""

    suffix: str

    def open(self) -> None:
        self._stream = self.named(self.suffix).open("wb")
        self._lengths = [np.empty(0, np.int64)]

    def write(self, batch: Batch) -> None:
        self._stream.write(batch.ids.astype(self.stored).tobytes())
        self._lengths.append(batch.lengths)

    def close(self) -> None:
        self._stream.close()
        self.write_index(np.concatenate(self._lengths))

    @property
    def stored(self) -> "np.dtype[Any]":
        """The dtype of the tokens in the file."""
        return self.dtype

    @abc.abstractmethod
    def write_index(self, lengths: NDArray[np.int64]) -> None:
        """Writes the index of sequences of these lengths."""


class MegatronFile(_FlatFile):
    """Megatron-LM's IndexedDataset."""

    suffix = "bin"

    @property
    def stored(self) -> "np.dtype[Any]":
        return np.dtype("<i4") if self.dtype.itemsize == 4 else self.dtype

    def write_index(self, lengths: NDArray[np.int64]) -> None:
        ends = np.cumsum(lengths) * self.stored.itemsize
        offsets = np.concatenate([np.zeros(1, np.int64), ends])[: len(lengths)]
        with self.named("idx").open("wb") as stream:
            stream.write(MAGIC + HEADER.pack(VERSION, CODES[self.stored.str], len(lengths), len(lengths) + 1))
            stream.write(lengths.astype("<i4").tobytes())
            stream.write(offsets.astype("<i8").tobytes())
            stream.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())


class NanosetFile(_FlatFile):
    """datatrove's file of tokens, which nanotron reads as Nanoset."""

    suffix = "ds"

    def write_index(self, lengths: NDArray[np.int64]) -> None:
        self.named("ds.index").write_bytes(np.cumsum(lengths).astype("<u8").tobytes())
        tokens = int(lengths.sum())
        lines = (f"tokenizer.json|{self.dtype.itemsize}", f"{tokens}", f"{tokens / 1e12:.6f} T")
        self.named("ds.metadata").write_text("\n".join(lines), encoding="utf-8")


class TableFile(TokenFile):
    """A table of Parquet."""

    def open(self) -> None:
        fields = [("input_ids", pyarrow.list_(pyarrow.from_numpy_dtype(self.dtype)))]
        if self.has_spans:
            fields.append(("span_lengths", pyarrow.list_(pyarrow.int32())))
        self._schema = pyarrow.schema(fields)
        self._writer = parquet_writer(self.named("parquet"), self._schema)

    def write(self, batch: Batch) -> None:
        columns = [_lists(batch.lengths, batch.ids)]
        if self.has_spans:
            counts = np.array([len(spans) for spans in batch.spans], np.int64)
            columns.append(_lists(counts, np.concatenate(batch.spans).astype(np.int32)))
        self._writer.write_table(pyarrow.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


FILES: dict[str, type[TokenFile]] = {"megatron": MegatronFile, "nanoset": NanosetFile, "parquet": TableFile}


def _lists(lengths: NDArray[np.int64], values: NDArray[Any]) -> pyarrow.Array:
    """Returns ``values`` as lists of these lengths."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
    return pyarrow.ListArray.from_arrays(offsets, pyarrow.array(values))


def write_tokens(
    folder: Path, form: str, sets: list[SequenceSet], dtype: "np.dtype[Any]", shard_bytes: int, total: int
) -> dict[str, tuple[int, int]]:
    """Writes ``sets`` to files below ``folder``; returns the numbers of sequences and of tokens of each split.

    Args:
        folder: the folder of the export.
        form: a key of FILES.
        sets: the sequences of each split.
        dtype: that of the tokens, uint16 or uint32.
        shard_bytes: the most bytes of tokens of a file, if it has more than one sequence.
        total: all sequences, for the progress.
    """
    counts = {}
    with Progress("export", total, "sequences") as progress:
        for sequences in sets:
            part, file, number = folder / "data" / sequences.split, None, 0
            part.mkdir(parents=True)
            count = tokens = file_bytes = 0
            for batch in sequences.batches(min(BATCH_BYTES, shard_bytes)):
                if file is not None and file_bytes + batch.ids.nbytes > shard_bytes:
                    file.close()
                    file, number, file_bytes = None, number + 1, 0
                file = file or FILES[form](part / f"{number:05d}", sequences.row_tokens, dtype)
                file.write(batch)
                file_bytes += batch.ids.nbytes
                count, tokens = count + len(batch.lengths), tokens + len(batch.ids)
                progress.advance(len(batch.lengths))
            (file or FILES[form](part / "00000", sequences.row_tokens, dtype)).close()
            counts[sequences.split] = count, tokens
    return counts
