"""Tokens or rows as a folder of files of limited size, in the formats of trainers. All numbers are little-endian.

    batches ──> data/train/00000.bin, .idx │ data/train/00001.bin, .idx │ data/validation/00000.bin, .idx

    megatron   00000.bin                   the tokens of all sequences; uint16, or int32 for larger vocabularies
               00000.idx                   MMIDIDX: lengths and offsets of the sequences; each is a document, too
    nanoset    00000.ds                    the same, uint16 or uint32
               00000.ds.index, .metadata   uint64 ends of the sequences; the tokenizer, bytes of a token, their number
    mds        00000.mds, index.json       offsets of the samples; then each with its columns
    parquet    00000.parquet               input_ids, and of rows span_lengths
    hf         00000.arrow, state.json     the same

Sources: Megatron-LM, megatron/core/datasets/indexed_dataset.py; datatrove, pipeline/tokens/tokenizer.py; Streaming,
base/format/mds/writer.py and encodings.py.

A file ends before the batch that would bring it above ``shard_bytes`` of tokens; a batch has at most so many bytes, or
one sequence.
"""

import abc
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow
from numpy.typing import NDArray

from headrace.data_prep.sources.token_files import DTYPES, HEADER, MAGIC, VERSION
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.papers.table_files import SUFFIX, table_writer, write_splits, write_state
from headrace.pipeline.papers.token_batches import BATCH_BYTES, Batch, SequenceSet

MDS_MOST_BYTES = 2**32 - 1
MDS_ENCODED_BYTES = 0x100, 0x10000
"""Arrays up to these lengths have their length in one byte and in two."""


class TokenFile(abc.ABC):
    """One file of sequences, ``path`` without its suffix. ``close`` makes it whole."""

    def __init__(self, path: Path, sequences: SequenceSet, dtype: "np.dtype[Any]") -> None:
        self.path, self.sequences, self.dtype = path, sequences, dtype
        self.lengths: list[NDArray[np.int64]] = []
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

    def write(self, batch: Batch) -> None:
        self._stream.write(batch.ids.astype(self.stored).tobytes())
        self.lengths.append(batch.lengths)

    def close(self) -> None:
        self._stream.close()
        self.write_index(np.concatenate([np.empty(0, np.int64), *self.lengths]))

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
            code = next(code for code, kind in DTYPES.items() if np.dtype(kind) == self.stored)
            stream.write(MAGIC + HEADER.pack(VERSION, code, len(lengths), len(lengths) + 1))
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


class MdsFile(TokenFile):
    """A shard of MosaicML's Streaming. Its samples wait in a file of their own, because their offsets come first."""

    def open(self) -> None:
        self._body_path = self.named("samples")
        self._body: BinaryIO = self._body_path.open("wb")
        self._sizes: list[int] = []
        name, row_tokens = self.dtype.name, self.sequences.row_tokens
        self.columns = {"input_ids": f"ndarray:{name}" + (f":{row_tokens}" if row_tokens else "")}
        if row_tokens:
            self.columns["span_lengths"] = "ndarray:uint32"
        self.fixed_sizes = [row_tokens * self.dtype.itemsize if row_tokens else None, None][: len(self.columns)]

    def write(self, batch: Batch) -> None:
        for ids, spans in _sequences(batch):
            values = [ids.tobytes() if spans is not None else _mds_array(ids)]
            if spans is not None:
                values.append(_mds_array(spans.astype("<u4")))
            sizes = [len(value) for value, size in zip(values, self.fixed_sizes, strict=True) if size is None]
            sample = np.array(sizes, "<u4").tobytes() + b"".join(values)
            self._body.write(sample)
            self._sizes.append(len(sample))

    def close(self) -> None:
        self._body.close()
        settings = {
            "column_encodings": list(self.columns.values()),
            "column_names": list(self.columns),
            "column_sizes": self.fixed_sizes,
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": None,
            "version": 2,
        }
        header = json.dumps(settings, sort_keys=True).encode()
        count = len(self._sizes)
        offsets = np.cumsum([4 + 4 * (count + 1) + len(header), *self._sizes])
        path = self.named("mds")
        if offsets[-1] > MDS_MOST_BYTES:
            problem = f"{path.name} would have {offsets[-1]:,} bytes, and its offsets have 32 bits"
            raise ConfigError("--shard-size", problem, "give a smaller size")
        with path.open("wb") as stream, self._body_path.open("rb") as body:
            stream.write(struct.pack("<I", count) + offsets.astype("<u4").tobytes() + header)
            shutil.copyfileobj(body, stream)
        self._body_path.unlink()
        raw = {"basename": path.name, "bytes": path.stat().st_size, "hashes": {}}
        self.description = settings | {"raw_data": raw, "samples": count, "zip_data": None}


