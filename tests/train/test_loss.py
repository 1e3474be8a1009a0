import math

import pytest
import torch

from tests.train.conftest import END, bytes_tokenizer
from train.loss import bits_per_byte, nll_sum, targets_bytes, token_bytes


def test_a_uniform_model_has_ln_v_for_each_target():
    targets = torch.tensor([[3, -100, 0], [-100, -100, 7]])
    assert nll_sum(torch.zeros(2, 3, 8), targets).item() == pytest.approx(3 * math.log(8), abs=1e-5)


def test_nll_by_hand_and_in_fp32_for_bf16_logits():
    logits = torch.tensor([[[2.0, 0.0, -1.0]]], dtype=torch.bfloat16)
    found = nll_sum(logits, torch.tensor([[1]]))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(math.log(math.e**2 + 1 + math.e**-1), abs=1e-5)


def test_padding_has_no_gradient():
    logits = torch.randn(1, 2, 5, requires_grad=True)
    nll_sum(logits, torch.tensor([[1, -100]])).backward()
    assert logits.grad[0, 1].abs().max() == 0 < logits.grad[0, 0].abs().max()


def test_a_byte_costs_eight_bits_when_nothing_is_known():
    assert bits_per_byte(10 * math.log(256), 10) == pytest.approx(8)


def test_bytes_of_tokens_are_utf8_bytes(tmp_path):
    tokenizer = bytes_tokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    lengths = torch.from_numpy(token_bytes(tmp_path / "tokenizer.json"))
    text = "mühle 水車\n"
    targets = torch.tensor([[*tokenizer.encode(text).ids, tokenizer.token_to_id(END), -100]])
    assert targets_bytes(targets, lengths).item() == len(text.encode())


def test_bytes_of_a_merged_token_are_those_of_its_parts(tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.trainers import BpeTrainer

    tokenizer: Tokenizer = bytes_tokenizer()
    tokenizer.train_from_iterator(["wasserrad ü wasserrad ü"] * 9, BpeTrainer(vocab_size=300, special_tokens=[END]))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    lengths = torch.from_numpy(token_bytes(tmp_path / "tokenizer.json"))
    ids = tokenizer.encode("wasserrad ü").ids
    assert len(ids) < len("wasserrad ü".encode()) == targets_bytes(torch.tensor([ids]), lengths).item()
