"""Token ids in files become the tokens of a run: those of the run that they came from, and of files made by hand."""

import itertools
import struct
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from headrace.data_prep.sources.token_files import TokenFiles
from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build

CODES = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "f8": 6, "f4": 7, "u2": 8}
"""The numbers of dtypes in Megatron-LM's indexes."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("plain"), "none")


def write_megatron(
    stem: Path, documents: list[list[list[int]]], dtype: str = "u2", modes: bytes = b"", code: int = 0
) -> None:
    """Writes documents of sequences as Megatron-LM's IndexedDatasetBuilder does."""
    sequences = [np.array(sequence, f"<{dtype}") for document in documents for sequence in document]
    stem.with_suffix(".bin").write_bytes(b"".join(sequence.tobytes() for sequence in sequences))
    lengths = [len(sequence) for sequence in sequences]
    size = np.dtype(dtype).itemsize
    offsets = [0, *itertools.accumulate(length * size for length in lengths)][: len(lengths)]
    bounds = [0, *itertools.accumulate(map(len, documents))]
    stem.with_suffix(".idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code or CODES[dtype], len(lengths), len(bounds))
        + np.array(lengths, "<i4").tobytes() + np.array(offsets, "<i8").tobytes() + np.array(bounds, "<i8").tobytes()
        + modes
    )  # fmt: skip


def read(folder: Path, name: str, **settings: object) -> list[tuple[int, list[int]]]:
    source = TokenFiles(paths=(str(folder),), **settings)
    return [(number, ids.tolist()) for number, ids in source.documents(name)]


def run(folder: Path, corpus: Corpus, *settings: str) -> Artifact:
    tokenizer = corpus.artifact("tokenizer").path("tokenizer.json")
    result = headrace_here(
        "run", "source=token_files", f"source.paths=[{folder}]", "tokenizer=file", f"tokenizer.path={tokenizer}",
        f"root={folder.parent}/imported", "until=packed", "packing.row_tokens=128", "tracking=file",
        "packing.validation_fraction=0.4", *settings,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (tokens,) = (folder.parent / "imported/tokens").iterdir()
    return Artifact(tokens)


def stored(tokens: Artifact) -> list[tuple[list[int], int]]:
    """The ids of each document and the bytes of its text, sorted."""
    found = []
    for shard, bounds, sizes in zip(*map(tokens.shards, ("tokens", "bounds", "text_bytes")), strict=True):
        documents = np.split(np.fromfile(shard, "<u2"), np.load(bounds)[1:])[:-1]
        found += [(ids.tolist()[1:], int(size)) for ids, size in zip(documents, np.load(sizes), strict=True)]
    return sorted(found)


@pytest.mark.parametrize("form", ["megatron", "parquet"])
def test_an_export_gives_the_same_documents_again(corpus: Corpus, tmp_path: Path, form: str) -> None:
    """Those that are held out come from a folder of their own, so their order is another one."""
    to = tmp_path / "out"
    result = headrace_here("export", "tokens", "--format", form, "--to", str(to), *corpus.overrides)
    assert result.returncode == 0, result.stderr
    tokens, original = run(to / "data", corpus), corpus.artifact("tokens")
    assert stored(tokens) == stored(original)
    end = Encoder.load(corpus.artifact("tokenizer").path("tokenizer.json")).end_of_text
    for shard, bounds in zip(tokens.shards("tokens"), tokens.shards("bounds"), strict=True):
        assert np.load(bounds).tolist() == np.flatnonzero(np.fromfile(shard, "<u2") == end).tolist()
    assert tokens.counts["documents"] == tokens.counts["read_ends"] == original.counts["documents"]
    assert tokens.counts["empty_records"] == 0


def test_ends_of_text_separate_documents_and_the_rest_is_kept(corpus: Corpus, tmp_path: Path) -> None:
    end = Encoder.load(corpus.artifact("tokenizer").path("tokenizer.json")).end_of_text
    files = tmp_path / "files"
    files.mkdir()
    records = [[[5, 6], [7, end]], [[end, 8, end, end, 9]], [[end]], [], [[10]]]
    write_megatron(files / "a", records, "i4")
    others = [[40 + number] * (number + 1) for number in range(30)]
    parquet.write_table(pyarrow.table({"input_ids": pyarrow.array([*others, None])}), files / "b.parquet")
    tokens = run(files, corpus)
    assert np.fromfile(tokens.path("tokens/00000.bin"), "<u2").tolist() == [
        *(end, 5, 6, 7), *(end, 8), *(end, 9), *(end, 10), end
    ]  # fmt: skip
    assert np.fromfile(tokens.path("tokens/00001.bin"), "<u2").tolist() == [
        end, *(token for document in others for token in [*document, end])
    ]  # fmt: skip
    keys = np.load(tokens.path("keys/00000.npy"))
    assert keys[1] == keys[2] != keys[0], "documents of one record are in one split"
    counts = {name: tokens.counts[name] for name in ("records", "empty_records", "documents", "read_ends")}
    assert counts == {"records": 36, "empty_records": 3, "documents": 34, "read_ends": 5}
    why = headrace_here("why", "a.idx:0", f"root={tmp_path}/imported")
    problem = "source: has token ids, and texts are needed here; give a run that begins with texts"
    assert (why.returncode, why.stderr) == (2, f"headrace: {problem}\n")


def test_lines_of_token_ids_are_not_joined(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.unwrap: is true, but token ids have no lines"):
        TokenFiles(paths=(str(tmp_path),), unwrap=True).check([])


def test_an_id_beyond_the_vocabulary_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    write_megatron(tmp_path / "files/a", [[[1, 2]], [[3, 60_000]]])
    tokenizer = corpus.artifact("tokenizer").path("tokenizer.json")
    settings = ["source=token_files", f"source.paths=[{tmp_path}/files]", "tokenizer=file", f"root={tmp_path}/runs"]
    result = headrace_here("run", *settings, f"tokenizer.path={tokenizer}", "until=tokens", "tracking=file")
    assert result.returncode != 0
    assert "a.idx: has the token 60000 in record 1, but the vocabulary has 300" in " ".join(result.stderr.split())


def test_a_tokenizer_has_to_be_given(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1]]])
    settings = ("source=token_files", f"source.paths=[{tmp_path}]", f"root={tmp_path}/runs", "tracking=file")
    result = headrace_here("run", *settings, "tokenizer=train")
    assert result.stderr.startswith("headrace: tokenizer: tokenizer=train is made here, but source=token_files has ids")
    planted = headrace_here("run", *settings, "tokenizer=file", f"tokenizer.path={tmp_path}/t", "canaries.copies=[3]")
    assert planted.stderr.startswith("headrace: canaries.copies: is [3], but token ids have no texts; set")