class TableFile(TokenFile):
    """A table: Parquet, or Arrow as Hugging Face datasets has it."""

    suffix = "parquet"

    def open(self) -> None:
        ids = pyarrow.list_(pyarrow.from_numpy_dtype(self.dtype))
        fields = [("input_ids", ids)]
        if self.sequences.row_tokens:
            fields.append(("span_lengths", pyarrow.list_(pyarrow.int32())))
        self._schema = pyarrow.schema(fields)
        self._writer = table_writer(self.named(self.suffix), self._schema)

    def write(self, batch: Batch) -> None:
        columns = [_lists(batch.lengths, batch.ids)]
        if self.sequences.row_tokens:
            counts = np.array([len(spans) for spans in batch.spans], np.int64)
            columns.append(_lists(counts, np.concatenate(batch.spans).astype(np.int32)))
        self._writer.write_table(pyarrow.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.__exit__(None, None, None)


class ArrowFile(TableFile):
    suffix = "arrow"


FILES: dict[str, type[TokenFile]] = {
    "megatron": MegatronFile,
    "nanoset": NanosetFile,
    "mds": MdsFile,
    "parquet": TableFile,
    "hf": ArrowFile,
}


def _sequences(batch: Batch) -> Iterator[tuple[NDArray[Any], NDArray[np.int64] | None]]:
    """Yields the tokens of each sequence, and of rows the lengths of the spans."""
    ends = np.cumsum(batch.lengths).tolist()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        yield batch.ids[start:end], batch.spans[number] if batch.spans else None


def _mds_array(values: NDArray[Any]) -> bytes:
    """Returns an array of one axis as Streaming stores it: number of axes and type of their lengths, length, values."""
    kind = sum(len(values) >= least for least in MDS_ENCODED_BYTES)
    return bytes([1 << 2 | kind]) + np.array([len(values)], f"<u{1 << kind}").tobytes() + values.tobytes()


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
        form: one of FORMATS.
        sets: the sequences of each split.
        dtype: that of the tokens, uint16 or uint32.
        shard_bytes: the most bytes of tokens of a file, if it has more than one sequence.
        total: all sequences, for the progress.
    """
    counts = {}
    with Progress("export", total, "sequences") as progress:
        for sequences in sets:
            part = (folder if form == "hf" else folder / "data") / sequences.split
            part.mkdir(parents=True)
            counts[sequences.split] = _write(part, form, sequences, dtype, shard_bytes, progress)
    if form == "hf":
        write_splits(folder, counts)
    return counts


def _write(
    part: Path, form: str, sequences: SequenceSet, dtype: "np.dtype[Any]", shard_bytes: int, progress: Progress
) -> tuple[int, int]:
    """Writes one split; returns the numbers of its sequences and tokens."""
    files: list[TokenFile] = []
    count = tokens = file_bytes = 0
    for batch in sequences.batches(min(BATCH_BYTES, shard_bytes)):
        if not files or file_bytes + batch.ids.nbytes > shard_bytes:
            _next_file(files, FILES[form], part, sequences, dtype)
            file_bytes = 0
        files[-1].write(batch)
        file_bytes += batch.ids.nbytes
        count, tokens = count + len(batch.lengths), tokens + len(batch.ids)
        progress.advance(len(batch.lengths))
    if not files:
        _next_file(files, FILES[form], part, sequences, dtype)
    files[-1].close()
    _finish(part, form, files)
    return count, tokens


def _next_file(
    files: list[TokenFile], kind: type[TokenFile], part: Path, sequences: SequenceSet, dtype: "np.dtype[Any]"
) -> None:
    if files:
        files[-1].close()
        files[-1].lengths.clear()
    files.append(kind(part / f"{len(files):05d}", sequences, dtype))


def _finish(part: Path, form: str, files: list[TokenFile]) -> None:
    """Writes what a split has besides its files."""
    if form == "hf":
        write_state(part, [file.named(SUFFIX).name for file in files], part.name)
    shards = [file.description for file in files if isinstance(file, MdsFile)]
    if shards:
        write_json(part / "index.json", {"version": 2, "shards": shards})
