"""The form in which a model reads one text or a pair: special tokens, segments, the cut of texts that are too long.

    encoder            [CLS] a b [SEP]        [CLS] a b [SEP] c d [SEP]        the head reads the first position
    decoder            E a b E                E a b E c d E                    the last one; E is the end of text
    encoder–decoder    a b E                  a b E c d E                      the last one of the decoder, which reads
                                                                               the same tokens one position later

The tokenizer's own form of texts (the template of tokenizer.json: RoBERTa's <s> a b </s></s> c d </s>, say) replaces
these. A decoder's always ends with E: no token of a text but the last one has seen all of it.

A pair that is too long loses tokens at the end of the longer text, one after the other, until it fits; of texts of one
length, the second one (google-research/bert, run_classifier.py, ``_truncate_seq_pair``).
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.special_tokens import spelling
from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.families.registry import family_of

Ids = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Framed:
    """The tokens of one text or pair as a model reads them."""

    tokens: Ids
    segments: Ids
    """0 in the first text, 1 in the second one; all 0 in a model with fewer than two segments."""
    starts: tuple[int, ...]
    """The index of the first token of each text."""
    cut_tokens: int = 0
    """The number of tokens that did not fit."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """The special tokens around one text or a pair."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Form:
    """The form in which ``model`` reads texts of a task."""

    encoder: Encoder
    model: ModelConfig
    context: int
    """The most tokens of a sequence, special ones included."""
    tokenizer_folder: Path | None = None
    """The folder of the tokenizer; that of a Hugging Face model may have a chat template."""

    @property
    def is_two_stacks(self) -> bool:
        return self.model.stack == "encoder_decoder"

    @property
    def decoder_start(self) -> int:
        """The token that the decoder of two stacks begins with."""
        ids = self.encoder.backend.get_vocab(with_added_tokens=True)
        return ids[family_of(self.model).decoder_start(ids) or ""]

    def ids(self, texts: Sequence[str]) -> list[Ids]:
        """Returns the tokens of each text, without special ones."""
        return [ids_T.astype(np.int64) for ids_T in self.encoder.encode(texts)]

    def frame(self, texts: int) -> Frame:
        """Returns the special tokens around one text, or around the two of a pair.

        Raises:
            ConfigError: when the model is an encoder and the tokenizer has no token of a class and no separator.
        """
        given = _template(self.encoder, texts)
        end = self.encoder.end_of_text
        if self.model.stack == "decoder":
            frame = given or Frame((end,), (end,) * (texts - 1), (end,))
            return dataclasses.replace(frame, after=frame.after or (end,))
        if given is not None:
            return given
        if self.is_two_stacks:
            return Frame((), (end,) * (texts - 1), (end,))
        ids = self.encoder.backend.get_vocab(with_added_tokens=True)
        names = [spelling(token, ids) for token in ("[CLS]", "[SEP]")]
        if None in names:
            remedy = "train or give a tokenizer that has them: tokenizer.special_tokens=bert, say"
            raise ConfigError("tokenizer", "has no tokens [CLS] and [SEP], which frame the texts of a task", remedy)
        first, separator = (ids[name or ""] for name in names)
        return Frame((first,), (separator,) * (texts - 1), (separator,))

    def framed(self, texts: Sequence[Ids]) -> Framed:
        """Returns one text or a pair in its frame, cut to ``context`` tokens."""
        frame = self.frame(len(texts))
        lengths = cut_lengths([len(text) for text in texts], self.context - frame_tokens(frame))
        cut = [text[:length] for text, length in zip(texts, lengths, strict=True)]
        return self.joined(frame, cut, sum(map(len, texts)) - sum(lengths))

    def joined(self, frame: Frame, texts: Sequence[Ids], cut_tokens: int = 0) -> Framed:
        """Returns ``texts`` in ``frame``; they must fit."""
        between = frame.between if len(texts) > 1 else ()
        first = [*frame.before, *texts[0], *between]
        second = [*(texts[1] if len(texts) > 1 else ()), *frame.after]
        starts = (len(frame.before), *([len(first)] if len(texts) > 1 else []))
        has_second = self.model.segments > 1 and len(texts) > 1
        segments = [0] * len(first) + [int(has_second)] * len(second)
        return Framed(np.array(first + second, np.int64), np.array(segments, np.int64), starts, cut_tokens)


def frame_tokens(frame: Frame) -> int:
    """Returns the number of special tokens."""
    return len(frame.before) + len(frame.between) + len(frame.after)


def cut_lengths(lengths: Sequence[int], most: int) -> list[int]:
    """Returns the lengths of the texts after the cut to ``most`` tokens together: the longest one loses first."""
    left = list(lengths)
    if len(left) == 1:
        return [min(left[0], max(most, 0))]
    excess = max(0, sum(left) - max(most, 0))
    longer = 0 if left[0] > left[1] else 1
    alone = min(excess, abs(left[0] - left[1]))  # until both are of one length
    left[longer] -= alone
    half, odd = divmod(excess - alone, 2)
    return [left[0] - half, left[1] - half - odd]


def _template(encoder: Encoder, texts: int) -> Frame | None:
    """Returns the special tokens that tokenizer.json puts around texts; None if it puts none."""
    encoding = encoder.backend.encode("a", "a" if texts > 1 else None)
    numbers = encoding.sequence_ids
    if None not in numbers or not set(range(texts)) <= set(numbers):
        return None
    first, last = numbers.index(0), len(numbers) - numbers[::-1].index(texts - 1)
    special = [token for token, number in zip(encoding.ids, numbers, strict=True) if number is None]
    before, after = first, len(numbers) - last
    return Frame(
        tuple(special[:before]), tuple(special[before : len(special) - after]), tuple(special[len(special) - after :])
    )
