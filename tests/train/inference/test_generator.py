"""Generated texts, compared with new calls of the model for each token; no text depends on the others.

Tokens that may be chosen, and how often each is.
"""

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.distributed.processes import Ranks
from headrace.train.inference import generator as module
from headrace.train.inference import sharing
from headrace.train.inference.generator import Generator, SharedGenerator, choose, random_of
from headrace.train.inference.settings import Sampling
from headrace.train.inference.sharing import Sharing
from headrace.train.model.transformer import Transformer
from tests.train.model.test_transformer import GPT1, GPT2, LLAMA, VOCABULARY, random_model
from tests.train.small_models import model_of

CPU = torch.device("cpu")
PROMPTS = ["a", "Hello", "", "The mill wheel", "zz", "a", "Hello there, miller", "Q"]
ANCESTRAL = Sampling(max_tokens=12, temperature=1.0)


class Letters:
    """One token a letter, of which the 53rd ends a text."""

    letters = "".join(map(chr, range(65, 91))) + "".join(map(chr, range(97, 123)))
    end_of_text = end = 52

    def encode(self, texts):
        return [np.array([max(0, self.letters.find(letter)) for letter in text], np.int64) for text in texts]

    def decode(self, ids, skip_special_tokens=False):
        return "".join((*self.letters, "" if skip_special_tokens else "<end>")[number] for number in ids)


def generator(model, window: int = 24, **others) -> Generator:
    return Generator(model_of(model, Letters(), VOCABULARY, window), **others)


@torch.no_grad()
def one_by_one(model: Transformer, prompt: str, max_tokens: int) -> list[int]:
    """Greedy new tokens by training's forward, up to the end-of-text token."""
    tokens = Letters().encode([prompt])[0].tolist() or [52]
    tokens, new = tokens[-(24 - max_tokens) :], []
    while len(new) < max_tokens and 52 not in new:
        sequence = torch.tensor([tokens + new])
        logits = model(sequence, torch.arange(sequence.shape[1])[None], torch.zeros_like(sequence))
        new.append(int(logits[0, -1].argmax()))
    return new


@pytest.mark.parametrize("config", [GPT1, GPT2, LLAMA], ids=["gpt1", "gpt2", "llama"])
def test_greedy_texts_are_those_of_the_model_asked_anew(config):
    model = random_model(config)
    found = generator(model, batch_rows=3).generate(PROMPTS, Sampling(max_tokens=12))
    assert [list(one.tokens) for one in found] == [one_by_one(model, prompt, 12) for prompt in PROMPTS]
    assert [one.prompt for one in found] == PROMPTS
    assert [one.lost_tokens for one in found] == [max(0, len(prompt) - 12) for prompt in PROMPTS]


@pytest.mark.usefixtures("steady_products")
def test_texts_do_not_depend_on_the_batch_or_on_the_order():
    model = random_model(LLAMA)
    expected = generator(model, batch_rows=1).generate(PROMPTS, ANCESTRAL)
    for batch_rows in (2, 3, 16):
        assert generator(model, batch_rows=batch_rows).generate(PROMPTS, ANCESTRAL) == expected
    backwards = generator(model).generate(PROMPTS[1:][::-1], ANCESTRAL)
    assert backwards[::-1][:4] == expected[1:5]
    alone = [generator(model).generate([prompt], ANCESTRAL)[0] for prompt in PROMPTS[:5]]
    assert alone == expected[:5]


def test_the_seed_and_the_copy_of_a_prompt_make_other_texts():
    model = random_model(LLAMA)
    found = generator(model).generate(["a", "a"], ANCESTRAL)
    other = generator(model).generate(["a"], Sampling(max_tokens=12, temperature=1.0, seed=1))
    assert len({one.text for one in (*found, *other)}) == 3


def test_what_is_shown_adds_up_to_the_texts():
    shown = [""] * len(PROMPTS)

    def show(number, text):
        shown[number] += text

    sampling = Sampling(max_tokens=12, temperature=1.5, stops=("A", "q"))
    found = generator(random_model(GPT2), batch_rows=4).generate(PROMPTS, sampling, show)
    assert [one.text for one in found] == shown
    assert {one.ending for one in found} >= {"stop", "max_tokens"}
    for one in found:
        assert "A" not in one.text
        assert "q" not in one.text
        assert len(one.tokens) == 12 or one.ending != "max_tokens"


def llama_of_transformers():
    """A random LLaMA of transformers, and a function that gives its logits as our models do."""
    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=53, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=24, initializer_range=0.3,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()

    def forward(tokens_BT, positions_BT, documents_BT):
        return model(input_ids=tokens_BT).logits

    return model, forward


