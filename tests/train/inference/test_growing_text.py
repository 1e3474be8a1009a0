"""The visible part of a growing text, and its end.

Texts of beam search, compared with all possible texts and with transformers.
"""

import pytest
import torch

from headrace.train.inference.growing_text import GrowingText
from headrace.train.inference.settings import Sampling
from tests.train.inference.test_generator import PROMPTS, Letters, generator, llama_of_transformers
from tests.train.model.test_transformer import LLAMA, random_model

END = 99


def grow(pieces: list[bytes], stops: tuple[str, ...] = (), max_tokens: int = 50) -> tuple[list[str], GrowingText]:
    """Returns the text that each of ``pieces``, then the end-of-text token, adds, until the text has ended."""

    def decode(ids, skip_special_tokens):
        special = b"" if skip_special_tokens else b"</s>"
        return b"".join([*pieces, special][min(number, len(pieces))] for number in ids).decode(errors="replace")

    text, shown = GrowingText(decode, (END,), stops, max_tokens), []
    for token in [*range(len(pieces)), END]:
        shown.append(text.add(token))
        if text.ending:
            break
    return shown, text


@pytest.mark.parametrize(
    ("pieces", "stops", "shown", "ending"),
    [
        ([b"It", b" is"], (), ["It", " is", ""], "end_of_text"),
        ([b"It", b" is", b"\n", b"\nNo"], ("\n\n",), ["It", " is", "", ""], "stop"),
        ([b"It", b"\n", b"goes"], ("\n\n",), ["It", "", "\ngoes", ""], "end_of_text"),
        ([b"It", b"\n"], ("\n\n",), ["It", "", "\n"], "end_of_text"),
        ([b"a. Q: b. A:"], ("A:", "Q:"), ["a. "], "stop"),
        (["é".encode()[:1], "é".encode()[1:], b"!"], (), ["", "é", "!", ""], "end_of_text"),
        (["é".encode()[:1]], (), ["", "\N{REPLACEMENT CHARACTER}"], "end_of_text"),
        ([b"abab", b"abc"], ("ababc",), ["", "ab"], "stop"),
    ],
)
def test_what_is_shown_stays_and_ends_before_a_stop(pieces, stops, shown, ending):
    found, text = grow(pieces, stops)
    assert found == shown
    assert text.text == "".join(shown)
    assert text.ending == ending


def test_the_last_token_shows_what_was_held_back():
    shown, text = grow([b"a", b"b", b"c"], ("cd",), max_tokens=3)
    assert (shown, text.ending, text.tokens) == (["a", "b", "c"], "max_tokens", [0, 1, 2])


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
    seconds = {first: next_log_probs(model, [*PROMPT, first]) for first in range(53) if first != Letters.end_of_text}
    pairs = {(first, second): firsts[first] + seconds[first][second] for first in seconds for second in range(53)}
    return {(Letters.end_of_text,): firsts[Letters.end_of_text], **pairs}


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
            eos_token_id=Letters.end_of_text, pad_token_id=Letters.end_of_text,
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
