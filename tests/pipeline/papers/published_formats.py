"""Readers of the formats of trainers, written from the definitions that their projects publish."""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow
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


def mds(part: Path, column: str = "input_ids") -> Iterator[list[int]]:
    index = json.loads((part / "index.json").read_text())
    assert index["version"] == 2
    for shard in index["shards"]:
        data = (part / shard["raw_data"]["basename"]).read_bytes()
        (samples,) = struct.unpack_from("<I", data)
        assert (len(data), samples) == (shard["raw_data"]["bytes"], shard["samples"])
        offsets = struct.unpack_from(f"<{samples + 1}I", data, 4)
        header = json.loads(data[8 + 4 * samples : offsets[0]])
        assert header == {key: shard[key] for key in header}
        for start, end in itertools.pairwise(offsets):
            yield _mds_sample(data[start:end], shard)[column]
        assert offsets[-1] == len(data)


def _mds_sample(data: bytes, shard: dict) -> dict[str, list[int]]:
    """The columns of a sample: sizes of those without a fixed size, then the values."""
    free = shard["column_sizes"].count(None)
    sizes = iter(struct.unpack_from(f"<{free}I", data))
    position, values = 4 * free, {}
    for name, encoding, fixed in zip(
        shard["column_names"], shard["column_encodings"], shard["column_sizes"], strict=True
    ):
        size = next(sizes) if fixed is None else fixed
        values[name] = _mds_array(data[position : position + size], *encoding.split(":")[1:])
        position += size
    assert position == len(data)
    return values


def _mds_array(data: bytes, dtype: str, shape: str = "") -> list[int]:
    start = 0
    if not shape:
        axes, width = data[0] >> 2, 1 << (data[0] & 3)
        assert axes == 1
        shape, start = str(int.from_bytes(data[1 : 1 + width], "little")), 1 + width
    values = np.frombuffer(data, np.dtype(dtype), offset=start).tolist()
    assert len(values) == int(shape)
    return values


def parquet_lists(part: Path, column: str = "input_ids") -> Iterator[list[int]]:
    for file in sorted(part.glob("*.parquet")):
        yield from parquet.read_table(file)[column].to_pylist()


def arrow_rows(part: Path) -> Iterator[dict]:
    """The rows of a dataset on disk, by its state.json."""
    state = json.loads((part / "state.json").read_text())
    assert json.loads((part / "dataset_info.json").read_text()).get("features") is None
    for file in state["_data_files"]:
        with pyarrow.ipc.open_stream(part / file["filename"]) as stream:
            yield from stream.read_all().to_pylist()


def hf_lists(part: Path, column: str = "input_ids") -> Iterator[list[int]]:
    return (row[column] for row in arrow_rows(part))


READERS = {"megatron": megatron, "nanoset": nanoset, "mds": mds, "parquet": parquet_lists, "hf": hf_lists}
