"""Pseudo-log-likelihoods against their definition, and what an encoder is asked and refused.

Scores by detection, with the folder of a discriminator.
"""

import numpy as np
import pytest
import torch

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.benchmarks.choices import Lambada
from headrace.train.evaluation.benchmarks.held_out import HeldOutOrder
from headrace.train.evaluation.benchmarks.minimal_pairs import Agreement
from headrace.train.evaluation.scoring import score, score_all
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_folder import export
from headrace.train.inference.encoder_likelihood import DetectionLikelihood, MaskedLikelihood
from headrace.train.inference.generator import generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR
from tests.train.evaluation.test_benchmarks import STORIES, sources
from tests.train.families.test_encoders import BERT, DISCRIMINATOR


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random encoder with a tokenizer of short pieces, as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("encoder")
    (folder / "given.json").write_text(Trained(vocabulary_size=300).train(["the mill"], (CLASS, SEPARATOR, MASK)))
    model = Transformer(BERT, 263)
    initialize(model, 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.dim() >= 2 else 1)
    export(model.named_parameters(), BERT, 263, folder / "given.json", folder / "hf")
    return folder / "hf"


def opened(folder, **settings) -> InferenceModel:
    return open_folder(folder, Inference(device="cpu", **settings))


def likelihood_of(model: InferenceModel) -> MaskedLikelihood:
    assert isinstance(model.likelihood, MaskedLikelihood)
    return model.likelihood


@torch.inference_mode()
def slowly(model: InferenceModel, text: np.ndarray, form: str) -> float:
    """The definition: one row at a time, with all logits of the row."""
    tokens = likelihood_of(model).tokens
    sequence, total = [tokens.first, *text.tolist(), tokens.last], 0.0
    for place in range(1, len(sequence) - 1):
        hidden = sequence.copy()
        end = place + 1
        while form == "within_word_l2r" and tokens.continues_V[sequence[end]]:
            end += 1
        hidden[place:end] = [tokens.mask] * (end - place)
        row = torch.tensor([hidden])
        logits_1TV = likelihood_of(model).network(row, torch.arange(len(hidden))[None], torch.zeros_like(row))
        total += logits_1TV[0, place].log_softmax(0)[sequence[place]].item()
    return total


def queries(model: InferenceModel, texts: list[str]) -> list[TokenQuery]:
    start = np.array([model.tokenizer.end_of_text])
    return [TokenQuery(start, ids) for ids in model.tokenizer.encode(texts)]


@pytest.mark.parametrize("form", ["original", "within_word_l2r"])
@pytest.mark.parametrize("batch_tokens", [30, 4096])
def test_it_is_the_sum_over_tokens_hidden_one_by_one(folder, form, batch_tokens):
    model = opened(folder, pseudo_likelihood=form, batch_tokens=batch_tokens)
    asked = queries(model, ["the mill turns", "a wheel", "the mill turns", "x"])
    found = [answer.log_likelihood for answer in model.likelihood.answers(asked)]
    assert found == pytest.approx([slowly(model, query.continuation, form) for query in asked], abs=1e-4)


def test_the_two_forms_differ_where_a_word_has_pieces(folder):
    found = [
        opened(folder, pseudo_likelihood=form).likelihood.answers(queries(opened(folder), ["zzz"]))[0].log_likelihood
        for form in ("original", "within_word_l2r")
    ]
    assert abs(found[0] - found[1]) > 1e-3


def test_texts_longer_than_the_window_are_cut(folder):
    model = opened(folder)
    start = np.array([model.tokenizer.end_of_text])
    text = np.arange(10, 70)
    context = TokenQuery(np.arange(10, 50), text[:5])
    answers = model.likelihood.answers([TokenQuery(start, text), context])
    assert [answer.tokens for answer in answers] == [60, 5]
    assert all(np.isfinite(answer.log_likelihood) for answer in answers)
    tally = model.likelihood.tally([TokenQuery(start, text), context])
    assert (tally.split_continuations, tally.truncated_contexts, tally.truncated_tokens) == (1, 1, 40 - 17)


def test_tokens_hidden_one_by_one_are_read_in_batches(folder, monkeypatch):
    model, passes = opened(folder), []
    forward = Transformer.forward
    monkeypatch.setattr(Transformer, "forward", lambda self, *a, **b: passes.append(1) or forward(self, *a, **b))
    model.likelihood.answers(queries(model, [f"the mill {n} turns" for n in range(8)]))
    assert len(passes) == 8


def test_minimal_pairs_are_scored(folder):
    for benchmark in (Agreement(limit=4), HeldOutOrder(limit=4)):
        found = score("pairs", benchmark, sources(documents=STORIES), None, opened(folder))
        assert found.scores.items == 4
        assert found.scores.tally.queries == 8


def test_a_benchmark_of_another_kind_is_refused(folder, tmp_path):
    evaluation = Evaluation(benchmarks={"last_word": Lambada(paths=("a.jsonl",))})
    with pytest.raises(ConfigError) as error:
        list(score_all(evaluation, None, {}, opened(folder)))
    assert str(error.value) == (
        "evaluation.benchmarks.last_word: type lambada needs a text's likelihood from left to right, and model.stack "
        "is encoder; leave it out: evaluation=pairs holds what every stack can answer"
    )


def test_an_encoder_continues_no_text(folder):
    with pytest.raises(
        ConfigError, match=r"is an encoder \(model.stack=encoder\), which continues no text; give a decoder"
    ):
        generator_of(opened(folder))


@pytest.fixture(scope="module")
def discriminator(tmp_path_factory):
    """A random discriminator, as a Hugging Face folder."""
    folder, config = tmp_path_factory.mktemp("electra"), DISCRIMINATOR
    (folder / "given.json").write_text(Trained(vocabulary_size=300).train(["the mill"], (CLASS, SEPARATOR, MASK)))
    model = Transformer(config, 263)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    export(model.named_parameters(), config, 263, folder / "given.json", folder / "hf")
    return folder / "hf"


@torch.inference_mode()
def test_a_score_is_the_probability_that_no_token_was_replaced(discriminator):
    model = open_folder(discriminator, Inference(device="cpu"))
    likelihood = model.likelihood
    assert isinstance(likelihood, DetectionLikelihood)
    start = np.array([model.tokenizer.end_of_text])
    texts = model.tokenizer.encode(["the mill", " turns a wheel", "water " * 12])
    asked = [TokenQuery(start, texts[0]), TokenQuery(texts[0], texts[1]), TokenQuery(start, texts[2])]
    found = likelihood.answers(asked)
    for query, answer in zip(asked[:2], found, strict=False):
        context = [] if query.context is start else query.context.tolist()
        row = torch.tensor([[likelihood.tokens.first, *context, *query.continuation.tolist(), likelihood.tokens.last]])
        logits = model.network(row, torch.arange(row.shape[1])[None], torch.zeros_like(row))[
            0, 1 + len(context) : -1, 0
        ]
        assert answer.log_likelihood == pytest.approx((1 - logits.sigmoid()).double().log().sum().item(), rel=1e-4)
    assert found[2].tokens == len(texts[2]) > 24
    scored = score("pairs", Agreement(limit=8), sources(documents=STORIES), None, model).scores
    assert (scored.items, scored.tally.queries) == (8, 16)


def test_a_discriminator_continues_no_text(discriminator):
    with pytest.raises(ConfigError, match=r"is an encoder \(model.stack=discriminator\), which continues no text"):
        generator_of(open_folder(discriminator, Inference(device="cpu")))
