"""The visible part of a growing text, and its end."""

import pytest

from headrace.train.inference.generation.growing_text import GrowingText

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
