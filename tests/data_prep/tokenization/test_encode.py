"""Encoding: the ids depend only on the text, and decoding restores it."""

import json

import numpy as np
import pytest
import tokenizers
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from headrace.data_prep.tokenization.encode import BATCH_BYTES, Encoder, batches, covered_bytes, parse
from headrace.data_prep.tokenization.made_tokenizers import byte_level
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from tests.data_prep.tokenization.kinds import KINDS, sentences, trained
from tests.unique_documents import json_texts


def bytes_tokenizer(*special: str) -> tokenizers.Tokenizer:
    """A tokenizer whose tokens are the 256 bytes, then ``special``."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = byte_level(tokenizers.models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def test_a_text_that_spells_a_special_token_is_text():
    encoder = Encoder(bytes_tokenizer(END_OF_TEXT, "<pad>"))
    text = f"a {END_OF_TEXT} b <pad>"
    (ids,) = encoder.encode([text])
    assert len(ids) == len(text)
    assert encoder.end_of_text not in ids
    assert encoder.decode(ids) == text


def test_end_of_text_becomes_special_where_it_was_an_ordinary_token():
    tokenizer = bytes_tokenizer()
    tokenizer.add_tokens([END_OF_TEXT])
    encoder = Encoder(parse(tokenizer.to_str(), "x"))
    assert encoder.end_of_text == 256
    assert 256 not in encoder.encode([f"a{END_OF_TEXT}"])[0]


def test_nothing_is_truncated_padded_or_added():
    tokenizer = bytes_tokenizer(END_OF_TEXT, "<s>")
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(pad_id=257, length=20)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 257)])
    encoder = Encoder(parse(tokenizer.to_str(), "x"))
    texts = ["abcdef", "", "g"]
    assert [encoder.decode(ids) for ids in encoder.encode(texts)] == texts


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_536, "<u2"), (65_537, "<u4")])
def test_two_bytes_hold_65536_tokens(vocabulary, dtype):
    description = json.loads(bytes_tokenizer(END_OF_TEXT).to_str())
    description["model"]["vocab"] |= {END_OF_TEXT: 256} | {f"t{i}": i for i in range(257, vocabulary)}
    encoder = Encoder(parse(json.dumps(description), "x"))
    assert encoder.vocabulary_size == vocabulary
    assert encoder.dtype == np.dtype(dtype)
    assert encoder.encode(["a"])[0].dtype == np.dtype(dtype)


def test_a_gap_in_the_ids_counts_as_vocabulary():
    description = json.loads(bytes_tokenizer(END_OF_TEXT).to_str())
    description["model"]["vocab"]["far"] = 9_999
    assert Encoder(parse(json.dumps(description), "x")).vocabulary_size == 10_000


def test_without_end_of_text_the_error_says_what_to_do():
    with pytest.raises(ConfigError) as error:
        parse(bytes_tokenizer().to_str(), "mine.json")
    assert str(error.value) == (
        "mine.json: the tokenizer has no token '<|endoftext|>', which ends a document; "
        "name another token (tokenizer.end_of_text=TOKEN), or train a tokenizer here (tokenizer=train)"
    )


def test_loading_another_file_is_an_artifact_error(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"a": 1}')
    with pytest.raises(ArtifactError) as error:
        Encoder.load(path)
    assert str(error.value) == (
        f"{path}: is not a tokenizer.json (expected `,` or `}}` at line 1 column 5); "
        "give one that the tokenizers library saved"
    )


def test_batches_are_closed_by_bytes_and_keep_every_text():
    texts = ["x" * (BATCH_BYTES // 2), "é" * (BATCH_BYTES // 4), "z", "", "y" * (2 * BATCH_BYTES), "w"]
    assert [len(batch) for batch in batches(iter(texts))] == [2, 3, 1]
    assert [text for batch in batches(iter(texts)) for text in batch] == texts
    assert list(batches(iter([]))) == []


SPECIAL = "[UNK] </s> [SEP] <|endoftext|> <extra_id_0>"
"""Texts that spell special tokens."""

ODD = ["", " ", "\n\n \t", "a", "\u2581 \u2581\u2581a", "e\u0301\ufb01\u3300", SPECIAL, "\x00\u200b\U0010ffff0 x "]
ODD += ["水" * 300]


def table(tokenizer: Tokenizer) -> np.ndarray:
    found = Encoder(parse(tokenizer.to_str(), "x")).token_bytes
    assert found is not None
    return found


def test_bytes_of_tokens_are_utf8_bytes():
    tokenizer = bytes_tokenizer(END_OF_TEXT)
    text = "mühle 水車\n"
    assert table(tokenizer)[[*tokenizer.encode(text).ids, tokenizer.token_to_id(END_OF_TEXT)]].sum() == len(
        text.encode()
    )


def test_bytes_of_a_merged_token_are_those_of_its_parts():
    tokenizer: Tokenizer = bytes_tokenizer(END_OF_TEXT)
    trainer = BpeTrainer(vocab_size=300, special_tokens=[END_OF_TEXT], initial_alphabet=ByteLevel.alphabet())
    tokenizer.train_from_iterator(["wasserrad ü wasserrad ü"] * 9, trainer)
    ids = tokenizer.encode("wasserrad ü").ids
    assert len(ids) < len("wasserrad ü".encode())
    assert table(tokenizer)[ids].sum() == len("wasserrad ü".encode())


def test_an_ordinary_added_token_has_the_bytes_of_its_name():
    tokenizer = bytes_tokenizer(END_OF_TEXT)
    tokenizer.add_tokens(["水車"])
    assert table(tokenizer)[tokenizer.token_to_id("水車")] == 6


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": None, "decoder": None},
    ],
)
def test_there_is_no_table_where_text_is_changed(change):
    description = json.loads(bytes_tokenizer(END_OF_TEXT).to_str()) | change
    assert Encoder(parse(json.dumps(description), "x")).token_bytes is None


def test_bytes_without_a_token_count_for_the_next_one():
    assert covered_bytes("Ünique  text \n", [(0, 6), (8, 12)]).tolist() == [7, 6, 2]
    assert covered_bytes("水", [(0, 1), (0, 1), (0, 1)]).tolist() == [3, 0, 0, 0]
    assert covered_bytes(" ", []).tolist() == [1]


@pytest.mark.parametrize("name", KINDS)
def test_the_bytes_of_the_tokens_of_a_text_are_its_bytes(name, data_folder):
    texts = sentences(data_folder("language")) + ODD
    texts += json_texts(data_folder("web/dclm_keep_drop_labels.jsonl.zst"), 3)
    encoder = Encoder(parse(trained(name, data_folder), name))
    bytes_of_texts = [len(text.encode()) for text in texts]
    ids = encoder.encode(texts)
    if encoder.token_bytes is not None:
        assert [int(encoder.token_bytes[one].sum()) for one in ids] == bytes_of_texts
        return
    both = encoder.encode_with_bytes(texts)
    assert [one.tolist() for one, _ in both] == [one.tolist() for one in ids]
    assert [len(found) for _, found in both] == [len(one) + 1 for one in ids]
    assert [int(found.sum()) for _, found in both] == bytes_of_texts
    assert all((found >= 0).all() for _, found in both)
