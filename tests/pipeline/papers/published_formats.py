"""Readers of the formats of trainers, written from the definitions that their projects publish."""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pyarrow import parquet

DTYPES = {1: "u1", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "f8", 7: "f4", 8: "u2"}
"""The dtypes of Megatron-LM's indexes by their numbers."""


def megatron(part: Path) -> Iterator[list[int]]:
    for index in sorted(part.glob("*.idx")):
        data = index.read_bytes()
        assert data[:9] == b"MMIDIDX\0\0"
        version, dtype, sequences, documents = struct.unpack_from("<QBQQ", data, 9)
        assert version == 1
        lengths = struct.unpack_from(f"<{sequences}i", data, 34)
        offsets = struct.unpack_from(f"<{sequences}q", data, 34 + 4 * sequences)
        ends = struct.unpack_from(f"<{documents}q", data, 34 + 12 * sequences)
        assert len(data) == 34 + 12 * sequences + 8 * documents
        assert list(ends) == list(range(sequences + 1)), "each sequence is a document"
        tokens = index.with_suffix(".bin").read_bytes()
        size = np.dtype(DTYPES[dtype]).itemsize
        assert sum(lengths) * size == len(tokens)
        for length, offset in zip(lengths, offsets, strict=True):
            yield np.frombuffer(tokens, f"<{DTYPES[dtype]}", length, offset).tolist()


def nanoset(part: Path) -> Iterator[list[int]]:
    for file in sorted(part.glob("*.ds")):
        ends = np.fromfile(f"{file}.index", "<u8").astype(int).tolist()
        name, tokens, _ = Path(f"{file}.metadata").read_text().split("\n")
        size = int(name.rpartition("|")[2])
        ids = np.fromfile(file, f"<u{size}").tolist()
        assert len(ids) == int(tokens) == (ends[-1] if ends else 0)
        for start, end in zip([0, *ends], ends, strict=False):
            yield ids[start:end]


def parquet_lists(part: Path, column: str = "input_ids") -> Iterator[list[int]]:
    for file in sorted(part.glob("*.parquet")):
        yield from parquet.read_table(file)[column].to_pylist()


READERS = {"megatron": megatron, "nanoset": nanoset, "parquet": parquet_lists}
