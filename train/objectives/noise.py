"""The noise of denoising objectives: from a text to corrupted inputs and the targets that restore it.

    text                  a b c d e f g h           mask  . . # # . . . #
    spans to sentinels    inputs  a b X e f g Y     targets  X c d Y h
    dropped               inputs  a b e f g         targets  c d h
    masked                inputs  a b M M e f g M   targets  a b c d e f g h

Raffel et al. 2020, section 3.3 and table 3; T5's data code (t5/data/preprocessors.py). All functions are pure: random
numbers come from ``generator``, in the order that each docstring gives. Texts are (L,) int64, masks (L,) bool.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.int64]
TokenMask = NDArray[np.bool_]

RARE = 4.0
"""Standard deviations above the mean at which independent masking stops."""


def noise_tokens(length: int, rate: float) -> int:
    """Returns the number of noise tokens in ``length`` tokens: the rounded share, at least 1, at most all but one."""
    return min(max(round(length * rate), 1), length - 1)


def noise_spans(length: int, rate: float, mean_span: float) -> int:
    """Returns the number of spans that the noise is divided into: at least 1, and at most one for each kept token."""
    noise = noise_tokens(length, rate)
    return min(max(round(noise / mean_span), 1), length - noise)


def span_mask(length: int, rate: float, mean_span: float, generator: np.random.Generator) -> TokenMask:
    """Masks an exact number of tokens in an exact number of spans; the first token is kept, the last one is masked.

    Draws the lengths of the spans, then those of the kept parts between them; ``length`` is at least 2.
    """
    noise, spans = noise_tokens(length, rate), noise_spans(length, rate, mean_span)
    masked = composition(noise, spans, generator)
    kept = composition(length - noise, spans, generator)
    return np.repeat(np.tile([False, True], spans), np.stack([kept, masked], axis=1).ravel())


def composition(total: int, parts: int, generator: np.random.Generator) -> TokenIds:
    """Returns positive lengths of ``parts`` parts that add up to ``total``, uniform over all such lists."""
    cuts = np.sort(generator.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=total).astype(np.int64)


def most_independent(length: int, rate: float) -> int:
    """Returns the most tokens that ``independent_mask`` masks: four standard deviations above the mean."""
    return min(length, math.ceil(length * rate + RARE * math.sqrt(length * rate * (1 - rate))))


def independent_mask(length: int, rate: float, generator: np.random.Generator) -> TokenMask:
    """Masks each token with probability ``rate``; after ``most_independent`` tokens, no further ones.

    Draws one number for each token.
    """
    mask = generator.random(length) < rate
    return mask & (mask.cumsum() <= most_independent(length, rate))


def first_runs(mask: TokenMask, runs: int) -> TokenMask:
    """Returns ``mask`` without the runs of masked tokens after the first ``runs`` ones."""
    return mask & (_begins(mask).cumsum() <= runs)


def with_sentinels(text: TokenIds, mask: TokenMask, sentinels: Sequence[int]) -> TokenIds:
    """Returns ``text`` with each run of masked tokens replaced by the next of ``sentinels``."""
    begins = _begins(mask)
    marked = text.copy()
    marked[begins] = np.asarray(sentinels, dtype=np.int64)[: begins.sum()]
    return marked[~mask | begins]


def contiguous_mask(length: int, rate: float, generator: np.random.Generator) -> TokenMask:
    """Masks one span of ``noise_tokens``; draws its first index."""
    noise = noise_tokens(length, rate)
    begin = int(generator.integers(0, length - noise + 1))
    index = np.arange(length)
    return (index >= begin) & (index < begin + noise)


def with_random_tokens(
    text: TokenIds,
    mask: TokenMask,
    mask_token: int,
    ordinary: TokenIds,
    random_share: float,
    generator: np.random.Generator,
) -> TokenIds:
    """Returns ``text`` with each masked token replaced by ``mask_token``, a share of them by one of ``ordinary``.

    Draws two numbers for each token of the text: whether it becomes random, then which token.
    """
    is_random = generator.random(len(text)) < random_share
    drawn = ordinary[generator.integers(0, len(ordinary), len(text))]
    return np.where(mask, np.where(is_random, drawn, mask_token), text)


def _begins(mask: TokenMask) -> TokenMask:
    """Returns where a run of masked tokens begins."""
    begins: TokenMask = mask & ~np.concatenate([[False], mask[:-1]])
    return begins
