"""The stage tokens: flat shards from which every document can be read back."""

import hashlib
import itertools
import json
from collections import Counter

import numpy as np
import pytest

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.errors import ArtifactError
from tests.data_prep.tokenization.given_tokenizers import gpt2_file
from tests.unique_documents import json_texts, unique_documents

TEXTS = [["the cat sat", "", f"a page about {END_OF_TEXT} and so on"], [], ["naïve 猫"]]


@pytest.fixture
def inputs(tmp_path, run_stage):
    unique = unique_documents(tmp_path / "unique", TEXTS)
    tokenizer = run_stage(Tokenizer(settings=Trained(vocabulary_size=300)), {"unique": unique}, tmp_path / "tokenizer")
    return {"unique": unique, "tokenizer": tokenizer}


def texts_of(shards: TokenShards, encoder: Encoder) -> list[list[str]]:
    """The documents of every shard, by its bounds, without the end of text on either side."""
    bounds = [shards.bounds(shard).tolist() for shard in range(len(shards))]
    return [
        [encoder.decode(shards.slice(shard, a + 1, b)) for a, b in itertools.pairwise(ends)]
        for shard, ends in enumerate(bounds)
    ]


def test_documents_are_restored_and_only_the_stage_writes_end_of_text(inputs, tmp_path, run_stage):
    out = run_stage(Tokens(), inputs, tmp_path / "tokens")
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    shards = TokenShards(out)
    assert texts_of(shards, encoder) == TEXTS
    for shard in range(3):
        ends = shards.bounds(shard)
        stored = np.fromfile(out.shard("tokens", shard, "bin"), dtype="<u2")
        assert np.flatnonzero(stored == encoder.end_of_text).tolist() == ends.tolist()
        assert len(stored) == ends[-1] + 1
        assert shards.text_bytes(shard).tolist() == [len(text.encode()) for text in TEXTS[shard]]


def test_the_columns_have_the_documented_types(inputs, tmp_path, run_stage):
    out = run_stage(Tokens(), inputs, tmp_path / "tokens")
    kinds = {kind: np.load(out.shard(kind, 0, "npy")) for kind in ("bounds", "text_bytes", "keys")}
    assert {kind: (array.dtype.str, array.shape) for kind, array in kinds.items()} == {
        "bounds": ("<u8", (4,)),
        "text_bytes": ("<u4", (3,)),
        "keys": ("<u8", (3,)),
    }
    assert kinds["keys"][1] == int.from_bytes(hashlib.sha256(b"split\x000:1").digest()[:8], "little")


def test_counts(inputs, tmp_path, run_stage):
    out = run_stage(Tokens(), inputs, tmp_path / "tokens")
    stored = sum(out.shard("tokens", shard, "bin").stat().st_size for shard in range(3)) // 2
    assert out.counts == {
        "documents": 4,
        "tokens": stored,
        "text_bytes": sum(len(text.encode()) for shard in TEXTS for text in shard),
    }
    assert out.shard_count == 3


def test_slow_encoding_is_printed_and_counted(inputs, tmp_path, run_stage, capsys):
    fast = run_stage(Tokens(), inputs, tmp_path / "fast")
    assert capsys.readouterr().err == ""
    path = inputs["tokenizer"].path("tokenizer.json")
    given = json.loads(path.read_text())
    given["added_tokens"].append(given["added_tokens"][0] | {"id": 300, "content": "never seen", "special": False})
    (tmp_path / "given.json").write_text(json.dumps(given))
    tokenizer = Tokenizer(settings=GivenFile(path=str(tmp_path / "given.json")))
    slowly = {**inputs, "tokenizer": run_stage(tokenizer, inputs, tmp_path / "given")}
    slow = run_stage(Tokens(), slowly, tmp_path / "slow")
    line = (
        "tokens: encoding with the slow tokenizers library: "
        "it has added tokens that are not special, such as 'never seen'\n"
    )
    assert capsys.readouterr().err == 3 * line
    assert slow.counts == fast.counts + Counter(slowly_encoded=4)
    assert slow.manifest["files"] == fast.manifest["files"]


def test_order_and_repetition_of_tasks_do_not_matter(inputs, tmp_path, run_stage):
    first = run_stage(Tokens(), inputs, tmp_path / "a")
    second = run_stage(Tokens(), inputs, tmp_path / "b", backwards=True, twice=True)
    assert first.manifest == second.manifest


@pytest.mark.slow
def test_real_text_in_75_languages_comes_back_in_many_batches(tmp_path, run_stage, data_folder, monkeypatch):
    monkeypatch.setattr("headrace.data_prep.tokenization.encode.BATCH_BYTES", 10_000)
    sentences = json_texts(data_folder("language/sentences_75_languages.jsonl.zst"), 74_141)[::60]
    pages = json_texts(data_folder("web/dclm_keep_drop_labels.jsonl.zst"), 30)
    gpt2 = GivenFile(path=gpt2_file(data_folder("tokenizer"), tmp_path / "gpt2"))
    inputs = {"unique": unique_documents(tmp_path / "unique", [sentences, pages])}
    inputs["tokenizer"] = run_stage(Tokenizer(settings=gpt2), inputs, tmp_path / "tokenizer")
    out = run_stage(Tokens(), inputs, tmp_path / "tokens")
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    assert texts_of(TokenShards(out), encoder) == [sentences, pages]


def test_tokens_that_do_not_match_their_bounds_are_refused(inputs, tmp_path, run_stage):
    out = run_stage(Tokens(), inputs, tmp_path / "tokens")
    shards = TokenShards(out)
    path = out.shard("tokens", 0, "bin")
    stored = path.stat().st_size // 2
    out.manifest["files"]["tokens/00000.bin"] = out.manifest["files"]["tokens/00002.bin"]
    path.write_bytes(out.shard("tokens", 2, "bin").read_bytes())
    with pytest.raises(ArtifactError) as error:
        shards.slice(0, 0, 1)
    assert str(error.value) == (
        f"{path}: {path.stat().st_size} bytes do not fit the {stored} tokens in bounds; "
        f"remove {out.folder} and run again"
    )
