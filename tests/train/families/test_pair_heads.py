"""BERT and ALBERT with both heads equal the classes of ``transformers``: logits, gradients, a training, folders."""

import dataclasses

import pytest
import torch
import transformers

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.batches import Pairs
from headrace.train.families import initial_weights
from headrace.train.families.hf_folder import export, load, load_into
from headrace.train.families.registry import family_of
from headrace.train.model.initialization import without_values
from headrace.train.model.transformer import Transformer
from tests.train.families.test_encoders import BERT, PADDING, SHAPES, TOKENS, tokenizer_file
from tests.train.families.test_families import preset_config
from tests.train.model.test_transformer import VOCABULARY, random_model

__all__ = ["tokenizer_file"]
CLASSES = {"bert": transformers.BertForPreTraining, "albert": transformers.AlbertForPreTraining}
PUBLISHED = {"bert_base": (30522, 110_106_428), "albert_base": (30000, 11_813_810)}
"""Preset → its vocabulary, and the parameters with both heads."""
SEGMENTS = (torch.arange(20) >= 7).long().expand(2, -1)
LABELS = torch.tensor([1, 0])


@pytest.fixture(scope="module", params=CLASSES)
def opened(request, tokenizer_file, tmp_path_factory):
    """A random model of ours with a pair head, and the one that transformers opens in its folder."""
    folder = tmp_path_factory.mktemp("both_heads")
    ours = random_model(dataclasses.replace(SHAPES[request.param], pair_head=True))
    export(ours.named_parameters(), ours.config, VOCABULARY, tokenizer_file, folder)
    theirs, info = CLASSES[request.param].from_pretrained(folder, output_loading_info=True)
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    assert transformers.AutoConfig.from_pretrained(folder).architectures == [type(theirs).__name__]
    return ours, theirs.eval()


def both_logits(model: Transformer, tokens_BT, positions_BT, documents_BT, segments_BT, first_BP):
    """The logits of tokens, and of the pairs that begin at ``first_BP``."""
    rows = tokens_BT, positions_BT, documents_BT
    x_BTM = model.attended(model.embedding(tokens_BT), positions_BT, documents_BT, segments_BT=segments_BT)
    firsts_BPM = x_BTM[torch.arange(len(first_BP))[:, None], first_BP]
    return model(*rows, segments_BT=segments_BT), model.pair_head(firsts_BPM)


def their_logits(model, tokens_BT, segments_BT, mask_BT=None):
    found = model(input_ids=tokens_BT, token_type_ids=segments_BT, attention_mask=mask_BT)
    return found.prediction_logits, found[1]


@torch.inference_mode()
def test_padded_rows_of_pairs_have_the_logits_of_transformers(opened):
    ours, theirs = opened
    mask_BT = torch.arange(20)[None] < torch.tensor([[20], [13]])
    tokens_BT = torch.where(mask_BT, TOKENS, PADDING)
    expected, expected_pairs = their_logits(theirs, tokens_BT, SEGMENTS, mask_BT.long())
    positions_BT = torch.arange(20).expand(2, -1)
    first_B1 = torch.zeros(2, 1, dtype=torch.long)
    found, pairs = both_logits(ours, tokens_BT, positions_BT, mask_BT.long() - 1, SEGMENTS, first_B1)
    torch.testing.assert_close(found[mask_BT], expected[mask_BT], rtol=0, atol=1e-4)
    torch.testing.assert_close(pairs[:, 0], expected_pairs, rtol=0, atol=1e-4)


@torch.inference_mode()
def test_packed_pairs_have_the_logits_of_each_pair_alone(opened):
    ours, theirs = opened
    lengths, segments = (8, 12), [torch.arange(8) >= 3, torch.arange(12) >= 5]
    parts = zip(TOKENS[:1].split(lengths, 1), segments, strict=True)
    alone = [their_logits(theirs, part, segment.long()[None]) for part, segment in parts]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    documents = torch.repeat_interleave(torch.arange(2), torch.tensor(lengths))[None]
    segments_BT = torch.cat(segments).long()[None]
    found, pairs = both_logits(ours, TOKENS[:1], positions, documents, segments_BT, torch.tensor([[0, 8]]))
    torch.testing.assert_close(found, torch.cat([logits for logits, _ in alone], 1), rtol=0, atol=1e-4)
    torch.testing.assert_close(pairs[0], torch.cat([logits for _, logits in alone]), rtol=0, atol=1e-4)


