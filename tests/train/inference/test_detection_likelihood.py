"""Scores by detection, and the commands with the folder of a discriminator."""

import numpy as np
import pytest
import torch

from headrace.data_prep.tokenizer import Trained
from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation.benchmarks.agreement import Agreement
from headrace.train.evaluation.scoring import score
from headrace.train.families.hf_folder import export
from headrace.train.inference.detection_likelihood import DetectionLikelihood
from headrace.train.inference.generation.generator import generator_of
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.pair import Pair
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR
from tests.command_line import headrace_here
from tests.train.evaluation.test_benchmarks import STORIES, sources
from tests.train.families.test_electra import ELECTRA


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random discriminator with its generator, as a Hugging Face folder."""
    folder, model = tmp_path_factory.mktemp("electra"), Pair(ELECTRA, 263)
    (folder / "given.json").write_text(Trained(vocabulary_size=300).train(["the mill"], (CLASS, SEPARATOR, MASK)))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    export(model.named_parameters(), ELECTRA, 263, folder / "given.json", folder / "hf")
    return folder / "hf"


@torch.inference_mode()
def test_a_score_is_the_probability_that_no_token_was_replaced(folder):
    model = open_folder(folder, Inference(device="cpu"))
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


def test_commands_name_the_generator(folder):
    done = headrace_here("fill", "a [MASK]", "--model", str(folder))
    assert done.returncode == 2
    wrong = "holds a model of stack discriminator, which fills no masked position"
    assert f"{wrong}; give its generator: --model {folder}/generator\n" in done.stderr
    done = headrace_here("fill", "a [MASK]", "--model", str(folder / "generator"), "--top", "2")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stderr
    with pytest.raises(ConfigError, match=r"is an encoder \(model.stack=discriminator\), which continues no text"):
        generator_of(open_folder(folder, Inference(device="cpu")))


def test_settings_that_contradict_each_other_are_refused():
    electra = ("model=electra_demo", "objective=replaced_tokens", "evaluation=pairs", "packing.row_tokens=128")
    cases = {
        "objective: masked trains a stack encoder, and model.stack is discriminator; give a model of stack encoder, or "
        "an objective that trains a stack discriminator: replaced_tokens": ("objective=masked",),
        "model.generator_width: is null, and objective=replaced_tokens trains a discriminator with its generator": (
            "model.generator_width=null",
        ),
        "objective: replaced_tokens trains a stack discriminator, and model.stack is encoder": ("model=bert_demo",),
    }
    for message, overrides in cases.items():
        done = headrace_here("config", *electra, *overrides)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert headrace_here("config", "experiment=electra_demo").returncode == 0
