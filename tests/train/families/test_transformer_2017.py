"""The Transformer of 2017 equals ``MarianMTModel``, whose positions have all sines before all cosines."""

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from headrace.train.config import ModelConfig
from headrace.train.families.family import WeightNames
from headrace.train.model.transformer import Transformer
from tests.train.families.test_encoder_decoders import SOURCE, TOKENS, learn_alike, logits
from tests.train.model.test_transformer import VOCABULARY, random_model

CONFIG = ModelConfig(
    layers=2, encoder_layers=3, width=32, heads=4, kv_heads=4, context=160, mlp_width=48, stack="encoder_decoder",
    positions="sinusoidal", scaled_embedding=True, norm_place="post", activation="relu",
)  # fmt: skip
BLOCK = {
    "attention.qkv": tuple(f"self_attn.{part}_proj" for part in "qkv"),
    "attention.output": ("self_attn.out_proj",),
    "attention_norm": ("self_attn_layer_norm",),
    "cross.query": ("encoder_attn.q_proj",),
    "cross.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": ("encoder_attn.out_proj",),
    "cross_norm": ("encoder_attn_layer_norm",),
    "mlp.up": ("fc1",),
    "mlp.down": ("fc2",),
    "mlp_norm": ("final_layer_norm",),
}
NAMES = WeightNames(
    block="model.decoder.layers",
    inner=BLOCK,
    outer={"embedding": "model.shared"},
    encoder=WeightNames(block="model.encoder.layers", inner=BLOCK),
)


@pytest.fixture
def pair() -> tuple[Transformer, MarianMTModel]:
    """A random model of ours and Marian's with its weights."""
    ours = random_model(CONFIG)
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_layers=3, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=160,
        activation_function="relu", scale_embedding=True, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1,
    )  # fmt: skip
    theirs = MarianMTModel(config).eval()
    weights = {}
    for name, values in ours.named_parameters():
        names = NAMES.of(name)
        weights |= zip(names, values.detach().clone().chunk(len(names)), strict=True)
    missing, unexpected = theirs.load_state_dict(weights, strict=False)
    assert not unexpected
    assert {name for name in missing if "embed" not in name} == {"final_logits_bias", "lm_head.weight"}
    alternating = torch.arange(32).view(2, 16).T.flatten()
    with torch.no_grad():
        for stack in (theirs.model.encoder, theirs.model.decoder):
            stack.embed_positions.weight.copy_(stack.embed_positions.weight[:, alternating].clone())
    return ours, theirs


@torch.inference_mode()
def test_padded_rows_have_the_logits_of_transformers(pair):
    ours, theirs = pair
    mask = torch.arange(150)[None] < torch.tensor([[150], [90]])
    expected = theirs(input_ids=SOURCE, attention_mask=mask.long(), decoder_input_ids=TOKENS).logits
    found = logits(ours, [[150], [90]], [[140], [140]])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_a_short_training_is_that_of_transformers(pair):
    learn_alike(*pair, NAMES)
