"""Pairs of texts: whether the second one follows the first (Devlin et al. 2019, section 3.1; Lan et al. 2020, 3.1).

    text of a document    a b . | c d e . | f g .             sentences; here the text is divided after the first one

    next_sentence         a b .          c d e . f g .        label 0
                          a b .          x y z . u v          label 1: from a random sentence of another document on
    sentence_order        a b .          c d e . f g .        label 0
                          c d e . f g .  a b .                label 1: swapped

As in google-research/bert and google-research/albert (create_pretraining_data.py): a text is divided after a random
number of its sentences; each label has p = 0.5; the text of another document has whole sentences until it is as long as
the part that it replaces, or ends; both texts together are cut to the length of the document's, the longer one a token
at a time, in front or at its end with p = 0.5. A text of one sentence always gets a text of another document in
next_sentence, and is in no pair in sentence_order; google-research/albert takes one of another document there, too.
Different: the text that was replaced is not used (there, the next pair begins with it), no pair is shortened at random,
a document's piece in this row takes the place of a chunk of sentences, and the text from another document is from a
random row of the same data.

The random numbers of a pair are drawn in this order: the number of sentences of the first text, if there are several;
the label; the other document, its first sentence, a side for each token that is cut.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED
from headrace.train.data.rows import OtherPiece, Pieces
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.token_texts import sentence_starts

PairsName = Literal["none", "next_sentence", "sentence_order"]
Ids = NDArray[np.int64]
FOLLOWS, DOES_NOT_FOLLOW = 0, 1
SEGMENTS = 2
"""The parts of a pair of texts."""


@dataclasses.dataclass(frozen=True)
class SequenceTexts:
    """The texts of one sequence, without special tokens."""

    texts: Sequence[Ids]
    label: int = IGNORED
    """FOLLOWS or DOES_NOT_FOLLOW, of the second text; IGNORED: the sequence is no pair."""


def among(pieces: Pieces) -> OtherPiece:
    """Returns a function that draws another one of ``pieces``."""

    def other(number: int, generator: np.random.Generator) -> NDArray[np.integer]:
        indices = [index for index in range(len(pieces)) if index != number]
        return pieces[indices[int(generator.integers(len(indices)))]] if indices else np.empty(0, np.int64)

    return other


def divided(
    pairs: PairsName,
    pieces: Pieces,
    number: int,
    vocabulary: Vocabulary,
    generator: np.random.Generator,
    others: OtherPiece,
) -> SequenceTexts:
    """Returns the text of piece ``number`` as a pair; as one text if there are no ``pairs`` or it cannot be one."""
    text = vocabulary.text_of(pieces[number])
    if pairs == "none" or len(text) < 2:
        return SequenceTexts([text])
    starts = sentence_starts(text, vocabulary.ends_sentence)
    sentences = len(starts)
    cut = int(starts[generator.integers(1, sentences)]) if sentences > 1 else len(text)
    first, second = text[:cut], text[cut:]
    if pairs == "sentence_order":
        if sentences == 1:
            return SequenceTexts([text])
        is_swapped = generator.random() < 0.5
        return (
            SequenceTexts([second, first], DOES_NOT_FOLLOW) if is_swapped else SequenceTexts([first, second], FOLLOWS)
        )
    if sentences > 1 and generator.random() >= 0.5:
        return SequenceTexts([first, second], FOLLOWS)
    other = sentences_of(vocabulary.text_of(others(number, generator)), len(second), vocabulary, generator)
    if not len(other):
        return SequenceTexts([text])
    return SequenceTexts(shortened(first, other, len(text), generator), DOES_NOT_FOLLOW)


def sentences_of(text: Ids, length: int, vocabulary: Vocabulary, generator: np.random.Generator) -> Ids:
    """Returns sentences of ``text`` from a random one on: the fewest that have at least ``length`` tokens, or all."""
    starts = sentence_starts(text, vocabulary.ends_sentence)
    if not len(starts):
        return text
    first = int(generator.integers(len(starts)))
    ends = np.append(starts[first + 1 :], len(text))
    enough = int(np.searchsorted(ends, starts[first] + length))
    return text[starts[first] : ends[min(enough, len(ends) - 1)]]


def shortened(first: Ids, second: Ids, length: int, generator: np.random.Generator) -> Sequence[Ids]:
    """Returns both texts with at most ``length`` tokens together: the longer one loses a token at either side, again
    and again (truncate_seq_pair of google-research/bert)."""
    texts = [first, second]
    while sum(map(len, texts)) > length:
        longer = 0 if len(texts[0]) > len(texts[1]) else 1
        texts[longer] = texts[longer][1:] if generator.random() < 0.5 else texts[longer][:-1]
    return texts


def check_pair_model(pairs: PairsName, model: ModelConfig) -> None:
    """Checks that ``model`` has the parts of the pairs, and no head that nothing trains.

    Raises:
        ConfigError: naming both settings.
    """
    has_pairs = pairs != "none"
    if model.pair_head != has_pairs:
        problem = f"is {str(model.pair_head).lower()}, and objective.pairs is {pairs}"
        remedy = "give model.pair_head=true" if has_pairs else "give objective.pairs=next_sentence, say"
        other = "objective.pairs=none" if has_pairs else "model.pair_head=false"
        raise ConfigError("model.pair_head", problem, f"{remedy}, or {other}")
    if has_pairs and model.segments < SEGMENTS:
        problem = f"is {model.segments}, and objective.pairs={pairs} has texts of two parts"
        raise ConfigError("model.segments", problem, f"give model.segments={SEGMENTS}, or objective.pairs=none")


def check_sentences(pairs: PairsName, vocabulary: Vocabulary) -> None:
    """Checks that a token ends a sentence where texts are divided at sentences.

    Raises:
        ConfigError: when none does.
    """
    if pairs != "none" and not vocabulary.ends_sentence.any():
        problem = f"{pairs} divides texts at sentences, and no token of the tokenizer ends one"
        raise ConfigError("objective.pairs", problem, "give a tokenizer with a full stop, or objective.pairs=none")
