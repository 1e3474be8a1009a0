"""Rows as arrays: targets follow inputs within a document, padding has none, positions restart."""

from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.packed import Packed, Packing, held_out
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained, WordPiece
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.data_prep.tokenizer import Tokenizer, TokenizerSettings
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.artifact import Artifact
from headrace.train.data.order import Order
from headrace.train.data.rows import Rows
from tests.train.causal_rows import causal
from tests.unique_documents import json_texts, unique_documents

TEXTS = [["abcdefghij", "kl", ""], ["mnop", "qrstuvw", "xyz" * 4]]


@pytest.fixture(scope="module")
def built(tmp_path_factory, run_stage):
    """(encoder, packed, tokens) of TEXTS, a token for each byte, rows of 8."""
    return build(run_stage, tmp_path_factory.mktemp("rows"), Trained(vocabulary_size=257), TEXTS)


def build(run_stage, folder: Path, kind: TokenizerSettings, texts) -> tuple[Encoder, Artifact, Artifact]:
    """Returns the encoder and the artifacts packed and tokens of six ``texts``."""
    ids = [["a", "b", "c"], ["d", "e", "f"]]
    artifacts = {"unique": unique_documents(folder / "unique", texts, ids)}
    stage = Tokenizer(settings=kind)
    artifacts["tokenizer"] = run_stage(stage, artifacts, folder / "tokenizer")
    artifacts["tokens"] = run_stage(Tokens(), artifacts, folder / "tokens")
    packing = Packing(row_tokens=8, validation_fraction=0.3)
    artifacts["packed"] = run_stage(Packed(packing=packing), {"tokens": artifacts["tokens"]}, folder / "packed")
    encoder = Encoder.load(artifacts["tokenizer"].path("tokenizer.json"))
    return encoder, artifacts["packed"], artifacts["tokens"]


LOSSY = [["Das Wasserrad  dreht SICH ", " \n ", "\U0001f600" * 80], ["水 Ünïcode", "aa aa", "die Mühle\t" + " " * 300]]


@pytest.mark.parametrize("kind", [Trained(vocabulary_size=260), WordPiece(vocabulary_size=60, alphabet_size=12)])
def test_the_bytes_of_all_targets_are_those_of_the_documents(kind, run_stage, tmp_path):
    encoder, packed, tokens = build(run_stage, tmp_path, kind, LOSSY)
    found, expected = {}, {"train": 0, "validation": 0}
    for split in expected:
        rows = Rows(packed, tokens, split)
        bytes_BT = rows.target_bytes(range(len(rows)), encoder.token_bytes)
        assert (bytes_BT[causal(rows, range(len(rows))).targets < 0] == 0).all()
        assert rows.target_bytes([], encoder.token_bytes).tolist() == [[0] * 8]
        found[split] = int(bytes_BT.sum())
    for shard in range(2):
        is_validation = held_out(np.load(tokens.shard("keys", shard, "npy")), 0.3)
        for name, chosen in (("train", ~is_validation), ("validation", is_validation)):
            expected[name] += int(TokenShards(tokens).text_bytes(shard)[chosen].sum())
    assert found == expected
    assert sum(found.values()) == sum(len(text.encode()) for shard in LOSSY for text in shard)


def test_tokens_of_an_older_version_have_no_bytes(built):
    _, packed, tokens = built
    assert Rows(packed, tokens, "train").target_bytes([0], None) is None


def spell(encoder: Encoder, ids: np.ndarray) -> str:
    return encoder.decode(ids[ids >= 0]).replace("<|endoftext|>", "|")


def test_rows_by_hand(built):
    encoder, packed, tokens = built
    rows = Rows(packed, tokens, "train")
    batch = causal(rows, [2, 1])
    assert [spell(encoder, ids) for ids in batch.targets] == ["|zxyz|", "ij|mnop|"]
    assert spell(encoder, batch.inputs[0, :6]) == "|yzxyz"
    assert spell(encoder, batch.inputs[1]) == "hij|mnop"
    assert batch.positions.tolist() == [[0, 0, 1, 2, 3, 4, 0, 0], [0, 1, 2, 0, 1, 2, 3, 4]]
    assert batch.documents.tolist() == [[0, 1, 1, 1, 1, 1, -1, -1], [0, 0, 0, 1, 1, 1, 1, 1]]
    assert batch.targets[0, 6:].tolist() == [-100, -100]
    assert batch.inputs[0, 6:].tolist() == [0, 0]
    for array in (batch.inputs, batch.targets, batch.positions, batch.documents):
        assert array.shape == (2, 8)
        assert array.dtype == np.int64


def test_the_rows_of_both_splits_predict_every_document_once(built):
    encoder, packed, tokens = built
    found = []
    for split in ("train", "validation"):
        rows = Rows(packed, tokens, split)
        targets = causal(rows, range(len(rows))).targets
        found += spell(encoder, targets.ravel())
    assert sorted(found) == sorted("".join(text + "|" for shard in TEXTS for text in shard))


def test_a_row_tells_its_spans(built):
    _, packed, tokens = built
    assert Rows(packed, tokens, "validation").spans(0).tolist() == [(0, 11, 3)]
    assert len(Rows(packed, tokens, "train")) == 5


@pytest.mark.parametrize("method", ["best_fit", "concatenate", "padded"])
def test_an_epoch_over_real_text_holds_every_byte_of_it(tmp_path, run_stage, data_folder, method):
    pages = json_texts(data_folder("web/dclm_keep_drop_labels.jsonl.zst"), 120)
    artifacts = {"unique": unique_documents(tmp_path / "unique", [pages[:50], pages[50:]])}
    artifacts["tokenizer"] = run_stage(Tokenizer(settings=Trained()), artifacts, tmp_path / "tokenizer")
    artifacts["tokens"] = run_stage(Tokens(), artifacts, tmp_path / "tokens")
    packing = Packing(row_tokens=256, validation_fraction=0.1, method=method)
    packed = run_stage(Packed(packing=packing), {"tokens": artifacts["tokens"]}, tmp_path / "packed")
    encoder = Encoder.load(artifacts["tokenizer"].path("tokenizer.json"))
    found: dict[tuple[int, int], str] = {}
    for split in ("train", "validation"):
        rows = Rows(packed, artifacts["tokens"], split)
        order = Order(0, len(rows))
        for seen in range(0, len(rows), 16):
            numbers = order.batch(seen, min(16, len(rows) - seen))
            batch = causal(rows, numbers)
            inside = batch.documents >= 0
            assert ((batch.targets >= 0) == inside).all()
            within = inside[:, 1:] & (batch.documents[:, 1:] == batch.documents[:, :-1])
            assert (batch.inputs[:, 1:][within] == batch.targets[:, :-1][within]).all()
            assert (np.diff(batch.positions)[within] == 1).all()
            assert (batch.positions[:, 1:][inside[:, 1:] & ~within] == 0).all()
            for b, row in enumerate(numbers.tolist()):
                for number, (shard, start, _) in enumerate(rows.spans(row).tolist()):
                    found[shard, start] = batch.targets[b][batch.documents[b] == number]
    ids = {shard: np.concatenate([found[key] for key in sorted(found) if key[0] == shard]) for shard in (0, 1)}
    text = [encoder.decode(ids[shard][ids[shard] != encoder.end_of_text]) for shard in (0, 1)]
    assert text == ["".join(pages[:50]), "".join(pages[50:])]
