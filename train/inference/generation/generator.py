"""Texts that a model writes after prompts, many at a time.

    prompts ── tokens, cut on the left to leave room for max_tokens ── longest first, BATCH_ROWS at a time
        all tokens of the prompts      ──> cache, first logits ──> a token of each row
        one token of each row          ──> cache, next logits ──> a token of each row …
        rows whose text has ended leave the batch when they are half of it

A text depends on its prompt, the sampling and how often the prompt came before, not on the other prompts: logits do not
depend on other rows (train/model/cache.py says how exactly), and each text has random numbers of its own.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.train.inference.answer_log import Plain, key_of
from headrace.train.inference.generation.growing_text import Ending, GrowingText
from headrace.train.inference.generation.sampling import chance, choose
from headrace.train.inference.generation.settings import Sampling
from headrace.train.inference.sharing import SharedScorer, Sharing, in_rounds
from headrace.train.inference.subject import Subject, TextEncoder
from headrace.train.model.recomputing import AnyCache, Extendable, Model, extendable

BATCH_ROWS = 16
"""Texts that are written side by side."""
ROUND_BATCHES = 4
"""So many batches of each rank make a round of those that write together."""


@dataclasses.dataclass(frozen=True)
class Generation:
    """What was written after one prompt."""

    prompt: str
    text: str
    tokens: tuple[int, ...]
    """The new tokens, the end-of-text token included."""
    ending: Ending
    prompt_tokens: int
    """As the model read it."""
    lost_tokens: int
    """Tokens that the prompt lost on the left, because it did not fit the window with ``max_tokens``."""


@dataclasses.dataclass
class _Row:
    """A text that is being written."""

    number: int
    prompt: list[int]
    text: GrowingText
    draw: np.random.Generator
    lost_tokens: int


class Generator:
    """Goes on from prompts with one model."""

    def __init__(
        self,
        model: Model,
        window_tokens: int,
        tokenizer: TextEncoder,
        device: torch.device,
        opening: Sequence[int] = (),
        end: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        """``opening``: tokens that the tokenizer puts before each text; ``end``: the one that ends a text, where it is
        not the one that an empty prompt becomes."""
        self._model: Extendable = extendable(model, device)
        self._window, self._tokenizer, self._device = window_tokens, tokenizer, device
        self._opening, self._batch_rows = list(opening), batch_rows
        self._end = tokenizer.end_of_text if end is None else end

    def generate_until(self, prompts: Sequence[str], stops: Sequence[str], max_tokens: int) -> list[str]:
        """The greedy continuation of each prompt up to the first of ``stops``, as lm-evaluation-harness asks for it."""
        sampling = Sampling(max_tokens=max_tokens, stops=tuple(stops))
        return [found.text for found in self.generate(prompts, sampling)]

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, show: Callable[[int, str], None] = lambda number, text: None
    ) -> list[Generation]:
        """One continuation of each prompt, in their order.

        Args:
            prompts: texts; an empty one is the beginning of a document.
            sampling: how tokens are chosen, and when a text ends.
            show: is given the number of a prompt and what its text grows by.

        Raises:
            ConfigError: when ``max_tokens`` leaves no room for a prompt in the window.
        """
        if sampling.max_tokens >= self._window:
            wrong = f"is {sampling.max_tokens}, the model's window has {self._window} tokens, one of them for a prompt"
            raise ConfigError("generation.max_tokens", wrong, f"give {self._window - 1} or less")
        rows = self._rows(prompts, sampling)
        ordered = sorted(rows, key=lambda row: -len(row.prompt))
        for start in range(0, len(ordered), self._batch_rows):
            self._write(ordered[start : start + self._batch_rows], sampling, show)
        return [
            Generation(prompt, row.text.text, tuple(row.text.tokens), row.text.ending, len(row.prompt), row.lost_tokens)
            for prompt, row in zip(prompts, rows, strict=True)
        ]

    def _rows(self, prompts: Sequence[str], sampling: Sampling) -> list[_Row]:
        seen, rows = Counter[str](), list[_Row]()
        for number, (prompt, ids) in enumerate(zip(prompts, self._tokenizer.encode(prompts), strict=True)):
            whole = [*self._opening, *ids.tolist()] if len(ids) else [self._tokenizer.end_of_text]
            kept = whole[-(self._window - sampling.max_tokens) :]
            text = GrowingText(self._tokenizer.decode, self._end, sampling.stops, sampling.max_tokens)
            draw = chance(sampling.seed, kept, seen[prompt])
            rows.append(_Row(number, kept, text, draw, len(whole) - len(kept)))
            seen[prompt] += 1
        return rows

    def _write(self, rows: Sequence[_Row], sampling: Sampling, show: Callable[[int, str], None]) -> None:
        """Write all texts of ``rows`` to their ends."""
        rows, cache = list(rows), self._model.new_cache(len(rows))
        new = [row.prompt for row in rows]
        while rows:
            logits_BV = self._last_logits(cache, new)
            tokens = choose(logits_BV, sampling, [row.draw for row in rows])
            for row, token in zip(rows, tokens, strict=True):
                if row.text.ending is None:
                    show(row.number, row.text.add(token))
            going = [place for place, row in enumerate(rows) if row.text.ending is None]
            if 2 * len(going) <= len(rows):
                cache = cache.of_rows(torch.tensor(going, dtype=torch.int64, device=self._device)) if going else cache
                rows, tokens = [rows[place] for place in going], [tokens[place] for place in going]
            new = [[token] if row.text.ending is None else [] for row, token in zip(rows, tokens, strict=True)]

    def _last_logits(self, cache: AnyCache, new: Sequence[Sequence[int]]) -> torch.Tensor:
        """logits_BV after the last of each row's ``new`` tokens; anything for a row without."""
        sizes_B = torch.tensor([len(ids) for ids in new], device=self._device)
        tokens_P = torch.tensor([token for ids in new for token in ids], dtype=torch.int64, device=self._device)
        x_PM = self._model.extend(cache, tokens_P, sizes_B)
        return self._model.logits(x_PM[(sizes_B.cumsum(0) - 1).clamp(min=0)]).float()


