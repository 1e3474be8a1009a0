"""BERT, RoBERTa, ModernBERT, ALBERT and ELECTRA equal those of ``transformers``: logits, a training, folders."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_config import read_model_config
from headrace.train.families.hf_folder import export, load
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR
from tests.train.families.test_families import preset_config
from tests.train.model.test_transformer import VOCABULARY, random_model

BERT = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=64, stack="encoder", norm_place="post",
    norm_epsilon=1e-12, activation="gelu_exact", segments=2, embedding_norm=True, output_transform=True,
)  # fmt: skip
DISCRIMINATOR = dataclasses.replace(BERT, stack="discriminator", output_transform=False, embedding_width=16)
MODERNBERT = ModelConfig(
    layers=4, width=32, heads=4, kv_heads=4, context=24, mlp_width=48, stack="encoder", positions="rope",
    rope_theta=1000.0, window_theta=50.0, attention_pattern=("full", "window", "window"), window=4, bias=False,
    norm="layernorm_no_bias", activation="geglu_exact", embedding_norm=True, first_attention_norm=False,
    output_transform=True,
)  # fmt: skip
SHAPES = {
    "bert": BERT,
    "bert-tanh": dataclasses.replace(BERT, activation="gelu"),
    "roberta": dataclasses.replace(BERT, segments=1, position_offset=2, norm_epsilon=1e-5),
    "modernbert": MODERNBERT,
    "albert": dataclasses.replace(BERT, activation="gelu", shared_layers=True, embedding_width=16),
    "electra": dataclasses.replace(BERT, embedding_width=16),
    "discriminator": DISCRIMINATOR,
    "wide-discriminator": dataclasses.replace(DISCRIMINATOR, embedding_width=None),
}
CLASSES = {
    "bert": "BertForMaskedLM",
    "bert-tanh": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
    "albert": "AlbertForMaskedLM",
    "electra": "ElectraForMaskedLM",
    "discriminator": "ElectraForPreTraining",
    "wide-discriminator": "ElectraForPreTraining",
}
PADDING = 1
"""The id of padding in transformers' RoBERTa, which no token of a text may have."""
TOKENS = torch.randint(2, VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(1))


