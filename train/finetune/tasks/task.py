"""The protocol of a task: what a model learns from labelled examples. Free of torch at import.

    files ── format (files/) ──> examples ── Task.fitted ──> Fitted        knows the classes and the form of sequences
    examples ── Fitted.rows ──> rows ── Fitted.arrays ──> arrays of a batch ── Fitted.losses ──> sums of its terms
    rows, Fitted.outputs of the model ── Fitted.predictions ──> predictions ── Fitted.scores ──> metric → value

A row is what one position of the order of a training stands for: an example, or one of the windows of a long text.
"""

import abc
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import TextList, settings
from headrace.pipeline.core.text_files import stored_path
from headrace.train.context import ContextForm
from headrace.train.data.batches import Arrays, EncoderTokens, Tensors
from headrace.train.data.order import Order, RowOrder
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.files import AnyFormat
from headrace.train.finetune.files.examples import Example, Examples, Format, NamedFields, TemplatePairs
from headrace.train.finetune.tasks.sequences import Form, Framed
from headrace.train.parts import StackName

if TYPE_CHECKING:
    from torch import Tensor, nn

Prediction = dict[str, Any]
"""One line of predictions.jsonl: ``id``, ``prediction``, ``label`` where it is known, and what the task adds."""
ROW_MULTIPLE = 8
"""Sequences of a batch are padded to a multiple of this."""
ALL_STACKS: tuple[StackName, ...] = ("decoder", "encoder", "discriminator", "encoder_decoder")


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a training or evaluation."""

    example: int
    """The index of its example."""
    sequences: tuple[Framed, ...]
    """One sequence, or one for each choice."""
    targets: Mapping[str, NDArray[Any]]
    """The arrays that the loss compares with, by name; those of one name have one shape in all rows of a task."""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further values that the predictions need."""

    unread_words: int = 0
    """The number of words to tag that have no token in it."""

    @property
    def tokens(self) -> int:
        return sum(len(sequence.tokens) for sequence in self.sequences)

    @property
    def cut_tokens(self) -> int:
        return sum(sequence.cut_tokens for sequence in self.sequences)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted(abc.ABC):
    """A task with all that follows from its training examples."""

    form: Form

    kind: ClassVar[TaskKind | None]
    """The head's kind (train/families/task_heads.py); None: the model keeps its output layer and predicts tokens."""
    term: ClassVar[str] = "nll"
    """The name of the term of the loss."""

    @property
    def outputs_per_position(self) -> int:
        """Returns the number of outputs of the head."""
        return 1

    @property
    def weights(self) -> Mapping[str, float]:
        """Each term of the loss by its name, and its weight."""
        return {self.term: 1.0}

    @property
    def hf_fields(self) -> Mapping[str, Any]:
        """Returns the fields of config.json that describe the outputs."""
        return {}

    @property
    def context_form(self) -> ContextForm | None:
        """Returns the form in which the fine-tuned model reads contexts; None: that of the model before."""
        return None

    def order(self, seed: int, rows: Sequence["Row"]) -> RowOrder:
        """Returns the order in which ``rows`` are trained on."""
        return Order(seed, len(rows))

    def complete(self, folder: Path) -> None:
        """Adds to the exported Hugging Face ``folder`` what the task knows besides; most tasks add nothing."""
        return

    @abc.abstractmethod
    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        """Returns the rows of ``examples``; in a training those that teach something."""

    def arrays(self, rows: Sequence[Row], length: int | None = None) -> dict[str, NDArray[Any]]:
        """Returns the arrays of a batch: sequences padded to ``length`` (None: the longest), and targets.

        ``inputs``, ``positions``, ``documents``, ``segments`` are (B, C, T), ``ends`` (B, C); C are the sequences of a
        row, of which missing ones are empty.
        """
        return padded_sequences(self.form, rows, length) | {
            name: np.stack([row.targets[name] for row in rows]) for name in rows[0].targets
        }

    @abc.abstractmethod
    def counts(self, batch: Arrays) -> dict[str, int]:
        """Returns for each term how many values of ``batch`` it sums."""

    def losses(self, model: "nn.Module", batch: Tensors) -> "dict[str, Tensor]":
        """Returns for each term its sum over ``batch``, a scalar in fp32."""
        return self.sums(self.outputs(model, batch), batch)

    @abc.abstractmethod
    def outputs(self, model: "nn.Module", batch: Tensors) -> "Tensor":
        """Returns what the loss and the predictions are made of, in fp32; the first dimension is the row."""

    @abc.abstractmethod
    def sums(self, outputs: "Tensor", batch: Tensors) -> "dict[str, Tensor]":
        """Returns for each term its sum over ``batch``, from the ``outputs`` for it."""

    @abc.abstractmethod
    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        """Returns the prediction of each of ``examples``, in their order, from the ``outputs`` of each of ``rows``."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Returns metric → value of ``predictions`` of labelled ``examples``."""

    def signatures(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        """Returns for each metric that a package computes the settings that give its value, in the package's form."""
        return {}


class Task(abc.ABC):
    """The settings of a task. Subclasses are settings classes with a ``type``."""

    stacks: ClassVar[tuple[StackName, ...]] = ALL_STACKS
    """The values of ``model.stack`` that it can train."""
    least_context: ClassVar[int] = 8
    """The least tokens of a sequence that it works with."""

    type: str
    """The name of the kind of task in ``finetune.task.type``."""

    @property
    @abc.abstractmethod
    def metric(self) -> str:
        """The metric by which checkpoints and seeds are compared; higher is better."""

    @abc.abstractmethod
    def read(self, paths: Sequence[str], labelled: bool = True) -> "tuple[list[Example], dict[str, int]]":
        """Returns the examples of files, and the number of dropped lines by reason.

        Raises:
            ArtifactError: when a file cannot be read as the task's format.
            ConfigError: when the format has no results of this task.
        """

    def trainable(self, examples: Sequence[Example]) -> "tuple[list[Example], dict[str, int]]":
        """Returns those of ``examples`` that a model can learn from, and the number of the others by reason.

        A result that is known well enough to be scored may lack what training needs.
        """
        return list(examples), {}

    @abc.abstractmethod
    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        """Checks the labelled examples against each other.

        Raises:
            ConfigError: when validation has a class that training lacks, say.
        """

    @abc.abstractmethod
    def fitted(self, training: Sequence[Example], form: Form) -> Fitted:
        """Returns the task with the classes of its ``training`` examples, for sequences of this ``form``."""


def padded_sequences(form: Form, rows: Sequence[Row], length: int | None = None) -> dict[str, NDArray[Any]]:
    """Returns the arrays of the sequences of ``rows``; see ``Fitted.arrays``. Two stacks also get the encoder's."""
    choices = max(len(row.sequences) for row in rows)
    longest = max((len(sequence.tokens) for row in rows for sequence in row.sequences), default=1)
    width = length or min(form.context, -(-longest // ROW_MULTIPLE) * ROW_MULTIPLE)
    shape = (len(rows), choices, width)
    arrays = {name: np.zeros(shape, np.int64) for name in ("inputs", "positions", "segments")}
    arrays["documents"] = np.full(shape, -1, np.int64)
    ends = np.zeros(shape[:2], np.int64)
    for number, row in enumerate(rows):
        for choice, sequence in enumerate(row.sequences):
            index, end = (number, choice), len(sequence.tokens)
            arrays["inputs"][index][:end], arrays["segments"][index][:end] = sequence.tokens, sequence.segments
            arrays["positions"][index][:end], arrays["documents"][index][:end] = np.arange(end), 0
            ends[index] = max(end - 1, 0)
    if form.is_two_stacks:
        arrays["encoder_inputs"] = arrays["inputs"]
        shifted = np.roll(arrays["inputs"], 1, axis=-1)
        shifted[..., 0] = form.decoder_start
        arrays["inputs"] = np.where(arrays["documents"] < 0, 0, shifted)
    return arrays | {"ends": ends}


def task_outputs(form: Form, model: "nn.Module", batch: Tensors, everywhere: bool = False) -> "Tensor":
    """Returns the outputs of the model at the position that the head reads of each sequence, (B, C, O) in fp32.

    With ``everywhere`` those of all positions, (B, C, T, O).
    """
    rows, choices = batch["inputs"].shape[:2]
    flat = {name: batch[name].flatten(0, 1) for name in ("inputs", "positions", "documents", "segments")}
    source = None
    if form.is_two_stacks:
        encoder_inputs = batch["encoder_inputs"].flatten(0, 1)
        source = EncoderTokens(encoder_inputs, flat["positions"], flat["documents"])
    reads_first = form.model.stack in ("encoder", "discriminator")
    ends_N1 = batch["ends"].flatten()[:, None]
    at_N1 = None if everywhere else ends_N1 * 0 if reads_first else ends_N1
    segments = flat["segments"] if form.model.segments else None
    outputs: Tensor = model(
        flat["inputs"], flat["positions"], flat["documents"], segments_BT=segments, at_BK=at_N1, source=source
    )
    kept = outputs.float() if everywhere else outputs[:, 0].float()
    return kept.view(rows, choices, *kept.shape[1:])


@settings
class FileTask(Task):
    """Base of the tasks whose examples come from files of one format."""

    format: AnyFormat
    """The format of the files: fields (TSV, CSV, JSON lines), glue, squad, or that of an installed package."""
    texts: TextList = ()
    """The texts that the model reads, by their names in the format, in order: the first one, and after the separator
    the others, with a space between them; empty: all of them."""

    result: ClassVar[str] = ""
    """The setting of ``NamedFields`` that names the field with the task's results; empty: there is none."""
    labels: ClassVar[tuple[str, str]] = ("", "")
    """The field of ``Example`` that every labelled one has, and what an error calls it; empty: there is none."""

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        for split, examples in (("train", training), ("validation", validation)):
            check_labelled(examples, *self.labels, split)

    def read(self, paths: Sequence[str], labelled: bool = True) -> tuple[list[Example], dict[str, int]]:
        if labelled and self.result and isinstance(self.format, NamedFields):
            self.format.check_named(self.result, stored_path(Path(paths[0])))
        examples, dropped = read_files(self.format, paths, labelled)
        if examples and (unknown := [name for name in self.texts if name not in examples[0].texts]):
            names = ", ".join(examples[0].texts)
            raise ConfigError("finetune.task.texts", f"the format has no text {unknown[0]!r}", f"give some of: {names}")
        return examples, dropped

    def texts_of(self, example: Example) -> list[str]:
        """Returns the one text or the two that the model reads of ``example``."""
        texts = [example.texts[name] for name in self.texts or example.texts]
        return [texts[0], " ".join(texts[1:])] if len(texts) > 1 else texts


def read_files(form: Format, paths: Sequence[str], labelled: bool) -> tuple[list[Example], dict[str, int]]:
    """Returns the examples of all ``paths``, and the number of dropped lines by reason."""
    stored = [stored_path(Path(path)) for path in paths]
    if isinstance(form, TemplatePairs):
        return merged(form.read_together(files, labelled) for files in form.sets(stored))
    return merged(form.read(path, labelled) for path in stored)


def merged(files: Iterable[Examples]) -> tuple[list[Example], dict[str, int]]:
    """Returns the examples of all ``files``, and the number of dropped lines by reason."""
    examples, dropped = list[Example](), Counter[str]()
    for file in files:
        examples += file.examples
        dropped.update(file.dropped)
    return examples, dict(dropped)


def check_labelled(examples: Sequence[Example], field: str, what: str, split: str) -> None:
    """Checks that every one of ``examples`` has its result in ``field``.

    Raises:
        ConfigError: naming the first example without.
    """
    for example in examples:
        if getattr(example, field) is None:
            problem = f"example {example.id} has no {what}"
            remedy = "give files with results, or the task type that they are of"
            raise ConfigError(f"finetune.{split}", problem, remedy)
