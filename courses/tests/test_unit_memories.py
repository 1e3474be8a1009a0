"""Feed-forward units as memories: coefficients and value vectors of known models, by their definition."""

import dataclasses

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from courses.tests.test_text_attention import BERT, LLAMA, T5, VOCABULARY
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.errors import ConfigError
from headrace.train.families.hf_folder import export
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.unit_memories import CONTEXT_TOKENS, PROMOTED, read_text, unit_memories
from tests.train.model.test_transformer import random_model

TEXTS = ("The old mill stands by the river.", "A wheel turns.", "Water turns the wheel all day, and the night too.")


def opened(config, special_tokens, folder, trained=None):
    (folder / "tokenizer.json").write_text(
        (trained or Trained(vocabulary_size=VOCABULARY)).train(TEXTS, *special_tokens), encoding="utf-8"
    )
    model = random_model(config, VOCABULARY)
    export(model.named_parameters(), config, VOCABULARY, folder / "tokenizer.json", folder / "hf")
    return open_folder(folder / "hf", Inference(device="cpu"))


@torch.inference_mode()
def test_units_of_a_decoder_by_the_definition(tmp_path):
    """Gate times value at each position of transformers' model, and its own norm and output layer on a column."""
    model = opened(LLAMA, (), tmp_path)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval()
    texts = [read_text(model, text) for text in TEXTS]
    (memory,) = unit_memories(model, [(1, 5)], texts)
    assert (memory.layer, memory.unit) == (1, 5)
    expected = []
    for text in texts:
        read = []
        hook = theirs.model.layers[1].mlp.down_proj.register_forward_pre_hook(
            lambda _, inputs, to=read: to.append(inputs)
        )
        theirs(input_ids=torch.from_numpy(text)[None])
        hook.remove()
        coefficients_T = read[0][0][0, :, 5]
        end = int(coefficients_T.argmax()) + 1
        start = max(0, end - CONTEXT_TOKENS)
        pieces = [model.tokenizer.decode([token]) for token in text.tolist()]
        expected.append((pieces[start:end], coefficients_T[start:end].tolist(), "".join(pieces[end : end + 1])))
    expected.sort(key=lambda trigger: -trigger[1][-1])
    for trigger, (tokens, coefficients, next_token) in zip(memory.triggers, expected, strict=True):
        assert (trigger.tokens, trigger.next_token) == (tokens, next_token)
        assert trigger.coefficients == pytest.approx(coefficients, abs=1e-4)
    value_M = theirs.model.layers[1].mlp.down_proj.weight[:, 5]
    logits_V = theirs.lm_head(theirs.model.norm(value_M))
    top = logits_V.log_softmax(0).topk(PROMOTED)
    assert [token.tokens[0] for token in memory.promoted] == top.indices.tolist()
    assert [token.log_probability for token in memory.promoted] == pytest.approx(top.values.tolist(), abs=1e-4)


@torch.inference_mode()
def test_a_planted_unit_is_found_with_its_token(tmp_path):
    """A unit that answers to one token alone, and writes another: a layer names it without being told its number."""
    config = dataclasses.replace(LLAMA, layers=1, activation="relu", width=48)
    model = opened(config, (), tmp_path)
    network, tokenizer = model.network, model.tokenizer
    heard, said = (int(tokenizer.encode([text])[0][0]) for text in ("q", "x"))
    block = network.blocks[0]
    block.attention.output.weight.zero_()
    block.mlp_norm.weight.fill_(1)
    block.mlp.up.weight.mul_(0.01)
    vector_M = network.embedding.weight[heard]
    block.mlp.up.weight[7] = 10 * vector_M / vector_M.norm()
    network.norm.weight.fill_(1)
    block.mlp.down.weight[:, 7] = network.head.weight[said]
    texts = [read_text(model, text) for text in ("ab q cd", "ef", "gh q q")]
    found = list(unit_memories(model, [(0, None)], texts))
    assert found[0].unit == 7
    first, second = found[0].triggers[:2]
    assert {first.tokens[-1], second.tokens[-1]} == {"q"}
    assert found[0].promoted[0].tokens == (said,)


@torch.inference_mode()
def test_units_of_an_encoder_pass_the_norm_after_their_addition(tmp_path):
    model = opened(BERT, (("[CLS]", "[SEP]", "[MASK]"),), tmp_path)
    texts = [read_text(model, text) for text in TEXTS]
    assert {int(text[0]) for text in texts} == {model.likelihood.tokens.first}
    (memory,) = unit_memories(model, [(2, 3)], texts)
    block = model.network.blocks[2]
    scale_M, value_M = block.mlp_norm.weight, block.mlp.down.weight[:, 3]
    centred_M = value_M - value_M.mean()
    logits_V = model.network.head.weight @ (scale_M * centred_M / centred_M.pow(2).mean().sqrt())
    assert [token.tokens[0] for token in memory.promoted] == logits_V.topk(PROMOTED).indices.tolist()
    assert memory.triggers[0].tokens
    assert np.isfinite(memory.triggers[0].coefficients).all()


def test_what_has_no_units_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    decoder, pair = (
        opened(LLAMA, (), tmp_path / "a"),
        opened(T5, (), tmp_path / "b", Trained(vocabulary_size=VOCABULARY, special_tokens="t5")),
    )
    texts = [read_text(decoder, TEXTS[0])]
    for asked, name in (((3, None), "3"), ((0, 48), "0.48")):
        with pytest.raises(ConfigError, match=f"--units: '{name}' is none of layers 0 to 2, units 0 to 47"):
            list(unit_memories(decoder, [asked], texts))
    with pytest.raises(ConfigError, match="--units: the model is not of one stack that Headrace computes"):
        list(unit_memories(pair, [(0, 0)], texts))
