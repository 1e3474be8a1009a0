"""Masked language modelling: an encoder predicts hidden tokens from all others (Devlin et al. 2019).

    pieces       E  a  b  c  E                          E  d  e  f           (f: the document goes on in another row)
    separate     [CLS] a  b  c  [SEP]                   [CLS] d  e  f [SEP]              ModernBERT, BERT's one segment
    joined       [CLS] a  b  c  [SEP] d  e  f [SEP]                                      RoBERTa's FULL-SENTENCES

    inputs       [CLS] a [MASK] c [SEP] …        (row_tokens,)
    positions    0 1 2 3 4  0 1 2 …              counted in each document; in joined rows, in the row
    documents    0 0 0 0 0  1 1 1 …  -1 -1       documents do not see each other; in joined rows they do
    masked       2 …  0 0                        (most masked tokens,) the positions to predict, then padding
    targets      b …  -100 -100                  the tokens there

With ``pairs`` (pairs.py), a separate document is a pair of texts where it can be divided:

    inputs       [CLS] a  b [SEP] c [SEP] …
    segments     0 0 0 0  1 1 …                  (row_tokens,) 1 in the second text and the separator after it
    firsts       0 …  0 0                        (most pairs,) the positions of the [CLS] of pairs, then padding
    labels       0 …  -100 -100                  0: the second text follows the first one; 1: it does not

The random numbers of a row are drawn in this order: the copy, if there are ``copies``; those of the pairs, document by
document; a number for the rounding, if it is random; the units; an action for each masked token in the order of
positions; a token for each masked token.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Fraction, Positive, settings
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.data.batches import IGNORED, Arrays, Pairs, Tensors
from headrace.train.data.rows import OtherPiece, Pieces
from headrace.train.objectives.base import Vocabulary, named
from headrace.train.objectives.pairs import (
    PairsName,
    SequenceTexts,
    among,
    check_pair_model,
    check_sentences,
    divided,
)
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

CLASS, SEPARATOR, MASK = "[CLS]", "[SEP]", "[MASK]"
FRAME_TOKENS = 2
"""The class token at the beginning of a document or row, and the separator at its end."""
PAIR_FRAME_TOKENS = 3
"""The frame of a pair of texts, which has a separator after each."""
SHORTEST_PAIR = PAIR_FRAME_TOKENS + 2
"""Positions of a pair of texts of one token each."""
NGRAM_LENGTHS = np.arange(1, 4)
NGRAM_SHARES = (1 / NGRAM_LENGTHS) / (1 / NGRAM_LENGTHS).sum()
"""ALBERT's lengths in words: p(n) is proportional to 1/n, n at most 3 (Lan et al. 2020, section 4.1)."""

Ids = NDArray[np.int64]
Units = Sequence[Sequence[int]]
"""Positions of a row whose tokens are hidden together."""


