"""ELECTRA equals the classes of ``transformers``: logits, gradients, a training of both models, saved folders."""

import dataclasses

import pytest
import torch
import transformers

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.families import initial_weights
from headrace.train.families.hf_folder import export, load, load_into
from headrace.train.model.pair import Pair, drawn_tokens
from tests.train.families.test_encoders import PADDING, TOKENS, tokenizer_file
from tests.train.model.test_transformer import VOCABULARY

__all__ = ["tokenizer_file"]
ELECTRA = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=64, stack="discriminator", norm_place="post",
    norm_epsilon=1e-12, activation="gelu_exact", segments=2, embedding_norm=True, embedding_width=16,
    generator_width=16,
)  # fmt: skip
SHAPES = {"small": ELECTRA, "base": dataclasses.replace(ELECTRA, embedding_width=None, activation="gelu_exact")}
CLASSES = {"discriminator": transformers.ElectraForPreTraining, "generator": transformers.ElectraForMaskedLM}
MASKED = torch.tensor([[1, 5, 6, 0], [2, 12, 0, 0]])
TARGETS = torch.where(MASKED > 0, TOKENS.gather(1, MASKED), -100)


def random_pair(config: ModelConfig) -> Pair:
    model, generator = Pair(config, VOCABULARY), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model.eval()


@pytest.fixture(scope="module", params=SHAPES)
def opened(request, tokenizer_file, tmp_path_factory):
    """A random pair of ours, its folder, and both models as transformers opens them there."""
    folder, ours = tmp_path_factory.mktemp("electra"), random_pair(SHAPES[request.param])
    export(ours.named_parameters(), ours.config, VOCABULARY, tokenizer_file, folder)
    theirs = {}
    for name, kind in CLASSES.items():
        theirs[name], info = kind.from_pretrained(folder / name.removeprefix("discriminator"), output_loading_info=True)
        assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    assert sum(parameter.numel() for parameter in ours.parameters()) == ours.config.parameters(VOCABULARY)
    return ours, folder, theirs