@pytest.mark.parametrize("modes", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u2", "i4", "i8"])
def test_every_dtype_of_megatron(tmp_path: Path, dtype: str, modes: bool) -> None:
    largest = np.iinfo(dtype).max
    documents = [[[1, largest], [0]], [[]], [[2, 3, 4]]]
    write_megatron(tmp_path / "a", documents, dtype, bytes(4 if modes else 0))
    assert read(tmp_path, "a.idx") == [(0, [1, largest, 0]), (1, []), (2, [2, 3, 4])]


def test_megatron_writes_what_is_read(tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    torch = pytest.importorskip("torch")
    builder = indexed.IndexedDatasetBuilder(str(tmp_path / "a.bin"), dtype=np.int32)
    for document in ([1, 2, 3], [4], [70_000, 5]):
        builder.add_item(torch.tensor(document))
        builder.end_document()
    builder.finalize(str(tmp_path / "a.idx"))
    assert read(tmp_path, "a.idx") == [(0, [1, 2, 3]), (1, [4]), (2, [70_000, 5])]


@pytest.mark.parametrize("kind", [pyarrow.uint8(), pyarrow.uint16(), pyarrow.int32(), pyarrow.int64()])
def test_lists_of_parquet(tmp_path: Path, kind: pyarrow.DataType) -> None:
    rows = [[1, 2], [], None, [100]]
    for lists in (pyarrow.list_(kind), pyarrow.large_list(kind)):
        parquet.write_table(pyarrow.table({"ids": pyarrow.array(rows, lists), "x": range(4)}), tmp_path / "a.parquet")
        expected = [(number, row or []) for number, row in enumerate(rows)]
        assert read(tmp_path, "a.parquet", token_field="ids") == expected
    fixed = pyarrow.array([[1, 2], None, [3, 4]], pyarrow.list_(kind, 2))
    parquet.write_table(pyarrow.table({"input_ids": fixed}), tmp_path / "a.parquet")
    assert read(tmp_path, "a.parquet") == [(0, [1, 2]), (1, []), (2, [3, 4])]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: b"", "is no index of Megatron-LM"),
        (lambda data: data[:30], "is no index of Megatron-LM"),
        (lambda data: b"MMIDIDY" + data[7:], "is no index of Megatron-LM"),
        (lambda data: data[:9] + b"\2" + data[10:], "has version 2; version 1 is read"),
        (lambda data: data[:17] + b"\6" + data[18:], "has tokens of the type float64, no integers"),
        (lambda data: data[:17] + b"\7" + data[18:], "has tokens of the type float32, no integers"),
        (lambda data: data[:17] + b"\x63" + data[18:], "has tokens of the type number 99, no integers"),
        (lambda data: data[:-1], "has 81 bytes, but 82 by its header"),
        (lambda data: data[:18] + b"\xff" * 8 + data[26:], "bytes, but"),
        (lambda data: data + b"\0\1", "has the mode 1 of sequence 1"),
        (lambda data: data[:34] + b"\xff\xff\xff\xff" + data[38:], "has a sequence of -1 tokens"),
        (lambda data: data[:34] + b"\xff\0\0\0" + data[38:], "names tokens beyond the 8 bytes of its .bin file"),
        (lambda data: data[:42] + b"\xff" * 8 + data[50:], "names tokens beyond the 8 bytes"),
        (lambda data: data[:42] + b"\xff" * 7 + b"\x7f" + data[50:], "names tokens beyond the 8 bytes"),
        (lambda data: data[:-8] + b"\7" + b"\0" * 7, "has bounds of documents that are not 0 … 2 in order"),
        (lambda data: data[:58] + b"\1" + data[59:], "has bounds of documents"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, change, problem: str) -> None:
    write_megatron(tmp_path / "a", [[[1, 2]], [[3, 4]]])
    whole = (tmp_path / "a.idx").read_bytes()
    (tmp_path / "a.idx").write_bytes(change(whole))
    with pytest.raises(ArtifactError, match=problem):
        read(tmp_path, "a.idx")
    with pytest.raises(ConfigError, match=problem):
        TokenFiles(paths=(str(tmp_path),)).check(["a.bin", "a.idx"])


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pyarrow.array([[1.5]]), "has no lists of integers in 'input_ids'"),
        (pyarrow.array([1]), "has no lists of integers"),
        (pyarrow.array([[1, None]]), "has a null among the tokens of row 0"),
    ],
)
def test_a_wrong_column_is_refused(tmp_path: Path, column: pyarrow.Array, problem: str) -> None:
    parquet.write_table(pyarrow.table({"input_ids": column}), tmp_path / "a.parquet")
    with pytest.raises(ArtifactError, match=problem):
        read(tmp_path, "a.parquet")
    with pytest.raises(ArtifactError, match=r"has no lists of integers in 'ids' \(columns: input_ids\)"):
        read(tmp_path, "a.parquet", token_field="ids")


