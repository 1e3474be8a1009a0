"""Tokens and rows in the formats of trainers: read by the definition of each, and by its own library where it is."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.papers.sequence_files import FILES, Batch, SequenceSet, sequence_sets, write_tokens
from tests.command_line import headrace_here
from tests.pipeline.papers.published_formats import READERS, parquet_lists
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
    part = tmp_path / "out/data/train"
    documents, held_out = stored_documents(corpus), stored_documents(corpus, "validation")
    assert list(READERS[form](part)) == documents
    assert list(READERS[form](part.with_name("validation"))) == held_out != []
    numbers = f"{len(documents) + len(held_out)} (train: {len(documents)}, validation: {len(held_out)})"
    assert f"{'sequences':<18}{numbers}\n" in printed
    assert "`validation` has the documents that the run holds out" in (tmp_path / "out/README.md").read_text()
    shards = [file for file in part.iterdir() if file.suffix in (".bin", ".ds", ".parquet")]
    assert len(shards) > 3 if size else len(shards) == 1
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (
        corpus.artifact("tokenizer").path("tokenizer.json").read_bytes()
    )


@pytest.mark.parametrize("form", FILES)
def test_each_format_holds_the_rows_of_both_splits(corpus: Corpus, tmp_path: Path, form: str) -> None:
    export(corpus, "packed", form, tmp_path / "out", "--shard-size", "1kB")
    for split in ("train", "validation"):
        part = tmp_path / "out/data" / split
        rows = stored_rows(corpus, split)
        assert rows
        assert list(READERS[form](part)) == [ids for ids, _ in rows]
        if form == "parquet":
            assert list(parquet_lists(part, "span_lengths")) == [lengths for _, lengths in rows]


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_both_dtypes_up_to_their_largest_ids(tmp_path: Path, form: str, dtype: str) -> None:
    largest = 65_535 if dtype == "<u2" else 2**31 - 1
    lengths = np.array([1, 255, 256, 70_000])
    ids = np.random.default_rng(1).integers(0, largest, lengths.sum(), endpoint=True).astype(dtype)
    ids[:3] = largest
    sequences = SequenceSet("train", None, lambda _: iter([Batch(ids, lengths)]))
    write_tokens(tmp_path, form, [sequences], np.dtype(dtype), 10**9, 4)
    part = tmp_path / "data/train"
    assert list(READERS[form](part)) == [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize("form", FILES)
def test_a_split_without_sequences_is_a_file_without_sequences(tmp_path: Path, form: str) -> None:
    sequences = SequenceSet("validation", ROW, lambda _: iter(()))
    assert write_tokens(tmp_path, form, [sequences], np.dtype("<u2"), 1000, 0) == {"validation": (0, 0)}
    assert list(READERS[form](tmp_path / "data/validation")) == []


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


def test_datasets_opens_it(corpus: Corpus, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    export(corpus, "packed", "parquet", tmp_path / "out", "--shard-size", "1kB")
    opened = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert list(opened) == ["train", "validation"]
    for split, rows in opened.items():
        stored = [{"input_ids": ids, "span_lengths": lengths} for ids, lengths in stored_rows(corpus, split)]
        assert list(rows) == stored
        assert rows.features["input_ids"].feature.dtype == "uint16"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("tokens --format jsonl", "--format: 'jsonl' is no format of tokens; give one of megatron, nanoset, parq"),
        ("unique --format megatron", "--format: 'megatron' is no format of unique; give one of jsonl, parquet"),
        ("unique --format hf", "--format: 'hf' is no format of unique; it is gone: use --format parquet"),
        (
            "weights --format parquet",
            "STAGE: 'weights' has neither documents nor tokens; give one of texts, clean, unique,",
        ),
        (
            "packed --format parquet --shard-size 0",
            "--shard-size: '0' is no size; write a number of bytes, such as 500MB",
        ),
        ("tokens --format parquet --dropped", "STAGE: 'tokens' has no documents to choose from; leave out the options"),
        (
            "unique --shard-size 1MB",
            "--shard-size: is not for an export to --to; write headrace export STAGE --format FORMAT --to",
        ),
        ("unique x.jsonl --format parquet", "FILE: is not for an export to --format; write headrace export STAGE FILE"),
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
