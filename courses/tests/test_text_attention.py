"""Where a model looks: equal to transformers' output_attentions on an exported folder, for each kind of stack."""

import numpy as np
import pytest
import torch
import transformers
from transformers import PreTrainedTokenizerFast

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.text_attention import text_attention
from tests.train.families.test_encoder_decoders import BART, T5
from tests.train.model.test_transformer import random_model

SIZES = {"layers": 3, "width": 32, "heads": 4, "kv_heads": 4, "context": 64, "mlp_width": 48}
LLAMA = ModelConfig(
    **SIZES | {"kv_heads": 2},
    positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
)  # fmt: skip
BERT = ModelConfig(
    **SIZES, stack="encoder", norm_place="post", activation="gelu_exact", segments=2,
    embedding_norm=True, output_transform=True,
)  # fmt: skip
VOCABULARY = 400
TEXT, ANSWER = "The mill stands by the river.", "the wheel"


def folder_of(config, special_tokens, folder):
    """Returns the folder of a random model of this ``config``."""
    folder.mkdir()
    tokenizer = Trained(vocabulary_size=VOCABULARY, **special_tokens[0]).train([TEXT], *special_tokens[1:])
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    model = random_model(config, VOCABULARY)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.fill_(1)
    export(model.named_parameters(), config, VOCABULARY, folder / "tokenizer.json", folder / "hf")
    return folder / "hf"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {
        "decoder": folder_of(LLAMA, ({},), root / "llama"),
        "encoder": folder_of(BERT, ({}, ("[CLS]", "[SEP]", "[MASK]")), root / "bert"),
        "t5": folder_of(T5, ({"special_tokens": "t5"},), root / "t5"),
        "bart": folder_of(BART, ({"special_tokens": "roberta"},), root / "bart"),
    }


def layers_of(folder, text=TEXT, answer=""):
    return list(text_attention(open_folder(folder, Inference(device="cpu")), text, answer))


def check(found, expected):
    """Compares layers of one kind with those of transformers."""
    assert len(found) == len(expected)
    for number, (layer, theirs_1NTS) in enumerate(zip(found, expected, strict=True)):
        assert layer.layer == number
        assert layer.weights_NTS.shape == (4, len(layer.queries), len(layer.keys))
        np.testing.assert_allclose(layer.weights_NTS, theirs_1NTS[0].numpy(), rtol=0, atol=1e-5)
        softmax_NTS = torch.from_numpy(layer.masked_NTS).softmax(-1).numpy()
        np.testing.assert_allclose(softmax_NTS, layer.weights_NTS, rtol=0, atol=1e-6)
        assert (np.isfinite(layer.masked_NTS) == (layer.weights_NTS > 0)).all()
    assert max(layer.weights_NTS.max() - 1 / len(layer.keys) for layer in found) > 0.1, "far from even"


def without_bias(layer):
    """Checks that the mask alone changes the scores."""
    seen = np.isfinite(layer.masked_NTS)
    assert (layer.scores_NTS[seen] == layer.masked_NTS[seen]).all()
    assert np.isfinite(layer.scores_NTS).all()


def ids_of(tokenizer, texts):
    """Returns the ids of tokens, a row of them."""
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    assert {len(row) for row in ids} == {1}
    return torch.tensor(ids).T


@torch.inference_mode()
def test_a_decoder(folders):
    found = layers_of(folders["decoder"])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folders["decoder"], attn_implementation="eager").eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folders["decoder"] / "tokenizer.json"))
    ids = tokenizer(TEXT)["input_ids"]
    check(found, theirs(input_ids=torch.tensor([ids]), output_attentions=True).attentions)
    assert "".join(found[0].keys) == TEXT
    assert np.triu(found[0].weights_NTS, 1).max() == 0
    for layer in found:
        without_bias(layer)


@torch.inference_mode()
def test_an_encoder_reads_masked_positions(folders):
    found = layers_of(folders["encoder"], "The [MASK] stands.")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folders["encoder"], attn_implementation="eager").eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folders["encoder"] / "tokenizer.json"))
    ids = [tokenizer.convert_tokens_to_ids("[CLS]"), *tokenizer("The", add_special_tokens=False)["input_ids"]]
    ids += [tokenizer.convert_tokens_to_ids("[MASK]"), *tokenizer(" stands.", add_special_tokens=False)["input_ids"]]
    ids.append(tokenizer.convert_tokens_to_ids("[SEP]"))
    check(found, theirs(input_ids=torch.tensor([ids]), output_attentions=True).attentions)
    assert [found[0].keys[0], found[0].keys[-1]] == ["[CLS]", "[SEP]"]
    assert found[0].weights_NTS.min() > 0
    without_bias(found[0])


@pytest.mark.parametrize("name", ["t5", "bart"])
@torch.inference_mode()
def test_an_encoder_decoder_has_three_kinds_of_attention(folders, name):
    found = layers_of(folders[name], answer=ANSWER)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folders[name], attn_implementation="eager").eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folders[name] / "tokenizer.json"))
    kinds = {kind: [layer for layer in found if layer.kind == kind] for kind in {layer.kind for layer in found}}
    source, target = (ids_of(tokenizer, kinds[kind][0].queries) for kind in ("encoder", "decoder"))
    output = theirs(input_ids=source, decoder_input_ids=target, output_attentions=True)
    check(kinds["encoder"], output.encoder_attentions)
    check(kinds["decoder"], output.decoder_attentions)
    check(kinds["cross-attention"], output.cross_attentions)
    without_bias(kinds["cross-attention"][0])
    biased = kinds["encoder"][0]
    assert np.allclose(biased.scores_NTS, biased.masked_NTS) == (name == "bart")
    assert "".join(kinds["decoder"][0].keys).endswith(ANSWER)


def test_an_answer_is_for_two_stacks(folders):
    with pytest.raises(ConfigError, match="--answer: is given to a model of stack decoder"):
        layers_of(folders["decoder"], answer="x")


def test_a_text_beyond_the_window_is_refused(folders):
    for name in folders:
        with pytest.raises(ConfigError, match=r"TEXT: has .* tokens, and the model has (64|160) positions"):
            layers_of(folders[name], "abc xyz " * 60)