def rows(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions and documents of two packed rows, each of documents of these lengths, then padding."""
    filling = 20 - sum(lengths)
    positions = torch.cat([torch.arange(length) for length in (*lengths, filling)])
    documents = torch.cat([*(torch.full((n,), i) for i, n in enumerate(lengths)), torch.full((filling,), -1)])
    return positions.expand(2, -1), documents.expand(2, -1)


@torch.inference_mode()
def test_padded_and_packed_rows_have_the_logits_of_transformers(opened):
    ours, _, theirs = opened
    mask_BT = (torch.arange(20) < 13).expand(2, -1)
    padded_BT = torch.where(mask_BT, TOKENS, PADDING)
    for name, model in (("discriminator", ours.discriminator), ("generator", ours.generator)):
        expected = theirs[name].eval()(input_ids=padded_BT, attention_mask=mask_BT.long()).logits
        found = model(padded_BT, *rows(13)).view_as(expected)
        torch.testing.assert_close(found[mask_BT], expected[mask_BT], rtol=0, atol=1e-4)
        alone = [theirs[name](input_ids=part).logits for part in (TOKENS[:, :8], TOKENS[:, 8:])]
        packed = model(TOKENS, *rows(8, 12))
        torch.testing.assert_close(packed.view_as(torch.cat(alone, 1)), torch.cat(alone, 1), rtol=0, atol=1e-4)


def test_gradients_and_a_short_training_of_both_are_those_of_transformers(opened):
    """20 steps of plain gradient descent. In transformers the embeddings of both models are tied by hand."""
    config = opened[0].config
    ours, theirs = random_pair(config), {name: type(model)(model.config) for name, model in opened[2].items()}
    for name, model in theirs.items():
        model.load_state_dict(opened[2][name].state_dict())
    theirs["generator"].electra.embeddings = theirs["discriminator"].electra.embeddings
    theirs["generator"].generator_lm_head.weight = theirs["discriminator"].electra.embeddings.word_embeddings.weight
    hidden_BT = TOKENS.scatter(1, MASKED, torch.where(MASKED > 0, 3, TOKENS[:, :1]))
    labels_BT = torch.full_like(TOKENS, -100).scatter(1, MASKED, TARGETS)
    draws_BK = torch.randint(2**53, MASKED.shape, generator=torch.Generator().manual_seed(5))
    wrong = 0
    for _ in range(20):
        mlm, detection, errors, replaced = ours(hidden_BT, *rows(20), TARGETS, MASKED, draws_BK)
        filled = theirs["generator"](input_ids=hidden_BT, labels=labels_BT)
        given_BT = TOKENS.clone()
        for row, slot in (MASKED > 0).nonzero().tolist():
            place = MASKED[row, slot]
            shares = filled.logits[row, place].detach().double().softmax(0).cumsum(0)
            given_BT[row, place] = int((shares <= draws_BK[row, slot].item() / 2**53).sum())
        labels = (given_BT != TOKENS).long()
        found = theirs["discriminator"](input_ids=given_BT, labels=labels)
        torch.testing.assert_close(mlm / 5, filled.loss, rtol=0, atol=1e-4)
        torch.testing.assert_close(detection / TOKENS.numel(), found.loss, rtol=0, atol=1e-4)
        assert replaced == labels.sum() > 0
        assert errors == ((found.logits > 0) != labels.bool()).sum()
        wrong += errors.item()
        ours.zero_grad()
        for model in theirs.values():
            model.zero_grad()
        (mlm / 5 + 50 * detection / TOKENS.numel()).backward()
        (filled.loss + 50 * found.loss).backward()
        their_embedding = theirs["discriminator"].electra.embeddings.word_embeddings.weight
        torch.testing.assert_close(ours.discriminator.embedding.weight.grad, their_embedding.grad, rtol=0, atol=1e-4)
        weights = {id(weight): weight for model in theirs.values() for weight in model.parameters()}
        with torch.no_grad():
            for weight in (*ours.parameters(), *weights.values()):
                weight -= 0.003 * weight.grad if weight.grad is not None else 0
    assert wrong


@torch.inference_mode()
def test_saved_folders_load_both_ways(opened, tmp_path):
    ours, folder, theirs = opened
    for name, model in theirs.items():
        model.save_pretrained(tmp_path / name.removeprefix("discriminator"))
        loaded, part = load(tmp_path / name.removeprefix("discriminator")), getattr(ours, name)
        assert loaded.config == part.config
        assert torch.equal(loaded(TOKENS, *rows(20)), part(TOKENS, *rows(20)))
    again = Pair(ours.config, VOCABULARY)
    load_into(again, tmp_path)
    for (name, weight), expected in zip(again.named_parameters(), ours.parameters(), strict=True):
        assert torch.equal(weight, expected), name
    assert again.generator.head.weight is again.discriminator.embedding.weight
    assert len(initial_weights.raw_files(folder, ours.config)) == 6
    other = dataclasses.replace(ours.config, generator_width=8)
    with pytest.raises(ConfigError, match=r"generator has width 16, model\.width is 8"):
        initial_weights.raw_files(folder, other)


def test_tokens_are_drawn_with_their_probabilities():
    """Equally spaced numbers give each token its share, and the largest one gives the last possible token."""
    logits_V = torch.tensor([0.0, -torch.inf, 2.0, 1.0, -3.0, -torch.inf])
    uniform_n = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    drawn_n = drawn_tokens(logits_V.expand(100_000, -1), uniform_n)
    shares_V = torch.bincount(drawn_n, minlength=6) / 100_000
    torch.testing.assert_close(shares_V, logits_V.softmax(0), rtol=0, atol=1e-4)
    assert drawn_tokens(logits_V[None], torch.tensor([1 - 2.0**-53], dtype=torch.float64)).tolist() == [4]


def test_impossible_shapes_are_refused():
    cases = {
        "output_transform true is not for stack discriminator": {"output_transform": True},
        "embedding_width 16 needs output_transform, or": {"stack": "encoder", "generator_width": None},
        "generator_width 16 needs stack discriminator and tied": {"stack": "encoder", "output_transform": True},
        "generator_width 12 is no multiple of the width of a head, 8": {"generator_width": 12},
        "embedding_width 16 works with neither scaled_embedding": {"scaled_embedding": True},
    }
    for message, change in cases.items():
        with pytest.raises(ConfigError, match=message):
            dataclasses.replace(ELECTRA, **change)
