import math

import numpy as np
import pytest

from headrace.train.objectives.bits_per_byte import bits_per_byte, token_bytes
from headrace.train.objectives.causal import Causal
from tests.train.conftest import END, bytes_tokenizer


def test_a_byte_costs_eight_bits_when_nothing_is_known():
    assert bits_per_byte(10 * math.log(256), 10) == pytest.approx(8)


def test_bytes_of_tokens_are_utf8_bytes(tmp_path):
    tokenizer = bytes_tokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    lengths = token_bytes(tmp_path / "tokenizer.json")
    text = "mühle 水車\n"
    targets = np.array([[*tokenizer.encode(text).ids, tokenizer.token_to_id(END), -100]])
    assert Causal().text_bytes({"targets": targets}, lengths) == {"nll": len(text.encode())}


def test_bytes_of_a_merged_token_are_those_of_its_parts(tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.trainers import BpeTrainer

    tokenizer: Tokenizer = bytes_tokenizer()
    tokenizer.train_from_iterator(["wasserrad ü wasserrad ü"] * 9, BpeTrainer(vocab_size=300, special_tokens=[END]))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    lengths = token_bytes(tmp_path / "tokenizer.json")
    ids = tokenizer.encode("wasserrad ü").ids
    expected = len("wasserrad ü".encode())
    assert len(ids) < expected
    assert Causal().text_bytes({"targets": np.array([ids])}, lengths) == {"nll": expected}
