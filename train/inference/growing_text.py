"""The text of one sequence as its tokens come: the part that can be shown, and whether it has ended.

    tokens   "It", " is", " fine", ".\\n", "\\n"            stop: "\\n\\n"
    shown    "It"  " is"  " fine"  "."    (ends)          a possible beginning of a stop is held back

A character of several bytes may need several tokens: it is shown when it is whole. Special tokens are no text, but a
stop may spell one: ``</s>``, say. That, and the cut at each of the stops in turn, is lm-evaluation-harness's way
(models/huggingface.py, generate_until).

**Beam search**: of several texts under way, the one with the highest score is the continuation.

    beams 2        The ──┬── mill ──┬── turns    -1.9
                         │          └── wheel    -2.3        each step keeps the ``beams`` most likely texts,
                         └── old ───── mill      -2.6  x     of all rows' tokens together

A text's score is ln p(text) / ((5 + tokens) / 6)^length_penalty (Wu et al. 2016, section 7): without a penalty short
texts win, because each token lowers ln p. The search ends when no text under way can get a higher score than the best
one that has ended.

Shapes: R rows (texts under way of all prompts), V vocabulary.
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Literal

from headrace.train.inference.settings import Sampling

Ending = Literal["stop", "end_of_text", "max_tokens"]
"""A stop text or token came; the model ended the text; the text has its most tokens."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are no character, or the beginning of one."""

CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""The texts that a tokenizer of transformers may write without their space (``clean_up_tokenization``)."""


class GrowingText:
    """The continuation of one prompt."""

    def __init__(
        self,
        decode: Callable[[Sequence[int], bool], str],
        ends: Collection[int],
        stops: Sequence[str],
        max_tokens: int,
        stop_tokens: Collection[int] = (),
    ) -> None:
        """``decode`` gives the text of token ids, and takes whether it skips special tokens (``TextEncoder.decode``);
        ``ends`` are the tokens of the model that end a text, ``stop_tokens`` those of its context form."""
        self._stop_tokens = stop_tokens
        self._decode, self._ends, self._stops, self._max_tokens = decode, ends, tuple(filter(None, stops)), max_tokens
        self.tokens: list[int] = []
        """All chosen tokens, the end-of-text token included."""
        self.text = ""
        """The part of the text that cannot change any more."""
        self.ending: Ending | None = None

    def add(self, token: int) -> str:
        """Adds the next token, and returns the text that it adds."""
        self.tokens.append(token)
        is_end, is_stop = token in self._ends, token in self._stop_tokens
        text = decoded = self._decode(self.tokens[:-1] if is_stop else self.tokens, True)
        for stop in self._stops:
            text = text.partition(stop)[0]
        if is_stop or len(text) < len(decoded):
            self.ending = "stop"
        elif is_end:
            self.ending = "end_of_text"
        elif self._stops and any(map(self._decode(self.tokens, False).__contains__, self._stops)):
            self.ending = "stop"
        elif len(self.tokens) == self._max_tokens:
            self.ending = "max_tokens"
        else:
            text = decoded[: len(decoded) - self._open_end(decoded)]
        added, self.text = text[len(self.text) :], text
        return added

    def extended(self, token: int) -> "GrowingText":
        """Returns this text with ``token`` added, and leaves this one as it is."""
        text = copy.copy(self)
        text.tokens = list(self.tokens)
        text.add(token)
        return text

    def _open_end(self, decoded: str) -> int:
        """Returns the number of last characters that may still change or become a stop."""
        unknown = len(decoded) - len(decoded.rstrip(UNKNOWN))
        awaited = (*self._stops, *CLEANED)
        begun = (
            length
            for length in range(min(max(map(len, awaited)) - 1, len(decoded)), 0, -1)
            if any(text.startswith(decoded[-length:]) for text in awaited)
        )
        return max(unknown, next(begun, 0))


if TYPE_CHECKING:
    from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Beam:
    """A text under way."""

    parent: int
    """The index of the text that it extends by a token, among the beams before."""
    text: GrowingText
    log_probability: float
    """ln p of its tokens."""


class BeamSearch:
    """The texts under way after one prompt, and the best one that has ended."""

    def __init__(self, text: GrowingText, sampling: Sampling) -> None:
        """``text`` has no tokens yet."""
        self._most, self._penalty, self._max_tokens = sampling.beams, sampling.length_penalty, sampling.most_tokens
        self.beams = [Beam(0, text, 0.0)]
        """The texts under way, the most likely first; none when the search has ended."""
        self.best, self._best_score = text, -math.inf

    def advance(self, log_probs_RV: "Tensor") -> None:
        """Extends the texts under way by a token, given ln p of each token after each of them.

        A text that ends counts only if it is among the ``beams`` most likely ones of this step.
        """
        import torch

        before, vocabulary = self.beams, log_probs_RV.shape[1]
        sums_R1 = torch.tensor([[beam.log_probability] for beam in before], device=log_probs_RV.device)
        top = (log_probs_RV + sums_R1).flatten().topk(min(2 * self._most, log_probs_RV.numel()))
        self.beams = []
        for rank, (log_probability, index) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True)):
            parent, token = divmod(index, vocabulary)
            text = before[parent].text.extended(token)
            if text.ending is None:
                self.beams.append(Beam(parent, text, log_probability))
            elif rank < self._most and (score := self._score(log_probability, len(text.tokens))) > self._best_score:
                self.best, self._best_score = text, score
            if len(self.beams) == self._most:
                break
        if self.beams and self._score(self.beams[0].log_probability, self._max_tokens) <= self._best_score:
            self.beams = []

    def _score(self, log_probability: float, tokens: int) -> float:
        return log_probability / math.pow((5 + tokens) / 6, self._penalty)