@settings
class Masked:
    """Predicts hidden tokens from both sides. Its term ``mlm`` is -ln p(token | the other tokens), in nats; with
    ``pairs`` there is a second one, -ln p of the label of a pair of texts.

    It is no likelihood of a text, so it has no perplexity and no bits per byte.
    """

    type: Literal["masked"] = "masked"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder",)
    looks_ahead: ClassVar[bool] = True
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens of a row that are predicted."""
    mask_share: Fraction = 0.8
    """Share of the predicted tokens that are replaced by [MASK]."""
    random_share: Fraction = 0.1
    """Share of the predicted tokens that are replaced by a random token; the rest is kept as it is."""
    random_tokens: Literal["all", "ordinary"] = "all"
    """all: any token of the vocabulary (BERT); ordinary: no special token (RoBERTa)."""
    unit: Literal["token", "word", "ngram"] = "token"
    """token: each token alone; word: all pieces of a word together; ngram: one to three words together, the shorter the
    more often (ALBERT)."""
    rounding: Literal["nearest", "random"] = "nearest"
    """The whole number of predicted tokens. nearest: rate · tokens, rounded, at least 1 (BERT); random: rounded up with
    the probability of its fraction (RoBERTa)."""
    cap: Positive | None = None
    """The maximum number of predicted tokens of a row (BERT: 20 of 128 and 77 of 512); null: no limit."""
    copies: Positive | None = None
    """Static masks: a row has this many masks, and each time it is read one of them is drawn (BERT: 10 copies); null: a
    new mask each time (RoBERTa)."""
    documents: Literal["separate", "joined"] = "separate"
    """separate: documents of a row do not see each other (packing.method=best_fit or padded); joined: a row is one
    sequence over the ends of documents (packing.method=concatenate or similar)."""

    pairs: PairsName = "none"
    """none: each document is one text. The others divide it in two at the beginning of a sentence, and add a term of
    that name to the loss, for which the model has ``pair_head``. next_sentence: half of the second texts are replaced
    by one of another document (BERT); sentence_order: half of the pairs are swapped (ALBERT)."""

    def __post_init__(self) -> None:
        if self.mask_share + self.random_share > 1 + 1e-9:
            problem = f"mask_share {self.mask_share} and random_share {self.random_share} are more than 1 together"
            raise ConfigError("objective", problem, "lower one")
        if self.has_pairs and self.documents == "joined":
            problem = f"pairs {self.pairs} divides documents, and documents joined makes one text of a row"
            raise ConfigError("objective", problem, "give objective.documents=separate or objective.pairs=none")

    @property
    def revision(self) -> int:
        """1 where rows depend on words, which token_texts.py finds since; before, not in all kinds of tokenizers."""
        return int(self.unit != "token")

    @property
    def has_pairs(self) -> bool:
        return self.pairs != "none"

    @property
    def weights(self) -> Mapping[str, float]:
        """The terms of the loss; with ``pairs`` also the share of wrongly labelled pairs, which is only logged."""
        return {"mlm": 1.0} | ({self.pairs: 1.0, "errors": 0.0} if self.has_pairs else {})

    @property
    def frame_tokens(self) -> int:
        return PAIR_FRAME_TOKENS if self.has_pairs else FRAME_TOKENS

    @property
    def packing_methods(self) -> tuple[str, ...]:
        return ("best_fit", "padded") if self.documents == "separate" else ("concatenate", "similar")

    def special_tokens(self) -> tuple[str, ...]:
        return (CLASS, SEPARATOR, MASK)

    def check_model(self, model: ModelConfig) -> None:
        check_pair_model(self.pairs, model)

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        check_sentences(self.pairs, vocabulary)

    def text_tokens(self, row_tokens: int) -> int:
        return row_tokens

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        most = dict.fromkeys(("masked", "targets"), self._most(row_tokens))
        by_position = ("inputs", "positions", "documents", *(("segments",) if self.has_pairs else ()))
        by_pair = ("firsts", "labels") if self.has_pairs else ()
        pairs = dict.fromkeys(by_pair, max(1, row_tokens // SHORTEST_PAIR))
        return dict.fromkeys(by_position, row_tokens) | most | pairs

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, Ids]:
        """Returns the arrays of a row that sees no other row: another document is one of its own ``pieces``."""
        return self.row_with_others(pieces, row_tokens, vocabulary, generator, among(pieces))

    def row_with_others(
        self,
        pieces: Pieces,
        row_tokens: int,
        vocabulary: Vocabulary,
        generator: np.random.Generator,
        others: OtherPiece,
    ) -> dict[str, Ids]:
        """Returns the arrays of one row; the module describes them and the order of the random numbers."""
        if self.copies and len(pieces):
            generator = copy_generator(pieces, int(generator.integers(self.copies)))
        arrays = self._framed(self._sequences(pieces, vocabulary, generator, others), row_tokens, vocabulary)
        tokens = arrays["inputs"]
        maskable = np.flatnonzero((arrays["documents"] >= 0) & ~np.isin(tokens, vocabulary.reserved))
        if not len(maskable):
            return arrays
        number = min(self._number(int((arrays["documents"] >= 0).sum()), generator), len(maskable))
        units = self.units(tokens, maskable, number, vocabulary, generator)
        order = sorted((position, unit) for unit, positions in enumerate(units) for position in positions)
        masked, unit_of = np.array(order, np.int64).reshape(-1, 2).T
        arrays["masked"][: len(masked)] = masked
        arrays["targets"][: len(masked)] = tokens[masked]
        draws = self.actions(unit_of, len(units), generator)
        tokens[masked] = self._replaced(tokens[masked], draws, vocabulary, generator)
        return arrays

    def counts(self, batch: Arrays) -> dict[str, int]:
        counts = {"mlm": int((batch["targets"] != IGNORED).sum())}
        if self.has_pairs:
            counts |= dict.fromkeys((self.pairs, "errors"), int((batch["labels"] != IGNORED).sum()))
        return counts

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        arguments = (batch["inputs"], batch["positions"], batch["documents"], batch["targets"])
        if not self.has_pairs:
            return named(self.weights, model(*arguments, at_BK=batch["masked"]))
        pairs = Pairs(batch["firsts"], batch["labels"])
        sums = model(*arguments, at_BK=batch["masked"], segments_BT=batch["segments"], pairs=pairs)
        return dict(zip(self.weights, sums.unbind(), strict=True))

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns the usual form: an encoder continues no context, so nothing has to be recorded."""
        return LEFT_TO_RIGHT

    def text_bytes(self, batch: Arrays, target_bytes_BT: NDArray[np.int64]) -> dict[str, int]:
        return {}

    def _sequences(
        self, pieces: Pieces, vocabulary: Vocabulary, generator: np.random.Generator, others: OtherPiece
    ) -> list[SequenceTexts]:
        """Returns the texts of each sequence of the row."""
        if self.documents == "joined":
            return [SequenceTexts([vocabulary.text_of(piece) for piece in pieces])] if len(pieces) else []
        return [divided(self.pairs, pieces, number, vocabulary, generator, others) for number in range(len(pieces))]

    def _framed(self, sequences: Sequence[SequenceTexts], row_tokens: int, vocabulary: Vocabulary) -> dict[str, Ids]:
        """Returns the arrays of the row before masking."""
        first, last = vocabulary.special_ids[CLASS], vocabulary.special_ids[SEPARATOR]
        padding = {"documents": -1, "targets": IGNORED, "labels": IGNORED}
        arrays = {name: np.full(length, padding.get(name, 0)) for name, length in self.lengths(row_tokens).items()}
        begin = pairs = 0
        for number, sequence in enumerate(sequences):
            tokens = np.concatenate([[first], *(np.append(text, last) for text in sequence.texts)])
            end = begin + len(tokens)
            arrays["inputs"][begin:end] = tokens
            arrays["positions"][begin:end] = np.arange(end - begin)
            arrays["documents"][begin:end] = number
            if sequence.label != IGNORED:
                arrays["segments"][begin + len(sequence.texts[0]) + FRAME_TOKENS : end] = 1
                arrays["firsts"][pairs], arrays["labels"][pairs] = begin, sequence.label
                pairs += 1
            begin = end
        return arrays

    def _most(self, row_tokens: int) -> int:
        """Returns the maximum number of predicted tokens of a row."""
        expected = self.rate * row_tokens
        most = max(1, round(expected)) if self.rounding == "nearest" else int(expected) + 1
        return min(most, self.cap or most)

    def _number(self, tokens: int, generator: np.random.Generator) -> int:
        """Returns the number of tokens to predict of a row of that many ``tokens``."""
        expected = self.rate * tokens
        number = max(1, round(expected)) if self.rounding == "nearest" else int(expected + generator.random())
        return min(number, self.cap or number)

    def units(
        self, tokens: Ids, maskable: Ids, number: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> Units:
        """Draws units of ``number`` tokens in all; fewer if no further whole word fits."""
        if self.unit == "token":
            return [[position] for position in generator.permutation(maskable)[:number].tolist()]
        drawn = {"word": drawn_words, "ngram": drawn_ngrams}[self.unit]
        return drawn(words_of(tokens, maskable, vocabulary), number, generator)

    def actions(self, unit_of: Ids, units: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draws the number in [0, 1) that decides by what each masked token is replaced; ``unit_of`` is the
        unit of each, below ``units``."""
        return generator.random(len(unit_of))

    def _replaced(
        self, tokens: Ids, draws: NDArray[np.float64], vocabulary: Vocabulary, generator: np.random.Generator
    ) -> Ids:
        """Returns the masked ``tokens`` as the model reads them."""
        choices = vocabulary.ordinary if self.random_tokens == "ordinary" else np.arange(vocabulary.size)
        random = choices[generator.integers(len(choices), size=len(tokens))]
        is_random = draws < self.mask_share + self.random_share
        return np.where(draws < self.mask_share, vocabulary.special_ids[MASK], np.where(is_random, random, tokens))


def copy_generator(pieces: Pieces, copy: int) -> np.random.Generator:
    """Returns the random numbers of one of the static masks of a row, a function of its tokens."""
    text = b"".join(np.asarray(piece, "<i8").tobytes() + b"\0" for piece in pieces)
    key = np.frombuffer(hashlib.shake_256(f"headrace mask\0{copy}\0".encode() + text).digest(16), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key))


def words_of(tokens: Ids, maskable: Ids, vocabulary: Vocabulary) -> list[list[int]]:
    """Returns the positions of each word: a token that begins one, and those after it that continue it."""
    words: list[list[int]] = []
    for position in maskable.tolist():
        if words and words[-1][-1] == position - 1 and vocabulary.continues_V[tokens[position]]:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def drawn_words(words: Units, number: int, generator: np.random.Generator) -> Units:
    """Draws words, or other units, of at most ``number`` tokens together; one that would be too many is passed over
    (BERT)."""
    chosen: list[Sequence[int]] = []
    for index in generator.permutation(len(words)).tolist():
        if len(words[index]) <= number:
            chosen.append(words[index])
            number -= len(words[index])
    return chosen


def drawn_ngrams(words: Sequence[list[int]], number: int, generator: np.random.Generator) -> Units:
    """Draws n-grams of one to three whole words: an order of the first words, then for each a length (ALBERT).

    One that would be too many tokens is shortened by words, and passed over if its first word is too many. One that
    overlaps an earlier n-gram is passed over. google-research/albert does the same, but for n-grams that go on over a
    separator: here they end with their text.
    """
    chosen: list[list[int]] = []
    covered: set[int] = set()
    for first in generator.permutation(len(words)).tolist():
        if not number:
            break
        longest = int(generator.choice(NGRAM_LENGTHS, p=NGRAM_SHARES))
        ngram = list(words[first])
        for word in words[first + 1 : first + longest]:
            if word[0] != ngram[-1] + 1 or len(ngram) + len(word) > number:
                break
            ngram += word
        if len(ngram) <= number and covered.isdisjoint(ngram):
            chosen.append(ngram)
            covered.update(ngram)
            number -= len(ngram)
    return chosen
