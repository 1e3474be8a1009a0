"""The protocol of training objectives, and the functions with which the loop uses one.

    pieces of a row ── row ──> named arrays ── counts ──> how many values each term of the loss has
                                    │
                                    └── losses ──> sums of the terms       loss = Σ weight · sum / count

A count is that of the global batch, over all ranks and micro-batches. Each term has its own: masked tokens, say, or
sentence pairs. Counts come from the arrays, because the first backward pass already needs them for the whole batch.
"""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from headrace.data_prep.tokenization.special_tokens import decoder_start, document_end, end_of_documents, spelling
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import imported
from headrace.pipeline.core.settings import NaturalNumber, settings
from headrace.pipeline.core.stage import RawFile
from headrace.train.config import BelowOne, ModelConfig
from headrace.train.context import ContextForm
from headrace.train.data.batches import IGNORED, Arrays, Tensors
from headrace.train.data.rows import OtherPiece, Pieces
from headrace.train.objectives.token_texts import continuations, sentence_ends
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

    from headrace.train.model.transformer import Transformer

OBJECTIVE_FILES = "objective"
"""The beginning of the names of the raw files of objectives."""


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens that rows are made of."""

    size: int
    special_ids: Mapping[str, int]
    """The id of each of the objective's special tokens, under the name that the objective gives it."""
    end: int | None = None
    """The id of the token that ends a document."""
    decoder_start: int | None = None
    """The id of the token that a decoder with an encoder begins with."""
    reserved: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    """The ids of all special tokens, which no text encodes to."""
    continues_V: NDArray[np.bool_] = dataclasses.field(default_factory=lambda: np.empty(0, bool), compare=False)
    """(size,): True for a token that continues the word of the token before it."""
    files: Any = dataclasses.field(default=None, compare=False, repr=False)
    """The content of the files of an objective that reads some (``ReadsFiles.read``)."""
    find_sentence_ends: Callable[[], NDArray[np.bool_]] = dataclasses.field(
        default=lambda: np.empty(0, bool), compare=False, repr=False
    )
    """Computes ``ends_sentence``."""

    @functools.cached_property
    def ordinary(self) -> NDArray[np.int64]:
        """The ids that are not reserved, in order."""
        return np.setdiff1d(np.arange(self.size), self.reserved)

    @functools.cached_property
    def ends_sentence(self) -> NDArray[np.bool_]:
        """(size,): True for a token that ends a sentence. Few objectives ask, and all tokens are decoded for it."""
        return self.find_sentence_ends()

    def text_of(self, piece: NDArray[np.integer]) -> NDArray[np.int64]:
        """Returns the text of ``piece``, without the token before it and the token that ends its document."""
        text = np.asarray(piece[1:], np.int64)
        return text[:-1] if np.isin(text[-1:], self.reserved).all() else text

    @classmethod
    def read(cls, objective: "Objective", tokenizer_file: Path) -> "Vocabulary":
        """Reads the tokens of a tokenizer.json; the special tokens are those of ``objective``.

        Raises:
            ConfigError: when the tokenizer lacks one.
        """
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        vocabulary = cls.of_tokenizer(objective, tokenizer)
        ids = tokenizer.get_vocab(with_added_tokens=True)
        end = ids.get(end_of_documents(tokenizer_file, ids) or "")
        start = end if vocabulary.decoder_start is None else vocabulary.decoder_start
        return dataclasses.replace(vocabulary, end=end, decoder_start=start)

    @classmethod
    def of_tokenizer(cls, objective: "Objective", tokenizer: Tokenizer) -> "Vocabulary":
        """Takes the tokens of ``tokenizer``; see ``read``."""
        ids = tokenizer.get_vocab(with_added_tokens=True)
        size = max(ids.values()) + 1
        special = [number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special]
        reserved, continues_V = np.array(sorted(special), np.int64), continuations(tokenizer)
        return dataclasses.replace(
            cls.of(objective, ids, size),
            reserved=reserved,
            continues_V=continues_V,
            files=objective.read(ids) if isinstance(objective, ReadsFiles) else None,
            find_sentence_ends=functools.partial(sentence_ends, tokenizer),
        )

    @classmethod
    def of(cls, objective: "Objective", ids: Mapping[str, int], size: int) -> "Vocabulary":
        """Takes the special tokens of ``objective`` from ``ids``, those of the whole tokenizer.

        Raises:
            ConfigError: when the tokenizer lacks one.
        """
        special_ids: dict[str, int] = {}
        for token in objective.special_tokens():
            spelled = spelling(token, ids)
            if spelled is None:
                problem = f"needs the token {token!r}, which the tokenizer lacks"
                raise ConfigError("objective", problem, "train or give a tokenizer that has it")
            special_ids[token] = ids[spelled]
        end, start = (None if token is None else ids[token] for token in (document_end(ids), decoder_start(ids)))
        return cls(size, special_ids, end, start)


