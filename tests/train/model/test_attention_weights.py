"""Attention weights: equal to transformers' eager attention, and to those that the model itself uses."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from headrace.train.families.hf_folder import load
from headrace.train.model.attention import DenseAttention, WeightRecorder
from headrace.train.model.visibility import CAUSAL, logit_mask

GPT2 = GPT2Config(
    vocab_size=128, n_positions=32, n_embd=32, n_layer=3, n_head=4, initializer_range=0.3, attn_implementation="eager"
)
LLAMA = LlamaConfig(
    vocab_size=128,
    max_position_embeddings=32,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.3,
    tie_word_embeddings=False,
    attn_implementation="eager",
)


@pytest.mark.parametrize(("config", "cls"), [(GPT2, GPT2LMHeadModel), (LLAMA, LlamaForCausalLM)])
def test_weights_equal_those_of_transformers(config, cls, tmp_path):
    torch.manual_seed(5)
    theirs = cls(config).eval()
    theirs.save_pretrained(tmp_path)
    tokens_BT = torch.randint(128, (2, 30))
    expected = theirs(input_ids=tokens_BT, output_attentions=True).attentions
    found = list(load(tmp_path).attention_weights(tokens_BT))
    assert len(found) == len(expected) == 3
    for ours_BNTT, theirs_BNTT in zip(found, expected, strict=True):
        assert ours_BNTT.shape == (2, 4, 30, 30)
        torch.testing.assert_close(ours_BNTT, theirs_BNTT, rtol=0, atol=1e-5)
    assert max(layer.amax() for layer in found) > 0.5, "far from even"


def test_what_is_looked_at_is_what_is_computed():
    torch.manual_seed(6)
    q_BNTD, k_BGTD, v_BGTD = torch.randn(2, 4, 9, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)
    mask = logit_mask(CAUSAL, None, 2, 4, torch.arange(9)[None], 9)
    recorder = WeightRecorder(mask)
    mixed_BNTD = recorder.attend(q_BNTD, k_BGTD, v_BGTD, None)
    usual_BNTD = DenseAttention(mask).attend(q_BNTD, k_BGTD, v_BGTD, None)
    torch.testing.assert_close(mixed_BNTD, usual_BNTD, rtol=0, atol=1e-6)
    torch.testing.assert_close(recorder.weights_BNTT.sum(-1), torch.ones(2, 4, 9), rtol=0, atol=1e-6)