def test_gradients_and_a_short_training_of_both_heads_are_those_of_transformers(opened):
    """20 steps of plain gradient descent, every gradient compared under its Hugging Face name.

    AlbertForPreTraining is in evaluation mode, because it drops a tenth of the pooler's output; Google's code does not.
    """
    config = opened[0].config
    ours, theirs = random_model(config).train(), type(opened[1])(opened[1].config).eval()
    theirs.load_state_dict(opened[1].state_dict())
    at_BK = torch.tensor([[1, 5, 6, 0], [2, 12, 0, 0]])
    targets_BK = torch.where(at_BK > 0, TOKENS.gather(1, at_BK), -100)
    labels_BT = torch.full_like(TOKENS, -100)
    rows, slots = (at_BK > 0).nonzero(as_tuple=True)
    labels_BT[rows, at_BK[rows, slots]] = targets_BK[rows, slots]
    pairs = Pairs(torch.zeros(2, 2, dtype=torch.long), torch.stack([LABELS, torch.full((2,), -100)], 1))
    name_of_label = {"bert": "next_sentence_label", "albert": "sentence_order_label"}[theirs.config.model_type]
    names = family_of(config).names(config)
    positions_BT = torch.arange(20).expand(2, -1)
    for _ in range(20):
        arguments = (TOKENS, positions_BT, torch.zeros_like(TOKENS), targets_BK)
        mlm, pair, wrong = ours(*arguments, at_BK=at_BK, segments_BT=SEGMENTS, pairs=pairs)
        expected = theirs(input_ids=TOKENS, token_type_ids=SEGMENTS, labels=labels_BT, **{name_of_label: LABELS})
        loss = mlm / 5 + pair / 2
        torch.testing.assert_close(loss, expected.loss, rtol=0, atol=1e-4)
        assert wrong == (expected[2].argmax(1) != LABELS).sum()
        for model, value in ((ours, loss), (theirs, expected.loss)):
            model.zero_grad()
            value.backward()
        their_weights = dict(theirs.named_parameters())
        for name, weight in ours.named_parameters():
            gradients = [their_weights[hf_name].grad for hf_name in names.of(name)]
            torch.testing.assert_close(weight.grad, torch.cat(gradients), rtol=0, atol=1e-4, msg=name)
        with torch.no_grad():
            for weight in (*ours.parameters(), *theirs.parameters()):
                weight -= 0.05 * weight.grad


@torch.inference_mode()
def test_folders_with_both_heads_load_both_ways(opened, tmp_path):
    ours, theirs = opened
    theirs.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert loaded.config == ours.config
    for (name, weight), expected in zip(loaded.named_parameters(), ours.parameters(), strict=True):
        assert torch.equal(weight, expected), name


def test_weights_with_both_heads_begin_a_training_of_one_and_not_the_reverse(opened, tokenizer_file, tmp_path):
    ours, one = opened[0], dataclasses.replace(opened[0].config, pair_head=False)
    export(ours.named_parameters(), ours.config, VOCABULARY, tokenizer_file, tmp_path / "both")
    assert len(initial_weights.raw_files(tmp_path / "both", one)) == 3
    model = Transformer(one, VOCABULARY)
    load_into(model, tmp_path / "both")
    assert torch.equal(model.transform.dense.weight, ours.transform.dense.weight)
    export(model.named_parameters(), one, VOCABULARY, tokenizer_file, tmp_path / "one")
    with pytest.raises(ConfigError, match=r"has pair_head false, model\.pair_head is true; set model\.pair_head=false"):
        initial_weights.raw_files(tmp_path / "one", ours.config)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_sizes_with_both_heads(name):
    vocabulary, parameters = PUBLISHED[name]
    config = dataclasses.replace(preset_config(name), pair_head=True)
    with without_values():
        model = Transformer(config, vocabulary)
    assert config.parameters(vocabulary) == parameters == sum(weight.numel() for weight in model.parameters())


def test_the_encoders_of_albert_have_the_published_sizes():
    """Lan et al. 2020 count the pooler, and not the head of masked language modelling."""
    sizes = {"base": 11_683_584, "large": 17_683_968, "xlarge": 58_724_864, "xxlarge": 222_595_584}
    for name, published in sizes.items():
        config = preset_config(f"albert_{name}")
        head = (config.width + 1) * 128 + 2 * 128 + 30_000
        assert config.parameters(30_000) - head + (config.width + 1) * config.width == published
    assert BERT.parameters(10) < dataclasses.replace(BERT, pair_head=True).parameters(10)