@runtime_checkable
class InTwoSequences(Protocol):
    """An objective of one sequence, with the class that makes two of it, for an encoder and a decoder."""

    in_two_sequences: ClassVar[str]
    """``module:Class`` of settings with the same fields."""


def of_stack(objective: "Objective", stack: StackName) -> "Objective":
    """Returns ``objective`` as a model of this ``stack`` is trained with it."""
    if stack != "encoder_decoder" or not isinstance(objective, InTwoSequences):
        return objective
    kind = imported(objective.in_two_sequences)
    made: Objective = kind(**{field.name: getattr(objective, field.name) for field in dataclasses.fields(kind)})
    return made


def target_tokens(objective: "Objective", text_tokens: int) -> int | None:
    """Returns the length of the decoder's row for that many tokens of text; None where there is one sequence."""
    lengths = objective.lengths(text_tokens)
    return lengths["inputs"] if "encoder_inputs" in lengths else None


class Terms(Protocol):
    """The terms of a loss."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Each term of the loss by its name, and its weight."""
        ...

    def counts(self, batch: Arrays) -> dict[str, int]:
        """Returns for each term how many values of ``batch`` it sums."""
        ...

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        """Returns for each term its sum over ``batch``, a scalar in fp32."""
        ...


@runtime_checkable
class TrainsMore(Protocol):
    """Terms of a loss, some of which are trained and not printed in the loss."""

    @property
    def trained_weights(self) -> Mapping[str, float]:
        """Each term by its name, and its weight in the gradient."""
        ...


def trained_weights(terms: Terms) -> Mapping[str, float]:
    """Returns the weights of ``terms`` in the gradient: those of the printed loss, where nothing else is trained."""
    return terms.trained_weights if isinstance(terms, TrainsMore) else terms.weights


