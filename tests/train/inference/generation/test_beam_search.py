"""Texts of beam search, compared with all possible texts and with transformers."""

import pytest
import torch

from headrace.train.inference.settings import Sampling
from tests.train.inference.generation.test_generator import PROMPTS, Letters, generator, llama_of_transformers
from tests.train.model.test_transformer import LLAMA, random_model

END = Letters.end_of_text


PROMPT = [7, 33, 2]


@torch.no_grad()
def next_log_probs(model, tokens: list[int]) -> list[float]:
    """ln p of every token after ``tokens``."""
    sequence = torch.tensor([tokens])
    logits = model(sequence, torch.arange(len(tokens))[None], torch.zeros_like(sequence))[0, -1]
    return logits.log_softmax(-1).tolist()


@pytest.fixture(scope="module")
def log_probs() -> dict[tuple[int, ...], float]:
    """ln p of all texts of one and two tokens after PROMPT, of one only if they end."""
    model = random_model(LLAMA)
    firsts = next_log_probs(model, PROMPT)
    seconds = {first: next_log_probs(model, [*PROMPT, first]) for first in range(53) if first != END}
    pairs = {(first, second): firsts[first] + seconds[first][second] for first in seconds for second in range(53)}
    return {(END,): firsts[END], **pairs}


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
def test_with_as_many_beams_as_texts_the_best_of_all_texts_is_found(log_probs, penalty: float) -> None:
    scores = {text: value / ((5 + len(text)) / 6) ** penalty for text, value in log_probs.items()}
    sampling = Sampling(max_tokens=2, beams=53, length_penalty=penalty)
    (found,) = generator(random_model(LLAMA)).generate([Letters().decode(PROMPT)], sampling)
    assert found.tokens == max(scores, key=scores.__getitem__)


def test_a_model_of_transformers_finds_what_its_own_beam_search_does() -> None:
    model, forward = llama_of_transformers()
    found = generator(forward, batch_rows=9).generate(PROMPTS, Sampling(max_tokens=10, beams=4))
    for prompt, one in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([Letters().encode([prompt])[0].tolist()[-14:] or [52]])
        expected = model.generate(
            ids, max_new_tokens=10, do_sample=False, num_beams=4, length_penalty=0.0, early_stopping="never",
            eos_token_id=END, pad_token_id=END,
        )  # fmt: skip
        assert list(one.tokens) == expected[0, ids.shape[1] :].tolist(), prompt


def test_batches_stops_and_endings() -> None:
    model, sampling = random_model(LLAMA), Sampling(max_tokens=8, beams=3, length_penalty=0.6, stops=("A", "q"))
    shown: dict[int, str] = {}
    found = generator(model, batch_rows=12).generate(PROMPTS, sampling, shown.__setitem__)
    assert [generator(model).generate([prompt], sampling)[0].tokens for prompt in PROMPTS] == [
        one.tokens for one in found
    ]
    assert [shown[number] for number in range(len(PROMPTS))] == [one.text for one in found]
    assert all(one.ending is not None and not {"A", "q"} & set(one.text) for one in found)
