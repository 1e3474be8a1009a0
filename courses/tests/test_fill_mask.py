"""The likeliest tokens of masked positions, against the probabilities of the network."""

import math
import re

import pytest
import torch

from courses.tests.command_line import courses_here
from headrace.pipeline.core.errors import ConfigError
from headrace_courses.fill_mask import filled
from tests.pipeline.commands.test_generate import folders
from tests.train.inference.test_encoder_likelihood import discriminator, folder, likelihood_of, opened

__all__ = ["discriminator", "folder", "folders"]


@torch.inference_mode()
def test_candidates_are_the_most_probable_tokens_of_each_place(folder):
    model = opened(folder)
    found = filled(model, folder, "the [MASK] turns <mask>.", 3)
    tokens = likelihood_of(model).tokens
    parts = [ids.tolist() for ids in model.tokenizer.encode(["the", " turns", "."])]
    row = torch.tensor([[tokens.first, *parts[0], tokens.mask, *parts[1], tokens.mask, *parts[2], tokens.last]])
    logits = likelihood_of(model).network(row, torch.arange(row.shape[1])[None], torch.zeros_like(row))[0]
    for candidates, place in zip(found, (row[0] == tokens.mask).nonzero().flatten().tolist(), strict=True):
        top = logits[place].softmax(0)[: model.tokens].topk(3)
        assert [one.probability for one in candidates] == pytest.approx(top.values.tolist(), abs=1e-6)
        assert [one.text for one in candidates] == [model.tokenizer.decode([n]).strip() for n in top.indices.tolist()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no place", r"TEXT: has no masked position: 'no place'; write \[MASK\] where a token is to be predicted"),
        ("[MASK] " + "x" * 40, r"TEXT: has \d+ tokens, and the model has 24 positions; give a shorter text"),
    ],
)
def test_a_text_that_cannot_be_filled_is_refused(folder, text, message):
    with pytest.raises(ConfigError, match=message):
        filled(opened(folder), folder, text, 3)


def test_candidates_are_printed_for_each_place(folders):
    done = courses_here("fill_mask", "a [MASK] b [MASK]", "--model", str(folders / "encoder"), "--top-k", "3")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["1"] * 3 + ["2"] * 3
    fields = [re.fullmatch(r"\d  (\d\.\d{4})  (\d+\.\d{3})  .*", line) for line in lines]
    shares, nats = ([float(field[number]) for field in fields] for number in (1, 2))
    assert shares == pytest.approx([math.exp(-value) for value in nats], abs=1e-3)
    assert shares[:3] == sorted(shares[:3], reverse=True)
    assert 0 < sum(shares[:3]) <= 1


@pytest.mark.parametrize(
    ("model", "text", "said"),
    [
        ("encoder", "no place", "TEXT: has no masked position: 'no place'; write [MASK]"),
        ("decoder", "a [MASK]", "/decoder' holds a model of stack decoder, which fills no masked position; give"),
        ("", "a [MASK]", "has no config.json; give the folder of a Hugging Face model"),
    ],
)
def test_what_cannot_be_filled_is_refused(folders, model, text, said):
    done = courses_here("fill_mask", text, "--model", str(folders / model))
    assert done.returncode == 2
    assert said in done.stderr


def test_the_generator_of_a_discriminator_is_named(discriminator):
    done = courses_here("fill_mask", "a [MASK]", "--model", str(discriminator))
    assert done.returncode == 2
    wrong = "holds a model of stack discriminator, which fills no masked position"
    assert f"{wrong}; give the folder of its generator\n" in done.stderr