def test_a_model_of_transformers_writes_what_its_own_generate_does():
    model, forward = llama_of_transformers()
    found = generator(forward, batch_rows=3).generate(PROMPTS, Sampling(max_tokens=10))
    for prompt, one in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([Letters().encode([prompt])[0].tolist()[-14:] or [52]])
        expected = model.generate(ids, max_new_tokens=10, do_sample=False, eos_token_id=52, pad_token_id=52)
        assert list(one.tokens) == expected[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("sampling", [Sampling(max_tokens=12, temperature=2.0), Sampling(max_tokens=12, beams=3)])
def test_no_row_of_a_rounded_vocabulary_is_written(sampling):
    model = model_of(random_model(GPT2), Letters(), VOCABULARY, 24)
    limited = dataclasses.replace(model, tokens=20, ends=(0,))
    tokens = [token for one in Generator(limited).generate(PROMPTS, sampling) for token in one.tokens]
    unlimited = [token for one in Generator(model).generate(PROMPTS, sampling) for token in one.tokens]
    assert max(tokens) < 20 < max(unlimited)


def test_a_window_without_room_is_refused():
    with pytest.raises(ConfigError) as error:
        generator(random_model(GPT2)).generate(["a"], Sampling(max_tokens=24))
    message = (
        "generation.max_tokens: is 24, the model's window has 24 tokens, one of them for a prompt; give 23 or less"
    )
    assert str(error.value) == message


@pytest.mark.parametrize(("window", "most"), [(24, 12), (128, 64), (129, 128), (512, 128)])
def test_without_a_number_a_text_has_128_tokens_or_half_a_shorter_window(window, most):
    """A model of a small run can be tried with the command that the run prints."""
    network = random_model(ModelConfig(layers=1, width=32, heads=4, kv_heads=4, context=window, mlp_width=64))
    no_end = dataclasses.replace(model_of(network, Letters(), VOCABULARY, window), ends=(VOCABULARY,))
    (written,) = Generator(no_end).generate(["Hello"], Sampling())
    assert len(written.tokens) == most


def test_the_last_token_that_fits_is_written():
    config = ModelConfig(layers=1, width=32, heads=4, kv_heads=4, context=24, mlp_width=64)
    (found,) = generator(random_model(config)).generate(["Hello"], Sampling(max_tokens=23, temperature=1.0))
    assert found.lost_tokens == 4
    assert found.ending == "end_of_text" or len(found.tokens) == 23


@pytest.mark.usefixtures("steady_products")
def test_two_ranks_write_what_one_does(monkeypatch):
    """Each rank is a thread here; copies of a prompt, which differ in their random numbers, stay together."""
    both, boxes, rank_here = threading.Barrier(2), [None, None], threading.local()

    def gather(own):
        boxes[rank_here.number] = own
        both.wait(300)
        found = list(boxes)
        both.wait(300)
        return found

    monkeypatch.setattr(sharing, "gather", gather)
    monkeypatch.setattr(module, "ROUND_BATCHES", 1)
    monkeypatch.setattr(module, "BATCH_ROWS", 2)
    model, told = random_model(LLAMA), [[], []]
    expected = generator(model).generate(PROMPTS, ANCESTRAL)
    assert expected[0].text != expected[5].text, "two copies of one prompt"

    def on(rank):
        rank_here.number = rank
        own = SharedGenerator(
            model_of(model, Letters(), VOCABULARY, 24), Sharing(Ranks(rank, 2, rank, 2), told[rank].append)
        )
        return own.generate(PROMPTS, ANCESTRAL)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(on, range(2))) == [expected, expected]
    assert told[0] == told[1]
    assert (sum(told[0]), len(told[0])) == (len(PROMPTS), 2)


PROBABILITIES = [0.1, 0.4, 0.05, 0.3, 0.15]


def shares(sampling: Sampling, draws: int = 4000) -> list[float]:
    """Returns how often each token is chosen from ``PROBABILITIES``."""
    logits_BV = torch.tensor(PROBABILITIES).log().expand(draws, -1)
    generators = [random_of(3, [1, 2], copy) for copy in range(draws)]
    return (np.bincount(choose(logits_BV, sampling, generators), minlength=5) / draws).tolist()


def test_greedy_takes_the_likeliest_and_of_equal_ones_the_first():
    assert choose(torch.tensor([[0.0, 2.0, 2.0], [5.0, 1.0, 2.0]]), Sampling(), []) == [1, 0]


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(temperature=1.0), PROBABILITIES),
        (Sampling(temperature=0.5), [p**2 / sum(q**2 for q in PROBABILITIES) for p in PROBABILITIES]),
        (Sampling(temperature=1.0, top_k=2), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(temperature=1.0, top_k=99), PROBABILITIES),
        (Sampling(temperature=1.0, top_p=0.69), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(temperature=1.0, top_p=0.71), [0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85]),
        (Sampling(temperature=1.0, top_p=0.001), [0, 1, 0, 0, 0]),
        (Sampling(temperature=1.0, top_p=1.0), PROBABILITIES),
        # of the three likeliest, 0.4 / 0.85 = 0.47 and 0.7 / 0.85 = 0.82: the mass is that of the kept ones
        (Sampling(temperature=1.0, top_k=3, top_p=0.75), [0, 4 / 7, 0, 3 / 7, 0]),
    ],
)
def test_tokens_come_as_often_as_their_probability(sampling, expected):
    found = shares(sampling)
    assert [share == 0 for share in found] == [share == 0 for share in expected]
    assert found == pytest.approx(expected, abs=0.03)


def test_random_numbers_are_of_the_seed_the_prompt_and_the_copy():
    first = random_of(0, [5, 6], 0).random(4).tolist()
    assert random_of(0, [5, 6], 0).random(4).tolist() == first
    for other in (random_of(1, [5, 6], 0), random_of(0, [5, 7], 0), random_of(0, [5, 6], 1)):
        assert other.random(4).tolist() != first
