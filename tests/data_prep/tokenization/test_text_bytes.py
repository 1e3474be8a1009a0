"""The UTF-8 bytes of tokens: a table where they are fixed, from offsets elsewhere."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from headrace.data_prep.tokenization.encode import Encoder, covered_bytes, parse
from tests.data_prep.tokenization.kinds import KINDS, sentences, trained
from tests.train.conftest import END, bytes_tokenizer
from tests.unique_documents import json_texts

SPECIAL = "[UNK] </s> [SEP] <|endoftext|> <extra_id_0>"
"""Texts that spell special tokens."""

ODD = ["", " ", "\n\n \t", "a", "\u2581 \u2581\u2581a", "e\u0301\ufb01\u3300", SPECIAL, "\x00\u200b\U0010ffff0 x "]
ODD += ["水" * 300]


def table(tokenizer: Tokenizer) -> np.ndarray:
    found = Encoder(parse(tokenizer.to_str(), "x")).token_bytes
    assert found is not None
    return found


def test_bytes_of_tokens_are_utf8_bytes():
    tokenizer = bytes_tokenizer()
    text = "mühle 水車\n"
    assert table(tokenizer)[[*tokenizer.encode(text).ids, tokenizer.token_to_id(END)]].sum() == len(text.encode())


def test_bytes_of_a_merged_token_are_those_of_its_parts():
    tokenizer: Tokenizer = bytes_tokenizer()
    trainer = BpeTrainer(vocab_size=300, special_tokens=[END], initial_alphabet=ByteLevel.alphabet())
    tokenizer.train_from_iterator(["wasserrad ü wasserrad ü"] * 9, trainer)
    ids = tokenizer.encode("wasserrad ü").ids
    assert len(ids) < len("wasserrad ü".encode())
    assert table(tokenizer)[ids].sum() == len("wasserrad ü".encode())


def test_an_ordinary_added_token_has_the_bytes_of_its_name():
    tokenizer = bytes_tokenizer()
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
    description = json.loads(bytes_tokenizer().to_str()) | change
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
