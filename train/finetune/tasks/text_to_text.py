"""Text-to-text tasks: the model reads a text and writes the result as words (Raffel et al. 2020, section 2.4).

    encoder–decoder    the encoder reads   sst2 sentence: a fine film E     the decoder writes   positive E
    decoder            E sst2 sentence: a fine film E positive E            the loss is that of "positive E"

E is the end of text. text_forms.py makes the texts. The score is that of greedy answers, or of those that beam search
finds.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, NaturalNumber, Positive, settings
from headrace.train.config import BelowOne
from headrace.train.context import ContextForm
from headrace.train.evaluation.file_records import RecordError
from headrace.train.evaluation.metrics import CORPUS, Comparison, require_packages
from headrace.train.finetune.files import AnyFormat
from headrace.train.finetune.files.examples import Example, NamedFields, TemplatePairs
from headrace.train.finetune.tasks.sequences import Form, Ids
from headrace.train.finetune.tasks.task import Prediction, Row, Task, read_files
from headrace.train.finetune.tasks.text_forms import TEXT_FORMS, TextForm, TextMetric, text_scores
from headrace.train.finetune.tasks.token_rows import TokenTask, answer_row, plain_sequence
from headrace.train.inference.settings import Beams
from headrace.train.parts import WRITING, StackName


@settings
class TextToText(Task):
    """Writes the result of a task as words."""

    type: Literal["text_to_text"] = "text_to_text"
    format: AnyFormat
    """The format of the files: fields (TSV, CSV, JSON lines), templates, or one whose text form a package has."""
    prefix: AnyText | None = None
    """The first word of the text that the model reads; null: that of the text form, which is none for fields."""
    metrics: tuple[TextMetric, ...] = ()
    """The metrics; checkpoints and seeds are compared by the first one. Empty: those of the benchmark; for a file of
    fields, accuracy, the correlations of numbers, or exact match and F1 of words."""
    answer_tokens: Positive | None = None
    """The most tokens of an answer, end of text included; null: those of the longest answer of the training."""
    comparison: Comparison = dataclasses.field(default_factory=Comparison)
    """The way in which BLEU, chrF and ROUGE compare texts."""
    beams: Beams = 1
    """Texts that beam search keeps for each answer of validation and test; 1: answers are greedy."""
    length_penalty: NaturalNumber = 0.0
    """Beam search divides ln p by ((5 + tokens) / 6) to the power of this (Wu et al. 2016); 0.6 in the Transformer of
    2017 and in T5. The penalties of fairseq and transformers are others: powers of the number of tokens."""
    label_smoothing: BelowOne = 0.0
    """Share of a uniform distribution in the targets of the training: 0.1 in Vaswani et al. 2017, section 5.4."""
    looks_ahead: bool = False
    """Whether the tokens that a decoder reads before the answer see each other in both directions, as objective=prefix
    trains it."""
    stacks: ClassVar[tuple[StackName, ...]] = WRITING

    def __post_init__(self) -> None:
        if self.format.type not in TEXT_FORMS:
            problem = f"is {self.format.type}, and no package is installed that makes texts of its examples"
            raise ConfigError("finetune.task.format.type", problem, f"give {' or '.join(TEXT_FORMS.tags)}")
        if self.length_penalty and self.beams == 1:
            problem = f"is {self.length_penalty} without beam search"
            raise ConfigError("finetune.task.length_penalty", problem, "give finetune.task.beams, such as 4")

    @property
    def revision(self) -> int:
        return self.text_form.revision

    @property
    def text_form(self) -> TextForm:
        """The way in which examples of the format become texts."""
        form: TextForm = TEXT_FORMS[self.format.type](getattr(self.format, "task", ""))
        return form

    @property
    def files_together(self) -> int:
        """The number of files that one set of examples is in: several where they are aligned line by line."""
        return self.format.files_together if isinstance(self.format, TemplatePairs) else 1

    @property
    def used_metrics(self) -> tuple[TextMetric, ...]:
        """The metrics, the main one first."""
        if self.metrics:
            return self.metrics
        if isinstance(self.format, NamedFields) and self.format.value:
            return ("pearson", "spearman")
        is_written = isinstance(self.format, NamedFields) and bool(self.format.answer)
        if is_written or isinstance(self.format, TemplatePairs):
            return ("word_f1", "exact_match")
        return self.text_form.metrics or ("accuracy",)

    @property
    def metric(self) -> str:
        return self.used_metrics[0]

    @property
    def classes(self) -> tuple[str, ...]:
        """The words for classes, as far as the format knows them."""
        return self.text_form.classes or self.format.classes

    def read(self, paths: Sequence[str], labelled: bool = True) -> tuple[list[Example], dict[str, int]]:
        """Returns the examples of files; those that cannot be converted are dropped."""
        examples, dropped = read_files(self.format, paths, labelled)
        converted = []
        for example in examples:
            try:
                self.inputs(example)
                converted.append(example)
            except RecordError as error:
                dropped[error.reason] = dropped.get(error.reason, 0) + 1
        return converted, dropped

    def inputs(self, example: Example) -> str:
        """Returns the text that the model reads."""
        form = self.text_form
        return form.inputs(example, form.prefix if self.prefix is None else self.prefix)

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        require_packages("finetune.task.metrics", self.used_metrics)
        for split, examples in (("train", training), ("validation", validation)):
            without = next((example for example in examples if not self.text_form.targets(example)), None)
            if without is not None:
                remedy = "give files with results, and name their field (label, value, gold or answer) in the format"
                raise ConfigError(f"finetune.{split}", f"example {without.id} has no result to write", remedy)
        if not any(self.text_form.taught(example) for example in training):
            problem = f"none of {len(training)} examples has a text that is trained on"
            raise ConfigError("finetune.train", problem, "give some")
        if set(self.used_metrics) & {"f1", "f1a"} and len(self.classes) != 2:
            problem = f"f1 is that of two classes, and the format knows {len(self.classes)}"
            raise ConfigError("finetune.task.metrics", problem, "give the classes as format.labels, or take macro_f1")

    def fitted(self, training: Sequence[Example], form: Form) -> "WrittenTask":
        texts = [text for example in training for text in self.text_form.targets(example)]
        with_end = max(len(ids) for ids in form.ids(texts)) + 1
        most = self.answer_tokens or with_end
        frame = form.frame(2)
        around = 0 if form.is_two_stacks else len(frame.before) + len(frame.between)
        if most + around >= form.context:
            problem = f"is {form.context}, and an answer of up to {most} tokens leaves none for the text before it"
            raise ConfigError("finetune.context", problem, "give a larger one, or finetune.task.answer_tokens")
        classes = self.classes or tuple(sorted({str(example.label) for example in training}))
        return WrittenTask(form=form, task=self, classes=classes, answer_tokens=most, **self.of_tokens)

    @property
    def of_tokens(self) -> dict[str, Any]:
        """The settings that ``TokenTask`` has, too."""
        names = ("looks_ahead", "beams", "length_penalty", "label_smoothing")
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrittenTask(TokenTask):
    """A text-to-text task with its classes and the length of its answers."""

    task: TextToText
    classes: tuple[str, ...]

    @property
    def context_form(self) -> ContextForm:
        if self.form.is_two_stacks:
            return ContextForm(looks_ahead=True, ending=(self._end,), given=(self.form.decoder_start,))
        frame = self.form.frame(2)
        return ContextForm(looks_ahead=self.looks_ahead, opening=frame.before, ending=frame.between)

    @property
    def _end(self) -> int:
        return self.form.encoder.end_of_text

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        """Returns the rows of ``examples``; see ``TextForm.taught`` about several right answers."""
        prompts = self.form.ids([self.task.inputs(example) for example in examples])
        rows = []
        for index, (example, prompt) in enumerate(zip(examples, prompts, strict=True)):
            form = self.task.text_form
            texts = form.taught(example) if is_training else form.targets(example)[:1]
            if texts is None:
                continue
            for answer in self.form.ids(texts) or [np.empty(0, np.int64)]:
                rows.append(self._row(index, prompt, answer))
        return rows

    def _row(self, index: int, prompt: Ids, answer: Ids) -> Row:
        """Returns a row whose prompt and answer are cut at their ends if they do not fit."""
        written = answer[: self.answer_tokens - 1]
        target = np.append(written, self._end) if len(answer) else answer
        cut = len(answer) - len(written)
        if self.form.is_two_stacks:
            whole = np.append(prompt[: self.form.context - 1], self._end)
            return Row(index, (plain_sequence(whole, cut + len(prompt) + 1 - len(whole)), plain_sequence(target)), {})
        frame = self.form.frame(2)
        most = self.form.context - self.answer_tokens - len(frame.before) - len(frame.between)
        read = np.concatenate([frame.before, prompt[:most], frame.between]).astype(np.int64)
        tokens = np.concatenate([read, target])
        cut += len(prompt) - len(prompt[:most])
        return answer_row(index, tokens, np.arange(len(tokens)) >= len(read), len(read), cut)

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        return [
            {
                "id": example.id,
                "prediction": self.text(self.written(output)),
                **({"label": targets[0]} if (targets := self.task.text_form.targets(example)) else {}),
            }
            for example, output in zip(examples, outputs, strict=True)
        ]

    def text(self, tokens: NDArray[Any]) -> str:
        """Returns the text of written ``tokens`` up to the end of text."""
        ids = tokens.astype(np.int64)
        ends = np.flatnonzero(ids == self._end)
        written = ids[: ends[0]] if len(ends) else ids
        return self.form.encoder.decode(written, skip_special_tokens=True).strip()

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        written = [str(prediction["prediction"]) for prediction in predictions]
        task = self.task
        return text_scores(task.text_form, task.used_metrics, self.classes, examples, written, task.comparison)

    def signatures(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        written = [str(prediction["prediction"]) for prediction in predictions]
        right = [self.task.text_form.targets(example) for example in examples]
        names = [name for name in self.task.used_metrics if name in CORPUS]
        return {name: self.task.comparison.corpus(name, written, right).signature for name in names}
