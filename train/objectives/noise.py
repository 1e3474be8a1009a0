"""The noise of objectives that restore a corrupted text: from a text to what the model reads of it.

**Denoising** (Raffel et al. 2020, section 3.3 and table 3; T5's data code, t5/data/preprocessors.py):

    text                  a b c d e f g h           mask  . . # # . . . #
    spans to sentinels    inputs  a b X e f g Y     targets  X c d Y h
    dropped               inputs  a b e f g         targets  c d h
    masked                inputs  a b M M e f g M   targets  a b c d e f g h

**BART's corruptions** (Lewis et al. 2020, section 2.2):

    text            A b C . D E .        words A-b, C, ., D, E, .        _ is the mask
    masking         A _ C . D _ .        tokens, each alone
    deletion        A C . D .            tokens, each alone, without a mask
    infilling       _ . D _ E .          spans of words, here A-b C and an empty one, become one mask each
    permutation     D E . A b C .        sentences in random order
    rotation        C . D E . A b        the text begins with a random token

What the paper leaves open is that of fairseq's data code (fairseq/data/denoising_dataset.py): the numbers of tokens and
words are rounded up, spans begin at random words, and a span that begins inside another one has no mask of its own.

All functions are pure: random numbers come from ``generator``, in the order that each docstring gives. Texts are (L,)
int64, masks (L,) bool.
"""

import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Masks:
    """The masks that stand where tokens were."""

    token: int
    ordinary: TokenIds
    """The tokens that a random one is drawn from."""
    random_share: float

    def draw(self, number: int, generator: np.random.Generator) -> TokenIds:
        """Returns ``number`` masks, each a random token with the probability ``random_share``.

        Draws for each mask a number that decides this, then for each one a token.
        """
        is_random = generator.random(number) < self.random_share
        drawn = self.ordinary[generator.integers(0, len(self.ordinary), number)]
        return np.where(is_random, drawn, self.token)


def share_of(number: int, rate: float) -> int:
    """Returns rate · number, rounded up; the error of a product of floats is not."""
    return math.ceil(number * rate - 1e-9)


def masked(text: TokenIds, rate: float, masks: Masks, generator: np.random.Generator) -> TokenIds:
    """Replaces a share of the tokens; draws an order of them, then the masks."""
    chosen = generator.permutation(len(text))[: share_of(len(text), rate)]
    source = text.copy()
    source[chosen] = masks.draw(len(chosen), generator)
    return source


def without_tokens(text: TokenIds, rate: float, generator: np.random.Generator) -> TokenIds:
    """Deletes a share of the tokens; draws an order of them."""
    return np.delete(text, generator.permutation(len(text))[: share_of(len(text), rate)])


def span_lengths(words: int, mean: float, generator: np.random.Generator) -> TokenIds:
    """Returns lengths that add up to ``words``, at least 1: Poisson numbers, 0 among them, the last one cut.

    Draws ``words`` numbers, again and again until they are enough.
    """
    lengths = generator.poisson(mean, words)
    while lengths.sum() < words:
        lengths = np.append(lengths, generator.poisson(mean, words))
    lengths = lengths[: np.searchsorted(lengths.cumsum(), words) + 1]
    lengths[-1] -= lengths.sum() - words
    return lengths


def infilled(
    text: TokenIds,
    begins_word: NDArray[np.bool_],
    rate: float,
    mean_span: float,
    masks: Masks,
    generator: np.random.Generator,
    free_tokens: int,
) -> TokenIds:
    """Replaces spans of a share of the words by one mask each, and inserts a mask for each span of length 0.

    A span ends with the text at the latest. Masks that would make the source longer than the text by more than
    ``free_tokens`` are not inserted. Draws the lengths, an order of the words, masks, the indices of the inserted ones,
    and these.

    Args:
        begins_word: (L,), whether a token is the first one of a word.
    """
    words = np.flatnonzero(begins_word)
    lengths = span_lengths(share_of(len(words), rate), mean_span, generator)
    spans = lengths[lengths > 0]
    first = generator.permutation(len(words))[: len(spans)]
    ends = np.append(words, len(text))[np.minimum(first + spans, len(words))]
    source, is_kept = text.copy(), np.ones(len(text), bool)
    source[words[first]] = masks.draw(len(spans), generator)
    for begin, end in zip(words[first].tolist(), ends.tolist(), strict=True):
        is_kept[begin + 1 : end] = False
    source = source[is_kept]
    inserts = min(len(lengths) - len(spans), len(text) + free_tokens - len(source))
    places = generator.permutation(len(source) + inserts)[:inserts]
    longer = np.empty(len(source) + inserts, np.int64)
    is_inserted = np.isin(np.arange(len(longer)), places)
    longer[~is_inserted] = source
    longer[is_inserted] = masks.draw(inserts, generator)
    return longer


def with_moved_sentences(text: TokenIds, starts: TokenIds, share: float, generator: np.random.Generator) -> TokenIds:
    """Exchanges the places of a share of the sentences, which begin at ``starts``.

    Draws an order of the sentences, whose first ones are moved, then an order of these.
    """
    sentences = np.split(text, starts[1:])
    moved = generator.permutation(len(sentences))[: share_of(len(sentences), share)]
    order = np.arange(len(sentences))
    order[moved] = generator.permutation(moved)
    return np.concatenate([sentences[number] for number in order])


def rotated(text: TokenIds, generator: np.random.Generator) -> TokenIds:
    """Moves the tokens before a random one to the end; draws its index."""
    return np.roll(text, -int(generator.integers(len(text))))
