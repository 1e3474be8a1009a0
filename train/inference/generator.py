"""Generates texts after prompts, many at a time.

    prompts ── tokens, cut on the left to leave space for max_tokens ── longest first, BATCH_ROWS at a time
        all tokens of the prompts      ──> cache, first logits ──> a token of each row
        one token of each row          ──> cache, next logits ──> a token of each row …
        rows whose text has ended leave the batch when they are half of it

A text depends on its prompt, the sampling and the number of earlier copies of the prompt, not on the other prompts:
logits do not depend on other rows (train/model/cache.py gives the precision), and each text has its own random numbers.

``choose`` takes the next token of each row:

    logits / t ── top k ── softmax ── top p ──> p_0 >= p_1 >= ... of the kept tokens ── u in [0, 1) ──> token
                                                [---p_0---|--p_1--|-p_2-|..]
                                                               ^ u · (p_0 + p_1 + ...)

Shapes: B or R rows, T positions, P new tokens of all rows, V vocabulary, M features.
"""

import dataclasses
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.pipeline.core.errors import ConfigError
from headrace.train.inference.growing_text import BeamSearch, Ending, GrowingText
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import with_opening
from headrace.train.inference.settings import Sampling
from headrace.train.inference.sharing import JsonValue, Sharing, in_rounds, key_of
from headrace.train.model.recomputing import AnyCache, extendable
from headrace.train.parts import WRITING


def random_of(seed: int, prompt: Sequence[int], copy: int) -> np.random.Generator:
    """Returns the random numbers of the ``copy``-th text (from 0) that continues ``prompt``."""
    key = hashlib.sha256(repr((seed, list(prompt), copy)).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))


def choose(logits_BV: Tensor, sampling: Sampling, randoms: Sequence[np.random.Generator]) -> list[int]:
    """Returns one token for each row; each of ``randoms`` gives one number, unless the choice is greedy.

    Of equally likely tokens the one with the smaller id counts as more likely.
    """
    if not sampling.temperature:
        return list(logits_BV.argmax(-1).tolist())
    scaled_BV, ids_BV = (logits_BV.double() / sampling.temperature).sort(dim=-1, descending=True, stable=True)
    kept = scaled_BV.shape[-1] if sampling.top_k is None else min(sampling.top_k, scaled_BV.shape[-1])
    sums_BV = scaled_BV[:, :kept].softmax(-1).cumsum(-1)
    totals_B1 = sums_BV[:, -1:]
    if sampling.top_p is not None:
        last_B1 = torch.searchsorted(sums_BV, sampling.top_p * totals_B1).clamp(max=kept - 1)
        totals_B1 = sums_BV.gather(-1, last_B1)
    uniform_B1 = torch.tensor([[random.random()] for random in randoms], dtype=torch.float64, device=logits_BV.device)
    ranks_B1 = torch.searchsorted(sums_BV, uniform_B1 * totals_B1, right=True).clamp(max=kept - 1)
    return list(ids_BV.gather(-1, ranks_B1)[:, 0].tolist())


BATCH_ROWS = 16
"""Texts that are generated side by side."""
ROUND_BATCHES = 4
"""Batches of each rank in a round, when several ranks generate together."""


@dataclasses.dataclass(frozen=True)
class Generation:
    """The text after one prompt."""

    prompt: str
    text: str
    """Its text, without special tokens."""
    tokens: tuple[int, ...]
    """The new tokens, the end-of-text token included."""
    ending: Ending
    prompt_tokens: int
    """Tokens of the prompt that the model read."""
    lost_tokens: int
    """Tokens that the prompt lost on the left, because it did not fit the window with ``max_tokens``."""


@dataclasses.dataclass
class _Row:
    """A text under way."""

    number: int
    prompt: list[int]
    text: GrowingText
    random: np.random.Generator
    lost_tokens: int

    def generation(self, prompt: str) -> Generation:
        """Returns the text after ``prompt``, which has ended."""
        text = self.text
        assert text.ending is not None
        return Generation(prompt, text.text, tuple(text.tokens), text.ending, len(self.prompt), self.lost_tokens)


