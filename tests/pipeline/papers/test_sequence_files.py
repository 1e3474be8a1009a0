"""Tokens and rows in the formats of trainers: read by the definition of each, and by its own library where it is."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.papers import sequence_files
from headrace.pipeline.papers.sequence_files import FILES, write_tokens
from headrace.pipeline.papers.token_batches import Batch, SequenceSet, sequence_sets
from tests.command_line import headrace_here
from tests.pipeline.papers.published_formats import READERS, hf_lists, mds, parquet_lists
from tests.small_runs import Corpus, build

ROW = 128


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("plain"), "none")


def export(corpus: Corpus, stage: str, form: str, to: Path, *more: str) -> str:
    result = headrace_here("export", stage, "--format", form, "--to", str(to), *more, *corpus.overrides)
    assert result.returncode == 0, result.stderr
    return result.stdout


def end_of_text(corpus: Corpus) -> int:
    return Encoder.load(corpus.artifact("tokenizer").path("tokenizer.json")).end_of_text


def stored_documents(corpus: Corpus, split: str = "train") -> list[list[int]]:
    """The documents of ``split`` in ``tokens``, cut at every end of text: bounds are not read."""
    end, documents = end_of_text(corpus), []
    folder = corpus.artifact("tokens").folder
    for file in sorted((folder / "tokens").glob("*.bin")):
        ids = np.fromfile(file, "<u2").tolist()
        assert ids[0] == ids[-1] == end
        ends = [position for position, token in enumerate(ids) if token == end]
        keys = np.load(folder / "keys" / f"{file.stem}.npy").tolist()
        of_split = [(key < 0.4 * 2**64) == (split == "validation") for key in keys]
        cut = (ids[start + 1 : stop + 1] for start, stop in itertools.pairwise(ends))
        documents += itertools.compress(cut, of_split)
    return documents


def stored_rows(corpus: Corpus, split: str) -> list[tuple[list[int], list[int]]]:
    """The rows of ``packed`` with the lengths of their spans, from its files."""
    tokens, packed = corpus.artifact("tokens").folder, corpus.artifact("packed").folder
    rows = []
    for file in sorted((packed / "rows").glob(f"{split}-*.npy")):
        bounds, spans = np.load(file).tolist(), np.load(packed / "spans" / file.name).tolist()
        for first, last in itertools.pairwise(bounds):
            ids: list[int] = []
            for shard, start, length in spans[first:last]:
                ids += np.fromfile(tokens / "tokens" / f"{shard:05d}.bin", "<u2").tolist()[start : start + length]
            ids += [end_of_text(corpus)] * (ROW - len(ids))
            rows.append((ids, [length for _, _, length in spans[first:last]]))
    return rows


@pytest.mark.parametrize("size", ["700", ""])
@pytest.mark.parametrize("form", FILES)
def test_each_format_holds_the_documents_in_their_order(corpus: Corpus, tmp_path: Path, form: str, size: str) -> None:
    printed = export(corpus, "tokens", form, tmp_path / "out", *(["--shard-size", size] if size else []))
    part = tmp_path / "out" / ("train" if form == "hf" else "data/train")
    documents, held_out = stored_documents(corpus), stored_documents(corpus, "validation")
    assert list(READERS[form](part)) == documents
    assert list(READERS[form](part.with_name("validation"))) == held_out != []
    numbers = f"{len(documents) + len(held_out)} (train: {len(documents)}, validation: {len(held_out)})"
    assert f"{'sequences':<18}{numbers}\n" in printed
    assert "`validation` has the documents that the run holds out" in (tmp_path / "out/README.md").read_text()
    shards = [file for file in part.iterdir() if file.suffix in (".bin", ".ds", ".mds", ".parquet", ".arrow")]
    assert len(shards) > 3 if size else len(shards) == 1
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (
        corpus.artifact("tokenizer").path("tokenizer.json").read_bytes()
    )


@pytest.mark.parametrize("form", FILES)
def test_each_format_holds_the_rows_of_both_splits(corpus: Corpus, tmp_path: Path, form: str) -> None:
    export(corpus, "packed", form, tmp_path / "out", "--shard-size", "1kB")
    for split in ("train", "validation"):
        part = tmp_path / "out" / (split if form == "hf" else f"data/{split}")
        rows = stored_rows(corpus, split)
        assert rows
        assert list(READERS[form](part)) == [ids for ids, _ in rows]
        if form in ("hf", "parquet", "mds"):
            reader = {"hf": hf_lists, "parquet": parquet_lists, "mds": mds}[form]
            assert list(reader(part, "span_lengths")) == [lengths for _, lengths in rows]


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_both_dtypes_up_to_their_largest_ids(tmp_path: Path, form: str, dtype: str) -> None:
    largest = 65_535 if dtype == "<u2" else 2**31 - 1
    lengths = np.array([1, 255, 256, 70_000])
    ids = np.random.default_rng(1).integers(0, largest, lengths.sum(), endpoint=True).astype(dtype)
    ids[:3] = largest
    sequences = SequenceSet("train", None, lambda _: iter([Batch(ids, lengths)]))
    write_tokens(tmp_path, form, [sequences], np.dtype(dtype), 10**9, 4)
    part = tmp_path / ("train" if form == "hf" else "data/train")
    assert list(READERS[form](part)) == [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def test_a_file_of_mds_beyond_its_offsets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and shapes of samples count, which ``shard_bytes`` of tokens does not."""
    ids, lengths = np.ones(50, "<u2"), np.ones(50, np.int64)
    sequences = SequenceSet("train", None, lambda _: iter([Batch(ids, lengths)]))
    write_tokens(tmp_path / "whole", "mds", [sequences], ids.dtype, 1000, 50)
    size = (tmp_path / "whole/data/train/00000.mds").stat().st_size
    monkeypatch.setattr(sequence_files, "MDS_MOST_BYTES", size)
    write_tokens(tmp_path / "fits", "mds", [sequences], ids.dtype, 1000, 50)
    monkeypatch.setattr(sequence_files, "MDS_MOST_BYTES", size - 1)
    with pytest.raises(
        ConfigError, match=rf"--shard-size: 00000\.mds would have {size:,} bytes, and its offsets have 32"
    ):
        write_tokens(tmp_path / "large", "mds", [sequences], ids.dtype, 1000, 50)