def trained(folder: Path, special_tokens: str = "gpt") -> Path:
    """The file of a tokenizer with the special tokens of a family."""
    path = folder / "tokenizer.json"
    tokenizer = Trained(vocabulary_size=300, special_tokens=special_tokens)
    path.write_text(tokenizer.train(["a mill"], (CLASS, SEPARATOR, MASK)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module", params=SHAPES)
def pair(request, tmp_path_factory):
    """A random model of ours, and the one that transformers opens in its exported folder."""
    folder = tmp_path_factory.mktemp("encoder")
    config = SHAPES[request.param]
    ours = random_model(config)
    tokenizer_file = trained(tmp_path_factory.mktemp("tokenizer"), "roberta" if request.param == "roberta" else "gpt")
    export(ours.named_parameters(), config, VOCABULARY, tokenizer_file, folder)
    kind = getattr(transformers, CLASSES[request.param])
    theirs, info = kind.from_pretrained(folder, output_loading_info=True)
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    assert json.loads((folder / "config.json").read_text())["architectures"] == [CLASSES[request.param]]
    return ours, theirs.eval()


def logits(model, tokens_BT: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
    """The logits of rows that are padded after ``lengths`` tokens."""
    positions_BT = torch.arange(tokens_BT.shape[1]).expand_as(tokens_BT)
    documents_BT = torch.where(positions_BT < torch.tensor(lengths)[:, None], 0, -1)
    return model(tokens_BT, positions_BT, documents_BT).squeeze(-1)


@torch.inference_mode()
def test_padded_rows_have_the_logits_of_transformers(pair):
    ours, theirs = pair
    mask_BT = torch.arange(20)[None] < torch.tensor([[20], [13]])
    padded_BT = torch.where(mask_BT, TOKENS, PADDING)
    expected = theirs(input_ids=padded_BT, attention_mask=mask_BT.long()).logits
    found = logits(ours, padded_BT, (20, 13))
    torch.testing.assert_close(found[mask_BT], expected[mask_BT], rtol=0, atol=1e-4)


@torch.inference_mode()
def test_packed_rows_have_the_logits_of_each_document_alone(pair):
    ours, theirs = pair
    expected = [theirs(input_ids=TOKENS[:1, :8]).logits, theirs(input_ids=TOKENS[:1, 8:]).logits]
    positions = torch.cat([torch.arange(8), torch.arange(12)])[None]
    documents = torch.cat([torch.zeros(8, dtype=torch.long), torch.ones(12, dtype=torch.long)])[None]
    found = ours(TOKENS[:1], positions, documents).squeeze(-1)
    torch.testing.assert_close(found, torch.cat(expected, 1), rtol=0, atol=1e-4)


def test_gradients_and_a_short_training_are_those_of_transformers(pair):
    """20 steps of plain gradient descent: the masked positions alone here, labels of all positions there."""
    config = pair[0].config
    if config.stack == "discriminator":
        pytest.skip("no objective of the package trains one")
    ours, theirs = random_model(config).train(), type(pair[1])(pair[1].config).train()
    theirs.load_state_dict(pair[1].state_dict())
    at_BK = torch.tensor([[1, 5, 6, 0], [2, 12, 0, 0]])
    targets_BK = torch.where(at_BK > 0, TOKENS.gather(1, at_BK), -100)
    labels_BT = torch.full_like(TOKENS, -100)
    for row, place in (at_BK > 0).nonzero().tolist():
        labels_BT[row, at_BK[row, place]] = targets_BK[row, place]
    for _ in range(20):
        positions_BT = torch.arange(20).expand_as(TOKENS)
        loss = ours(TOKENS, positions_BT, torch.zeros_like(TOKENS), targets_BK, at_BK=at_BK) / 5
        expected = theirs(input_ids=TOKENS, labels=labels_BT).loss
        torch.testing.assert_close(loss, expected, rtol=0, atol=1e-4)
        for model, value in ((ours, loss), (theirs, expected)):
            model.zero_grad()
            value.backward()
        embeddings = ours.embedding.weight.grad, theirs.get_input_embeddings().weight.grad
        torch.testing.assert_close(*embeddings, rtol=0, atol=1e-4)
        if theirs.get_output_embeddings().bias is not None:
            torch.testing.assert_close(ours.head.bias.grad, theirs.get_output_embeddings().bias.grad, rtol=0, atol=1e-4)
        with torch.no_grad():
            for model in (ours, theirs):
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad if parameter.grad is not None else 0


@torch.inference_mode()
def test_saved_folders_load_both_ways(pair, tmp_path):
    ours, theirs = pair
    theirs.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert loaded.config == ours.config
    assert torch.equal(logits(loaded, TOKENS, (20, 20)), logits(ours, TOKENS, (20, 20)))


def test_the_config_of_the_published_modernbert_is_read(tmp_path):
    """Its config.json has the older names: no layer_types, a base of rotations for each kind of attention."""
    older = {"num_hidden_layers": 22, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 1152}
    older |= {"max_position_embeddings": 8192, "global_attn_every_n_layers": 3, "local_attention": 128}
    older |= {"global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0, "model_type": "modernbert"}
    (tmp_path / "config.json").write_text(json.dumps({**older, "vocab_size": 50368}))
    assert read_model_config(tmp_path) == (preset_config("modernbert_base"), 50368)
    (tmp_path / "config.json").write_text(json.dumps({**older, "vocab_size": 50368, "norm_bias": True}))
    with pytest.raises(ArtifactError, match="norm_bias=True"):
        read_model_config(tmp_path)


def test_impossible_shapes_are_refused():
    cases = {
        "output_transform true is not for stack discriminator": {"output_transform": True},
        "embedding_width 16 needs output_transform, or": {"stack": "encoder"},
        "embedding_width 16 works with neither scaled_embedding": {"scaled_embedding": True},
    }
    for message, change in cases.items():
        with pytest.raises(ConfigError, match=message):
            dataclasses.replace(DISCRIMINATOR, **change)


def test_a_roberta_whose_padding_has_another_id_has_our_own_format(tmp_path):
    """``RobertaForMaskedLM`` counts positions from the id of padding, and ours begin at 2."""
    ours = random_model(SHAPES["roberta"])
    export(ours.named_parameters(), ours.config, VOCABULARY, trained(tmp_path, "bert"), tmp_path / "hf")
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["model_type"] == "headrace"
    assert torch.equal(logits(load(tmp_path / "hf"), TOKENS, (20, 20)), logits(ours, TOKENS, (20, 20)))
