"""Replaced-token detection: rows, sums, a training as that of transformers, and one with an export."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.train.checkpoint.saver import read_checkpoint
from headrace.train.context import LEFT_TO_RIGHT
from headrace.train.data.batches import DRAW_BITS, IGNORED
from headrace.train.data.order import row_generator
from headrace.train.distributed import processes
from headrace.train.families.hf_folder import export, load
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.masked import Masked
from headrace.train.weights import Weights
from headrace_courses.replaced_tokens import ReplacedTokens
from headrace_courses.replaced_tokens_model import Discriminator, drawn_tokens
from tests.train import updates
from tests.train.conftest import inputs
from tests.train.families.test_encoders import DISCRIMINATOR, TOKENS, trained
from tests.train.model.test_transformer import VOCABULARY
from tests.train.objectives.test_masked import HIDDEN, ROW, rows, texts
from tests.train.objectives.test_masked import VOCABULARY as MASKED_VOCABULARY
from tests.train.objectives.test_reconstruction import masking_inputs
from tests.train.objectives.two_terms import ENCODER, encoder_batch
from tests.train.test_weights import settings

FIXTURES = (inputs,)
VALUES = 260
SMALL = dataclasses.replace(ENCODER, stack="discriminator", output_transform=False, embedding_width=16)
MASKED = torch.tensor([[1, 5, 6, 0], [2, 12, 0, 0]])
TARGETS = torch.where(MASKED > 0, TOKENS.gather(1, MASKED), -100)


def test_rows_are_those_of_masked_language_modelling_with_a_number_for_each_draw():
    objective = ReplacedTokens()
    found = rows(objective, 200)
    draws = []
    for number, row in enumerate(found):
        assert {name: len(values) for name, values in row.items()} == objective.lengths(ROW)
        generator = row_generator(1, "training", number)
        expected = objective.masking.row(texts(number), ROW, MASKED_VOCABULARY, generator)
        assert all(np.array_equal(row[name], values) for name, values in expected.items())
        assert np.array_equal(row["draws"], generator.integers(2**DRAW_BITS, size=len(row["masked"])))
        draws += row["draws"].tolist()
    assert 0.48 < np.mean(draws) / 2**DRAW_BITS < 0.52
    hidden = [row["inputs"][row["masked"]][row["targets"] != IGNORED] for row in found]
    kept = np.concatenate([row["targets"][row["targets"] != IGNORED] for row in found])
    is_mask = np.concatenate(hidden) == HIDDEN
    assert 0.83 < is_mask.mean() < 0.87
    assert (np.concatenate(hidden)[~is_mask] == kept[~is_mask]).all()
    counts = objective.counts({name: np.stack([row[name] for row in found]) for name in found[0]})
    tokens = sum(int((row["documents"] >= 0).sum()) for row in found)
    assert counts == {"mlm": len(kept), "detection": tokens, "errors": tokens, "replaced": tokens}


def test_both_models_are_trained_and_the_discriminator_is_exported_and_scored(tmp_path, inputs, run_stage):
    values = settings(steps=4, validate_every=4, evaluate_every=4, evaluate=["agreement"])
    values["model"] = dataclasses.asdict(dataclasses.replace(SMALL, context=64))
    values["evaluation"]["benchmarks"].pop("validation")
    values["objective"] = {"type": "replaced_tokens", "masking": {"type": "masked", "mask_share": 0.9}}
    stage = decode(Weights, values)
    artifact = run_stage(stage, masking_inputs(inputs, tmp_path, run_stage), tmp_path / "weights")
    rows = read_metrics(artifact.path("metrics.jsonl"))
    last = next(row for row in rows if "validation_loss" in row)
    for metric in ("loss", "validation_loss"):
        assert np.isclose(last[metric], last[f"{metric}:mlm"] + 50 * last[f"{metric}:detection"], rtol=1e-6)
        assert 0 < last[f"{metric}:replaced"] < 0.25
        assert 0 <= last[f"{metric}:errors"] <= 1
    assert "bits_per_byte" not in last
    assert any("agreement" in str(row) for row in rows)
    discriminator = load(artifact.folder / "hf")
    assert discriminator.config == stage.model
    path = next(path for path in (artifact.folder / "checkpoints").iterdir() if path.is_dir())
    resumed = read_checkpoint(path, stage.model, VALUES, LEFT_TO_RIGHT, processes.start("cpu"))
    for (name, weight), expected in zip(resumed.named_parameters(), discriminator.parameters(), strict=True):
        assert torch.equal(weight, expected), name


def replaced_means(model: Discriminator, whole) -> dict[str, torch.Tensor]:
    """The means of a discriminator and its generator in plain PyTorch, token by token."""
    rows = [whole[name] for name in ("inputs", "positions", "documents")]
    logits_BTV = model.generator(*rows)
    original_BT, given_BT, mlm = rows[0].clone(), rows[0].clone(), []
    for row, slot in (whole["targets"] != -100).nonzero().tolist():
        place, target, draw = (whole[name][row, slot].item() for name in ("masked", "targets", "draws"))
        log_probs_V = logits_BTV[row, place].log_softmax(0)
        mlm.append(-log_probs_V[target])
        original_BT[row, place] = target
        given_BT[row, place] = int((log_probs_V.detach().double().exp().cumsum(0) <= draw / 2**53).sum())
    is_token_BT = rows[2] >= 0
    logits = Transformer.forward(model, given_BT, *rows[1:])[is_token_BT][:, 0]
    labels = (given_BT != original_BT)[is_token_BT]
    detection = functional.binary_cross_entropy(logits.sigmoid(), labels.float())
    errors = ((logits.detach() > 0) != labels).float().mean()
    return {"mlm": torch.stack(mlm).mean(), "detection": detection, "errors": errors, "replaced": labels.float().mean()}


def test_sums_and_gradients_are_those_of_plain_pytorch():
    objective = ReplacedTokens()
    model = objective.build(SMALL, updates.VOCABULARY)
    initialize(model, updates.SEED)
    whole = encoder_batch(objective)
    counts = objective.counts({name: values.numpy() for name, values in whole.items()})
    found, expected = objective.losses(model, whole), replaced_means(model, whole)
    for name, mean in expected.items():
        assert found[name].item() / counts[name] == pytest.approx(mean.item(), rel=1e-5)
    gradients = [
        torch.autograd.grad(sum(weight * means[name] for name, weight in objective.weights.items()), model.parameters())
        for means in ({name: value / counts[name] for name, value in found.items()}, expected)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_a_short_training_of_both_is_that_of_transformers(tmp_path):
    """20 steps of plain gradient descent. In transformers the embeddings of both models are tied by hand."""
    ours, generator = Discriminator(DISCRIMINATOR, VOCABULARY, 16), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    ours.eval()
    own = ((name, weight) for name, weight in ours.named_parameters() if not name.startswith("generator."))
    export(own, DISCRIMINATOR, VOCABULARY, trained(tmp_path), tmp_path / "discriminator")
    rest = (ours.generator.config, VOCABULARY, tmp_path / "tokenizer.json", tmp_path / "generator")
    export(ours.generator.named_parameters(), *rest)
    kinds = {"discriminator": transformers.ElectraForPreTraining, "generator": transformers.ElectraForMaskedLM}
    theirs = {name: kind.from_pretrained(tmp_path / name).eval() for name, kind in kinds.items()}
    theirs["generator"].electra.embeddings = theirs["discriminator"].electra.embeddings
    theirs["generator"].generator_lm_head.weight = theirs["discriminator"].electra.embeddings.word_embeddings.weight
    hidden_BT = TOKENS.scatter(1, MASKED, torch.where(MASKED > 0, 3, TOKENS[:, :1]))
    labels_BT = torch.full_like(TOKENS, -100).scatter(1, MASKED, TARGETS)
    draws_BK = torch.randint(2**53, MASKED.shape, generator=torch.Generator().manual_seed(5))
    positions_BT, documents_BT = torch.arange(20).expand(2, -1), torch.zeros_like(TOKENS)
    wrong = 0
    for _ in range(20):
        mlm, detection, errors, replaced = ours(hidden_BT, positions_BT, documents_BT, TARGETS, MASKED, draws_BK)
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
        for model in (ours, *theirs.values()):
            model.zero_grad()
        (mlm / 5 + 50 * detection / TOKENS.numel()).backward()
        (filled.loss + 50 * found.loss).backward()
        their_embedding = theirs["discriminator"].electra.embeddings.word_embeddings.weight
        torch.testing.assert_close(ours.embedding.weight.grad, their_embedding.grad, rtol=0, atol=1e-4)
        weights = {id(weight): weight for model in theirs.values() for weight in model.parameters()}
        with torch.no_grad():
            for weight in (*ours.parameters(), *weights.values()):
                weight -= 0.003 * weight.grad if weight.grad is not None else 0
    assert wrong


def test_tokens_are_drawn_with_their_probabilities():
    """Equally spaced numbers give each token its share, and the largest one gives the last possible token."""
    logits_V = torch.tensor([0.0, -torch.inf, 2.0, 1.0, -3.0, -torch.inf])
    uniform_n = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    drawn_n = drawn_tokens(logits_V.expand(100_000, -1), uniform_n)
    shares_V = torch.bincount(drawn_n, minlength=6) / 100_000
    torch.testing.assert_close(shares_V, logits_V.softmax(0), rtol=0, atol=1e-4)
    assert drawn_tokens(logits_V[None], torch.tensor([1 - 2.0**-53], dtype=torch.float64)).tolist() == [4]


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match=r"^objective.masking.pairs: is next_sentence, and a discriminator predicts"):
        ReplacedTokens(masking=Masked(pairs="next_sentence"))
    with pytest.raises(ConfigError, match=r"^objective.generator_width: is 12, no multiple of the width of a head, 8"):
        ReplacedTokens(generator_width=12).check_model(SMALL)
    with pytest.raises(ConfigError, match=r"^model.tied: is false"):
        ReplacedTokens().check_model(dataclasses.replace(SMALL, tied=False))
