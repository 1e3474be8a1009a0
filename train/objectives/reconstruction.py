"""BART's objective: the encoder reads a corrupted text, the decoder writes the whole text (Lewis et al. 2020).

    document         a  b  c  .  d  e  .       noise.py: permuted sentences, then a span b c replaced by a mask _
    encoder_inputs   S  d  e  .  a  _  .  Z                    S <s>, Z </s>
    inputs           Z  S  a  b  c  .  d  e  .                 the decoder's
    targets          S  a  b  c  .  d  e  .  Z

The documents of a row do not see each other, and each has a corruption of its own. Its parts come in BART's order:
sentences are permuted, tokens are masked, deleted or infilled, the document is rotated.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Fraction, settings
from headrace.train.context import ContextForm, whole_text_form
from headrace.train.data.batches import Tensors
from headrace.train.data.rows import Pieces
from headrace.train.objectives import noise
from headrace.train.objectives.base import CrossEntropy, Vocabulary
from headrace.train.objectives.denoising import empty_row, source_losses, write_document
from headrace.train.objectives.noise import TokenIds
from headrace.train.objectives.token_texts import sentence_starts
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

BEGIN, END, MASK = "<s>", "</s>", "<mask>"
CorruptionRate = Annotated[float, Field(gt=0, lt=1)]
SpanWords = Annotated[float, Field(ge=0.5, le=1000)]


@settings
class Reconstruction(CrossEntropy):
    """Restores a corrupted text whole. Its one term ``reconstruction`` is -ln p(token | source and the tokens before),
    in nats, and no likelihood of a text: it has no bits per byte."""

    type: Literal["reconstruction"] = "reconstruction"
    stacks: ClassVar[tuple[StackName, ...]] = ("encoder_decoder",)
    term: ClassVar[str] = "reconstruction"
    frame_tokens: ClassVar[int] = 2
    packing_methods: ClassVar[tuple[str, ...]] = ("best_fit", "padded")
    permute_sentences: Fraction = 1.0
    """The share of a document's sentences that change their places."""
    kind: Literal["infilling", "masking", "deletion", "none"] = "infilling"
    """infilling: spans of words become one mask each; masking: single tokens become masks; deletion: single tokens are
    left out; none: all tokens are kept."""
    rate: CorruptionRate = 0.3
    """The share of words, for infilling, or of tokens that this concerns, rounded up."""
    mean_span: SpanWords = 3.0
    """The mean of the Poisson distribution of spans' lengths in words; a length of 0 inserts a mask."""
    random_share: Fraction = 0.0
    """The share of masks that are random tokens instead (fairseq's runs: 0.1)."""
    rotate: Fraction = 0.0
    """The share of documents that are rotated: they begin with a random token, and their first part comes last."""

    def __post_init__(self) -> None:
        if self.kind == "none" and not (self.permute_sentences or self.rotate):
            problem = "corrupts nothing: kind is none, permute_sentences and rotate are 0"
            raise ConfigError("objective", problem, "choose a corruption")

    @property
    def revision(self) -> int:
        """1 where rows depend on words, which token_texts.py finds since; before, not in all kinds of tokenizers."""
        return int(self.kind == "infilling")

    def special_tokens(self) -> tuple[str, ...]:
        return (BEGIN, END, MASK)

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        of_encoder = ("encoder_inputs", "encoder_positions", "encoder_documents")
        return dict.fromkeys((*of_encoder, "inputs", "targets", "positions", "documents"), row_tokens)

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row; it draws what the corruption of each document draws."""
        arrays = empty_row(self.lengths(row_tokens))
        first, last = ([vocabulary.special_ids[token]] for token in (BEGIN, END))
        texts = [vocabulary.text_of(piece) for piece in pieces]
        free_tokens = row_tokens - sum(len(text) + self.frame_tokens for text in texts)
        source_begin = begin = 0
        for number, text in enumerate(texts):
            source = self.corrupted(text, vocabulary, generator, free_tokens)
            free_tokens += len(text) - len(source)
            target = np.concatenate([first, text, last])
            framed = np.concatenate([first, source, last])
            source_begin = write_document(arrays, "encoder_", number, source_begin, inputs=framed)
            shifted = np.concatenate([last, target[:-1]])
            begin = write_document(arrays, "", number, begin, inputs=shifted, targets=target)
        return arrays

    def corrupted(
        self, text: TokenIds, vocabulary: Vocabulary, generator: np.random.Generator, free_tokens: int
    ) -> TokenIds:
        """Returns what the encoder reads of ``text``, at most ``free_tokens`` tokens longer than it."""
        if not len(text):
            return text
        if self.permute_sentences:
            starts = sentence_starts(text, vocabulary.ends_sentence)
            text = noise.with_moved_sentences(text, starts, self.permute_sentences, generator)
        text = self._with_noise(text, vocabulary, generator, free_tokens)
        if len(text) and self.rotate and generator.random() < self.rotate:
            text = noise.rotated(text, generator)
        return text

    def _with_noise(
        self, text: TokenIds, vocabulary: Vocabulary, generator: np.random.Generator, free_tokens: int
    ) -> TokenIds:
        if self.kind == "none":
            return text
        if self.kind == "deletion":
            return noise.without_tokens(text, self.rate, generator)
        masks = noise.Masks(vocabulary.special_ids[MASK], vocabulary.ordinary, self.random_share)
        if self.kind == "masking":
            return noise.masked(text, self.rate, masks, generator)
        begins_word = ~vocabulary.continues_V[text]
        begins_word[0] = True
        return noise.infilled(text, begins_word, self.rate, self.mean_span, masks, generator, free_tokens)

    def summed(self, model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
        return source_losses(model, batch, **options)

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        return whole_text_form(*(vocabulary.special_ids[token] for token in (BEGIN, END, MASK)))