class Objective(Terms, Protocol):
    """The settings of an objective and its functions. Free of torch at import: it is read where there is none."""

    stacks: ClassVar[tuple[StackName, ...]]
    """The values of ``model.stack`` that it can train."""

    @property
    def type(self) -> str:
        """The name of the objective in ``objective=…``."""
        ...

    @property
    def frame_tokens(self) -> int:
        """Positions that a row needs besides those of its spans: for each span, or for each row where documents are
        concatenated."""
        ...

    @property
    def looks_ahead(self) -> bool:
        """Whether tokens see later ones in a model of one stack."""
        ...

    @property
    def packing_methods(self) -> tuple[str, ...]:
        """The values of ``packing.method`` whose rows it reads."""
        ...

    def special_tokens(self) -> tuple[str, ...]:
        """Returns the tokens, besides end of text, that a tokenizer needs for this objective."""
        ...

    def text_tokens(self, row_tokens: int) -> int:
        """Returns the most tokens of text, with which rows are packed, that become at most ``row_tokens`` positions.

        Raises:
            ConfigError: when the settings of the objective do not fit such a row.
        """
        ...

    def lengths(self, row_tokens: int) -> Mapping[str, int]:
        """Returns the length of each array of positions that a row of ``row_tokens`` tokens of text becomes."""
        ...

    def row(
        self, pieces: Pieces, row_tokens: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row, a pure function of its arguments; without ``pieces``, a row of padding."""
        ...

    def context_form(self, vocabulary: Vocabulary) -> ContextForm:
        """Returns the form in which the trained model reads the context of a continuation."""
        ...

    def text_bytes(self, batch: Arrays, target_bytes_BT: NDArray[np.int64]) -> dict[str, int]:
        """Returns the UTF-8 bytes of the text whose -ln p a term sums, for the terms that are such likelihoods.

        ``target_bytes_BT`` are the bytes of the token after each position of the pieces, which follow one another.
        Only a likelihood from left to right has bits per byte: the loss of masked tokens, say, has none.
        """
        ...


@runtime_checkable
class Demanding(Protocol):
    """A part of an objective that needs more of a model than its stack, or of a tokenizer than special tokens."""

    def check_model(self, model: ModelConfig) -> None:
        """Checks the parts of the model.

        Raises:
            ConfigError: naming the settings that do not fit.
        """
        ...

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Checks the tokens.

        Raises:
            ConfigError: when they lack what the objective needs.
        """
        ...


@runtime_checkable
class ReadsOtherRows(Protocol):
    """A part of an objective whose rows may have text of other rows of the same data."""

    def row_with_others(
        self,
        pieces: Pieces,
        row_tokens: int,
        vocabulary: Vocabulary,
        generator: np.random.Generator,
        others: OtherPiece,
    ) -> dict[str, NDArray[np.int64]]:
        """Returns the arrays of one row, as ``row``; ``others`` draws pieces of other documents."""
        ...


@runtime_checkable
class ReadsFiles(Protocol):
    """An objective whose rows depend on files besides the tokens."""

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files, with names that begin with ``OBJECTIVE_FILES`` and a slash.

        Raises:
            ConfigError: when one is missing.
        """
        ...

    def read(self, ids: Mapping[str, int]) -> Any:
        """Returns their content for tokens with these ``ids``: ``Vocabulary.files``.

        Raises:
            ConfigError: when a file is damaged, or is one of other tokens.
        """
        ...


@runtime_checkable
class AddsModules(Protocol):
    """An objective that trains modules in addition to those of the model: no export has them."""

    training_modules: ClassVar[tuple[str, ...]]
    """Their names in the model that ``build`` returns."""

    def build(self, config: ModelConfig, vocabulary: int) -> "Transformer":
        """Returns the model that ``losses`` calls, with these modules."""
        ...


def combined(weights: Mapping[str, float], sums: Mapping[str, float], counts: Mapping[str, float]) -> float:
    """Returns the loss: the sum of weight · sum / count over the terms. A term without a value adds nothing."""
    return sum(weight * (sums[name] / counts[name]) for name, weight in weights.items() if counts[name])


@settings
class CrossEntropy(abc.ABC):
    """Base of the objectives that predict tokens from left to right, with further terms of their loss. Unless they say
    otherwise, rows hold text alone, and the first term is no likelihood of it."""

    term: ClassVar[str] = "nll"
    """The name of the first term."""
    frame_tokens: ClassVar[int] = 0
    looks_ahead: ClassVar[bool] = False

    z_loss: NaturalNumber = 0.0
    """Weight of (ln Z)², which keeps logits small; Z is the sum of exp(logit). 1e-4 in PaLM (Chowdhery et al. 2022,
    section 5) and T5; 0: none. The term ``z_loss`` is trained and logged, but is no part of the printed loss."""
    label_smoothing: BelowOne = 0.0
    """Share ε of a uniform distribution in the targets of the training: 0.1 in Vaswani et al. 2017, section 5.4. The
    term ``label_smoothing`` is trained and logged, but is no part of the printed loss."""

    @property
    def further_terms(self) -> dict[str, float]:
        """The options of the output layer for terms of the loss after the first one (``Head.forward``)."""
        return {"z_loss": self.z_loss, "label_smoothing": self.label_smoothing}

    @property
    def weights(self) -> Mapping[str, float]:
        """The first term, and the further ones that are asked for, whose gradient that of the first one holds."""
        return {self.term: 1.0} | {name: 0.0 for name, value in self.further_terms.items() if value}

    def special_tokens(self) -> tuple[str, ...]:
        return ()

    def text_tokens(self, row_tokens: int) -> int:
        return row_tokens

    def counts(self, batch: Arrays) -> dict[str, int]:
        return dict.fromkeys(self.weights, int((batch["targets"] != IGNORED).sum()))

    @abc.abstractmethod
    def summed(self, model: "nn.Module", batch: Tensors, **options: Any) -> "Tensor":
        """Returns the sum of -ln p of the targets of ``batch``, a scalar in fp32; with ``options`` of the output layer,
        its sums."""

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        return named(self.weights, self.summed(model, batch, **self.further_terms))

    def text_bytes(self, batch: Arrays, target_bytes_BT: NDArray[np.int64]) -> dict[str, int]:
        return {}


def named(weights: Mapping[str, float], sums: "Tensor") -> "dict[str, Tensor]":
    """Returns the sums that an output layer computed, one or several, under the names of the first terms."""
    return dict(zip(weights, sums.reshape(-1), strict=False))


def bits_per_byte(nll_nats: float, text_bytes: float) -> float:
    """Returns NLL / ln 2 / bytes: it compares models with different tokenizers (Gao et al. 2020, section 3.1).

    The end of a document is a target as any other: its bits count, and its bytes are those after the last token, mostly
    none. Sums can be added over micro-batches, ranks and rows; means cannot.
    """
    return nll_nats / math.log(2) / text_bytes
