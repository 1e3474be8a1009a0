"""Encoding: the ids depend only on the text, and decoding restores it."""

import json

import numpy as np
import pytest
import tokenizers

from headrace.data_prep.tokenization.byte_level import byte_level
from headrace.data_prep.tokenization.encode import BATCH_BYTES, Encoder, batches, parse
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.pipeline.core.errors import ArtifactError, ConfigError


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