class SharedGenerator(Generator):
    """A generator on each of several ranks, all of which are given the same prompts; each writes a part of the texts.

    After each round the ranks exchange what they wrote. Copies of a prompt stay with one rank, and in their order.
    """

    def __init__(self, *parts: Any, sharing: Sharing) -> None:
        """``parts``: as of a generator."""
        super().__init__(*parts)
        self._sharing = sharing

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, show: Callable[[int, str], None] = lambda number, text: None
    ) -> list[Generation]:
        """As ``Generator.generate``; ``show`` is not called, for texts come from all ranks."""
        copies: dict[str, list[int]] = defaultdict(list)
        for number, prompt in sorted(enumerate(prompts), key=lambda pair: pair[1]):
            copies[prompt].append(number)
        keys = {
            number: key_of(repr((prompt, copy, len(own), sampling)).encode())
            for prompt, own in copies.items()
            for copy, number in enumerate(own)
        }
        blocks, alone = list(copies.values()), super().generate
        shares = in_rounds(blocks, [len(b) for b in blocks], self._sharing.ranks.world, ROUND_BATCHES * BATCH_ROWS)

        def work(own: list[int]) -> list[Plain]:
            texts = alone([prompts[number] for number in own], sampling)
            return [(one.text, one.tokens, one.ending, one.prompt_tokens, one.lost_tokens) for one in texts]

        found = self._sharing.answers([keys[number] for number in range(len(prompts))], shares, work)
        return [
            Generation(prompt, text, tuple(tokens), *rest)
            for prompt, (text, tokens, *rest) in zip(prompts, found, strict=True)
        ]


def generator_of(subject: Subject) -> Generator:
    """What ``subject`` writes; with all ranks that share it."""
    scorer = subject.scorer
    parts = (scorer.model, scorer.window_tokens, subject.tokenizer, scorer.device, subject.opening, subject.end)
    if isinstance(scorer, SharedScorer):
        return SharedGenerator(*parts, sharing=scorer.sharing)
    return Generator(*parts)