class Generator:
    """Continues prompts with one model."""

    def __init__(self, model: InferenceModel, batch_rows: int = BATCH_ROWS) -> None:
        self._network = extendable(model.network, model.device)
        self._tokenizer, self._device = model.tokenizer, model.device
        self._opening, self._batch_rows = list(model.opening), batch_rows
        self._form = self._network.context_form
        self._capacity = self._form.capacity(model.window_tokens, self._network.has_encoder)
        self._tokens, self._stops = model.tokens, model.stops
        self._ends = model.ends or (model.tokenizer.end_of_text,)

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, show: Callable[[int, str], None] = lambda number, text: None
    ) -> list[Generation]:
        """Returns one continuation of each prompt, in their order.

        Args:
            prompts: texts; an empty one is the beginning of a document.
            sampling: how tokens are chosen, and when a text ends.
            show: is called with the number of a prompt and each new part of its text.

        Raises:
            ConfigError: when ``max_tokens`` leaves no position for a prompt in the window.
        """
        return self._generated(prompts, self._wholes(prompts), sampling, show)

    def generate_after(
        self, tokens: Sequence[int], sampling: Sampling, show: Callable[[int, str], None] = lambda number, text: None
    ) -> Generation:
        """Returns the continuation of ``tokens``, which are read as they are; see ``generate``."""
        (generation,) = self._generated([""], [list(tokens)], sampling, show)
        return generation

    def prompt_capacity(self, sampling: Sampling) -> int:
        """Returns the most tokens of a prompt that fit the window with ``max_tokens`` new ones.

        Raises:
            ConfigError: when ``max_tokens`` leaves no position for a prompt.
        """
        capacity, sampling = self._capacity, sampling.within(self._capacity.continuation)
        most, part = capacity.continuation, ""
        if capacity.is_shared:
            most, part = most - 1, ", one of them for a prompt"
        if sampling.most_tokens > most:
            problem = f"is {sampling.most_tokens}, the model's window has {capacity.continuation} tokens{part}"
            raise ConfigError("generation.max_tokens", problem, f"give {most} or less")
        return capacity.context_beside(sampling.most_tokens)

    def _wholes(self, prompts: Sequence[str]) -> list[list[int]]:
        """Returns all tokens of each prompt."""
        encoded = [ids.tolist() for ids in self._tokenizer.encode(prompts)]
        return [with_opening(ids, self._opening) if ids else [self._tokenizer.end_of_text] for ids in encoded]

    def _generated(
        self,
        prompts: Sequence[str],
        wholes: Sequence[list[int]],
        sampling: Sampling,
        show: Callable[[int, str], None],
    ) -> list[Generation]:
        """Returns one continuation of each of ``prompts``, whose tokens are ``wholes``."""
        sampling = sampling.within(self._capacity.continuation)
        rows = self._rows(prompts, wholes, sampling)
        ordered = sorted(rows, key=lambda row: -len(row.prompt))
        write = self._write if sampling.beams == 1 else self._search
        prompts_at_once = max(1, self._batch_rows // sampling.beams)
        for start in range(0, len(ordered), prompts_at_once):
            write(ordered[start : start + prompts_at_once], sampling, show)
        return [row.generation(prompt) for prompt, row in zip(prompts, rows, strict=True)]

    def _rows(self, prompts: Sequence[str], wholes: Sequence[list[int]], sampling: Sampling) -> list[_Row]:
        seen, rows, most = Counter[str](), list[_Row](), self.prompt_capacity(sampling)
        for number, (prompt, whole) in enumerate(zip(prompts, wholes, strict=True)):
            kept = whole[-most:]
            stops = (*sampling.stops, *self._stops)
            text = GrowingText(self._tokenizer.decode, self._ends, stops, sampling.most_tokens, self._form.stops)
            random = random_of(sampling.seed, kept, seen[prompt])
            rows.append(_Row(number, kept, text, random, len(whole) - len(kept)))
            seen[prompt] += 1
        return rows

    def _write(self, rows: Sequence[_Row], sampling: Sampling, show: Callable[[int, str], None]) -> None:
        """Generates the texts of ``rows`` to their ends."""
        cache, last_BM = self._read([row.prompt for row in rows])
        rows = list(rows)
        while rows:
            logits_BV = self._network.logits(last_BM)[:, : self._tokens].float()
            tokens = choose(logits_BV, sampling, [row.random for row in rows])
            for row, token in zip(rows, tokens, strict=True):
                if row.text.ending is None:
                    show(row.number, row.text.add(token))
            open_rows = [index for index, row in enumerate(rows) if row.text.ending is None]
            if 2 * len(open_rows) <= len(rows):
                if open_rows:
                    cache = cache.of_rows(torch.tensor(open_rows, dtype=torch.int64, device=self._device))
                rows, tokens = [rows[index] for index in open_rows], [tokens[index] for index in open_rows]
            new = [[token] if row.text.ending is None else [] for row, token in zip(rows, tokens, strict=True)]
            if rows:
                last_BM = self._last(self._network.extend, cache, new)

    def _search(self, rows: Sequence[_Row], sampling: Sampling, show: Callable[[int, str], None]) -> None:
        """Finds the texts of ``rows`` by beam search."""
        cache, last_RM = self._read([row.prompt for row in rows])
        searches = [BeamSearch(row.text, sampling) for row in rows]
        open_searches = searches
        while open_searches:
            log_probs_RV = self._network.logits(last_RM).float().log_softmax(-1)[:, : self._tokens]
            parents, start = list[int](), 0
            for search in open_searches:
                end = start + len(search.beams)
                search.advance(log_probs_RV[start:end])
                parents += [start + beam.parent for beam in search.beams]
                start = end
            open_searches = [search for search in open_searches if search.beams]
            if open_searches:
                cache = cache.of_rows(torch.tensor(parents, dtype=torch.int64, device=self._device))
                new = [[beam.text.tokens[-1]] for search in open_searches for beam in search.beams]
                last_RM = self._last(self._network.extend, cache, new)
        for row, search in zip(rows, searches, strict=True):
            row.text = search.best
            show(row.number, row.text.text)

    def _read(self, prompts: Sequence[Sequence[int]]) -> tuple[AnyCache, torch.Tensor]:
        """Returns a cache of ``prompts``, and last_BM, of which the logits of the first tokens come."""
        cache = self._network.new_cache(len(prompts))
        last_BM = self._last(self._network.read_contexts, cache, [self._form.read(prompt) for prompt in prompts])
        if self._form.given:
            begun = [self._form.begun(prompt) for prompt in prompts]
            last_BM = self._last(self._network.extend, cache, begun)
        return cache, last_BM

    def _last(self, read: Callable[..., torch.Tensor], cache: AnyCache, new: Sequence[Sequence[int]]) -> torch.Tensor:
        """Returns the result of ``read``, which adds ``new`` tokens to ``cache``, at the last of each row's tokens.

        A row without new tokens gets arbitrary values.
        """
        sizes_B = torch.tensor([len(ids) for ids in new], device=self._device)
        tokens_P = torch.tensor([token for ids in new for token in ids], dtype=torch.int64, device=self._device)
        x_PM = read(cache, tokens_P, sizes_B)
        return x_PM[(sizes_B.cumsum(0) - 1).clamp(min=0)]


class SharedGenerator(Generator):
    """A generator on each of several ranks, which all get the same prompts; each generates a part of the texts.

    After each round the ranks exchange their texts. Copies of a prompt stay on one rank, in their order.
    """

    def __init__(self, model: InferenceModel, sharing: Sharing) -> None:
        super().__init__(model)
        self._sharing = sharing

    def generate(
        self, prompts: Sequence[str], sampling: Sampling, show: Callable[[int, str], None] = lambda number, text: None
    ) -> list[Generation]:
        """Returns one continuation of each prompt; ``show`` is not called, because texts come from all ranks."""
        copies: dict[str, list[int]] = defaultdict(list)
        for number, prompt in sorted(enumerate(prompts), key=lambda pair: pair[1]):
            copies[prompt].append(number)
        keys = {
            number: key_of(repr((prompt, copy, len(numbers), sampling)).encode())
            for prompt, numbers in copies.items()
            for copy, number in enumerate(numbers)
        }
        blocks, alone = list(copies.values()), super().generate
        shares = in_rounds(blocks, [len(b) for b in blocks], self._sharing.ranks.world, ROUND_BATCHES * BATCH_ROWS)

        def work(numbers: list[int]) -> list[JsonValue]:
            texts = alone([prompts[number] for number in numbers], sampling)
            return [
                (
                    generation.text,
                    generation.tokens,
                    generation.ending,
                    generation.prompt_tokens,
                    generation.lost_tokens,
                )
                for generation in texts
            ]

        answers = self._sharing.answers([keys[number] for number in range(len(prompts))], shares, work)
        return [
            Generation(prompt, text, tuple(tokens), *rest)
            for prompt, (text, tokens, *rest) in zip(prompts, answers, strict=True)
        ]


def generator_of(model: InferenceModel) -> Generator:
    """Returns the generator of ``model``; with all ranks that share it.

    Raises:
        ConfigError: when it is an encoder.
    """
    if model.stack not in WRITING:
        problem = f"is an encoder (model.stack={model.stack}), which continues no text"
        raise ConfigError("the model", problem, "give a decoder, or score the encoder: headrace evaluate")
    return SharedGenerator(model, model.sharing) if model.sharing else Generator(model)