def test_a_table_with_fewer_rows_than_its_metadata_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"input_ids": [[1], [2], [3]]}), path, row_group_size=1)
    data = path.read_bytes()
    rows = b"\x16\x06\x19"  # 3 as a zigzag number, before the list of row groups
    assert data.count(rows) == 1
    path.write_bytes(data.replace(rows, b"\x16\x08\x19"))
    assert parquet.read_metadata(path).num_rows == 4
    with pytest.raises(ArtifactError, match=r"a\.parquet: has 3 rows, but 4 by its metadata; write the file again"):
        read(tmp_path, "a.parquet")


def test_every_damage_is_refused_or_survived(tmp_path: Path) -> None:
    """No wrong byte, and no cut, gives anything but an error of ours, or ids."""
    write_megatron(tmp_path / "a", [[[1, 2], [3]], [[4, 5, 6]]])
    parquet.write_table(pyarrow.table({"input_ids": [[1, 2], [3]]}), tmp_path / "b.parquet")
    refused = 0
    for name in ("a.idx", "b.parquet"):
        whole = (tmp_path / name).read_bytes()
        changed = [whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :] for place in range(len(whole))]
        for data in [*changed, *(whole[:size] for size in range(0, len(whole), 3))]:
            (tmp_path / name).write_bytes(data)
            try:
                read(tmp_path, name)
            except ArtifactError:
                refused += 1
    assert refused > 100


def test_a_file_without_its_partner_is_refused(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1]]])
    for gone, other in (("a.bin", ".bin"), ("a.idx", ".idx")):
        names = [name for name in ("a.bin", "a.idx") if name != gone]
        with pytest.raises(ConfigError, match=f"has no {other} file; name both files"):
            TokenFiles(paths=(str(tmp_path),)).check(names)
