"""Tokenizers over the 256 bytes: byte-level BPE (Radford et al. 2019, §2.2) and single bytes (ByT5, Xue et al. 2022).

They encode any text, and decoding restores the text. Both have GPT-2's form of a tokenizer.json, in which 256
characters stand for the bytes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal

import tokenizers
from pydantic import Field

from headrace.data_prep.tokenization.made_tokenizer import WORD_BYTES, Made, Sampled
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import settings

BYTES = tokenizers.pre_tokenizers.ByteLevel.alphabet()
"""The 256 characters that stand for the 256 bytes."""


@settings
class Trained(Sampled):
    """Byte-level BPE trained on the documents of ``unique``. End of text has id 0."""

    has_unknown: ClassVar[bool] = False
    type: Literal["train"] = "train"
    vocabulary_size: Annotated[int, Field(gt=len(BYTES), le=2**31)] = 8192
    """Most tokens, including the 256 bytes and end of text. Fewer if no pair of tokens occurs twice."""

    def fixed_tokens(self) -> dict[str, int]:
        return {"bytes": len(BYTES)}

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Trains on ``texts``. Longer words are cut into words of WORD_BYTES."""
        tokenizer = byte_level(tokenizers.models.BPE())
        whole_words = tokenizer.pre_tokenizer
        cut = tokenizers.pre_tokenizers.FixedLength(WORD_BYTES)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([whole_words, cut])
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=2,
            special_tokens=list(first),
            initial_alphabet=BYTES,
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        tokenizer.pre_tokenizer = whole_words
        return tokenizer


@settings
class Bytes(Made):
    """The 256 bytes, and nothing to learn. With the special tokens of T5, the ids are those of ByT5."""

    has_unknown: ClassVar[bool] = False
    type: Literal["byte"] = "byte"

    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        special = self.special(special_tokens)
        return len(special.first) + len(BYTES) + len(special.last)

    def build(self, unique: Artifact, counts: "Counter[str]", special_tokens: Sequence[str] = ()) -> str:
        return self.make(special_tokens)

    def make(self, special_tokens: Sequence[str] = ()) -> str:
        """Returns the tokenizer.json: first special tokens, bytes in the order of their values, last special tokens."""
        special = self.special(special_tokens)
        tokens = [*special.first, *sorted(BYTES, key=byte_of)]
        model = tokenizers.models.BPE({token: number for number, token in enumerate(tokens)}, [])
        return str(special.added_to(byte_level(model)).to_str())


def byte_level(model: tokenizers.models.Model) -> tokenizers.Tokenizer:
    """Returns ``model`` with GPT-2's pre-tokenization (regular expression, bytes as characters) and its inverse."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def byte_of(character: str) -> int:
    """Returns the byte that ``character`` stands for: itself if it is printable Latin-1, else the next one in order."""
    code = ord(character)
    invisible = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    return invisible[code - 0x100] if code >= 0x100 else code