@pytest.mark.parametrize("form", FILES)
def test_a_split_without_sequences_is_a_file_without_sequences(tmp_path: Path, form: str) -> None:
    sequences = SequenceSet("validation", ROW, lambda _: iter(()))
    assert write_tokens(tmp_path, form, [sequences], np.dtype("<u2"), 1000, 0) == {"validation": (0, 0)}
    part = tmp_path / ("validation" if form == "hf" else "data/validation")
    assert list(READERS[form](part)) == []


def test_megatron_opens_it(corpus: Corpus, tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    export(corpus, "tokens", "megatron", tmp_path / "out")
    dataset = indexed.IndexedDataset(str(tmp_path / "out/data/train/00000"))
    assert [dataset[number].tolist() for number in range(len(dataset))] == stored_documents(corpus)
    assert dataset.document_indices.tolist() == list(range(len(dataset) + 1))
    assert dataset.index.dtype == np.uint16


def test_datatrove_opens_it_as_nanotron_does(corpus: Corpus, tmp_path: Path) -> None:
    reader = pytest.importorskip("datatrove.utils.dataset")
    export(corpus, "packed", "nanoset", tmp_path / "out")
    dataset = reader.DatatroveFileDataset(str(tmp_path / "out/data/train/00000.ds"), ROW - 1, token_size=2)
    rows = [ids for ids, _ in stored_rows(corpus, "train")]
    assert [dataset[number]["input_ids"].tolist() for number in range(len(dataset))] == rows
    export(corpus, "tokens", "nanoset", tmp_path / "documents")
    tokens = [token for document in stored_documents(corpus) for token in document]
    file = str(tmp_path / "documents/data/train/00000.ds")
    dataset = reader.DatatroveFileDataset(file, len(tokens) - 1, token_size=2, return_positions=True)
    positions = [number for document in stored_documents(corpus) for number in range(len(document))]
    assert dataset[0]["input_ids"].tolist() == tokens
    assert dataset[0]["positions"].tolist() == positions


@pytest.mark.parametrize("stage", ["tokens", "packed"])
def test_streaming_opens_it(corpus: Corpus, tmp_path: Path, stage: str) -> None:
    readers = pytest.importorskip("streaming.base.format")
    export(corpus, stage, "mds", tmp_path / "out", "--shard-size", "2kB")
    index = json.loads((tmp_path / "out/data/train/index.json").read_text())
    shards = [readers.reader_from_json(str(tmp_path / "out/data/train"), None, shard) for shard in index["shards"]]
    samples = [shard[number] for shard in shards for number in range(shard.samples)]
    ids = [sample["input_ids"].tolist() for sample in samples]
    assert all(shard.validate(False) is None for shard in shards)
    if stage == "tokens":
        assert ids == stored_documents(corpus)
    else:
        assert [
            (row, sample["span_lengths"].tolist()) for row, sample in zip(ids, samples, strict=True)
        ] == stored_rows(corpus, "train")


@pytest.mark.parametrize("form", ["hf", "parquet"])
def test_datasets_opens_it(corpus: Corpus, tmp_path: Path, form: str, monkeypatch) -> None:
    datasets = pytest.importorskip("datasets")
    export(corpus, "packed", form, tmp_path / "out", "--shard-size", "1kB")
    if form == "hf":
        opened = datasets.load_from_disk(str(tmp_path / "out"))
    else:
        opened = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert list(opened) == ["train", "validation"]
    for split, rows in opened.items():
        stored = [{"input_ids": ids, "span_lengths": lengths} for ids, lengths in stored_rows(corpus, split)]
        assert list(rows) == stored
        assert rows.features["input_ids"].feature.dtype == "uint16"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("tokens --format jsonl", "--format: 'jsonl' is no format of tokens; give one of megatron, nanoset, mds,"),
        ("unique --format mds", "--format: 'mds' is no format of unique; give one of jsonl, parquet, hf"),
        ("weights --format hf", "STAGE: 'weights' has neither documents nor tokens; give one of texts, clean, unique,"),
        ("packed --format mds --shard-size 3GB", "--shard-size: '3GB' is too large for mds; give at most 2,000,000,"),
        ("packed --format hf --shard-size 0", "--shard-size: '0' is no size; write a number of bytes, such as 500MB"),
        ("tokens --format hf --dropped", "STAGE: 'tokens' has no documents to choose from; leave out the options"),
        (
            "unique --shard-size 1MB",
            "--shard-size: is for a folder of files; give --format, one of jsonl, parquet, hf,",
        ),
        ("unique x.jsonl --format hf", "--format: is for a folder alone; write headrace export STAGE --format"),
    ],
)
def test_a_wrong_value_is_refused(corpus: Corpus, tmp_path: Path, arguments: str, problem: str) -> None:
    result = headrace_here("export", *arguments.split(), "--to", str(tmp_path / "out"), *corpus.overrides)
    assert result.returncode == 2
    assert result.stderr.startswith(f"headrace: {problem}")
    assert list(tmp_path.iterdir()) == []


def test_batches_have_at_most_so_many_bytes(corpus: Corpus) -> None:
    artifacts = {stage: corpus.artifact(stage) for stage in ("tokens", "packed")}
    for stage in artifacts:
        sequences = sequence_sets(artifacts, stage, end_of_text(corpus), 0.4)[0]
        for batch in sequences.batches(1500):
            assert batch.ids.nbytes <= 1500 or len(batch.lengths) == 1
            assert batch.lengths.sum() == len(batch.ids)
        whole = [dataclasses.astuple(batch)[1].tolist() for batch in sequences.batches(10**9)]
        small = [length for batch in sequences.batches(1) for length in batch.lengths.tolist()]
        assert [length for lengths in whole for length in lengths] == small
