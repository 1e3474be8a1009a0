"""The choice of the most likely of several answers, over the fields of files as they are published.

    MMLU        question,A,B,C,D,answer            "{0}\\nA. {A}\\nB. {B}\\nC. {C}\\nD. {D}\\nAnswer:"  A B C D
    HellaSwag   ctx, endings, label                "{activity_label}: {ctx_a} {ctx_b:capitalize}"   {endings}
    RTE         premise, hypothesis, label         "{premise}\\nquestion: {hypothesis} True or False?\\nanswer:"

    context       <description><worked examples><prompt, rewritten>
    continuation  <delimiter><choice>

``description`` may have fields, too. ``options`` are answers that letters stand for: the prompt names them {A}, {B}, ….
``{file}`` is the name of the record's file in words, without _test, _dev and _val: the subject of MMLU. Worked examples
are others of the item's group, or the first ones of ``worked_paths``.
"""

import dataclasses
import itertools
import random
import re
import string
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, Positive, SomeTexts, TextList, settings
from headrace.pipeline.core.stage import RawFile
from headrace.train.evaluation.benchmarks.base import (
    FewShotBenchmark,
    Item,
    Outcome,
    RecordBenchmark,
    Sources,
    benchmark_file,
    by_group,
    column,
    files_at,
    of_groups,
)
from headrace.train.evaluation.benchmarks.choices import ChoiceScores, chance, choice_item, question_texts
from headrace.train.evaluation.file_records import (
    BenchmarkRecord,
    FieldValues,
    RecordError,
    benchmark_records,
    value_of,
)
from headrace.train.evaluation.metrics import accuracy
from headrace.train.evaluation.prompt import PromptForm, Template, WorkedExample, too_many_shots
from headrace.train.evaluation.score_rows import Metric

WHERE = "evaluation.benchmarks"
LETTERS = string.ascii_uppercase
SPLIT = re.compile(r"_(test|dev|val)\Z")
FILE = "file"
"""The name of the field with the words of a file's name."""


@dataclasses.dataclass(frozen=True)
class FieldQuestion:
    """One record as the benchmark needs it."""

    question: str
    choices: tuple[str, ...]
    gold: int
    group: str
    description: str
    key: str
    """The question with its options in alphabetical order: equal for copies of it."""


@settings
class FieldChoice(ChoiceScores, FewShotBenchmark[FieldQuestion]):
    """The choice of the most likely continuation, over files of fields."""

    type: Literal["field_choice"] = "field_choice"
    sentence: ClassVar[str] = "Questions with several answers; the model chooses the one that it finds most likely."
    prompt: str
    """The text before the answer, with names of fields in braces. Files are TSV, CSV or JSON lines."""
    choices: SomeTexts
    """The continuations: ["{ending0}", "{ending1}"], one text in which a field holds a list of them, or letters."""
    options: TextList = ()
    """The answers that letters stand for, in the order of the choices: prompt and choices may name them {A}, {B}, …."""
    gold: AnyText = ""
    """The field with the right choice: its index from 0, or one of ``labels``. Empty: the first one is right."""
    labels: TextList = ()
    """The values of ``gold`` in the order of the choices: [A, B, C, D], [entailment, not_entailment]."""
    shuffle: bool = False
    """Whether options are shown in an order that the content of their record decides."""
    header: bool = True
    """Whether the first line of TSV and CSV names the fields; else they are "0", "1", …."""
    group: AnyText = ""
    """A field whose values are groups with scores and worked examples of their own: file, say; empty: no groups."""
    worked_paths: TextList = ()
    """Files with the worked examples: the first ``shots`` records of the item's group but the question itself; empty:
    drawn from ``paths``."""
    choice_rewrites: tuple[tuple[str, AnyText], ...] = ()
    """Regular expressions and the replacements of their matches in a choice, applied in order."""
    limit_per_group: Positive | None = None
    """At most this many items of each group; None takes all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting, texts in (("prompt", [self.prompt]), ("options", self.options), ("choices", self.choices)):
            for text in texts:
                Template.parsed(text, f"{WHERE}: {setting}", least=0)
        if self.shuffle and not self.options:
            raise ConfigError(WHERE, "shuffles, and has no options", "give options: they are what is shuffled")

    @property
    def revision(self) -> int:
        """1 with examples from ``worked_paths``: in revision 0 a question was among them where both files have it."""
        return int(bool(self.worked_paths and self.shots))

    @property
    def reading(self) -> str:
        return "|".join((self.type, self.prompt, *self.options, *self.choices, self.gold, *self.labels))

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        worked = tuple(map(benchmark_file, files_at(data, self.worked_paths)))
        files = (*super().raw_files(data), *worked)
        if len({file.name for file in files}) < len(files):
            raise ConfigError(WHERE, "a file of paths and one of worked_paths have one name", "rename one")
        self._worked(data)
        return files

    def records(self, data: Path) -> list[BenchmarkRecord]:
        return benchmark_records(self.files(data), header=self.header)

    def read(self, data: Path) -> list[tuple[str, FieldQuestion]]:
        return RecordBenchmark.read(self, data) if self.worked_paths else super().read(data)

    def parse(self, record: BenchmarkRecord) -> FieldQuestion:
        return self._question({FILE: words(record.name.rpartition(":")[0]), **record.values})

    def texts(self, parsed: Sequence[FieldQuestion]) -> list[tuple[str, ...]]:
        return question_texts([(question.question, question.choices, question.gold) for question in parsed])

    def items(self, sources: Sources) -> list[Item]:
        groups: dict[str, list[tuple[str, FieldQuestion]]] = defaultdict(list)
        for name, question in self.read(sources.data):
            groups[question.group].append((name, question))
        worked = self._worked(sources.data)
        items = (self._items(group, worked, sources.form)[: self.limit_per_group] for group in groups.values())
        return of_groups(items, self.limit)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the accuracies of all items, then of each group: that of all counts items, as MMLU's own."""
        right, of_group = by_group(items, column(outcomes, "acc")), by_group(items, items)
        groups = [accuracy("acc", right[name], chance(of_group[name]), name) for name in sorted(right) if name]
        return [*super().metrics(items, outcomes, vocabulary), *groups]

    def _question(self, values: FieldValues) -> FieldQuestion:
        options = [text for template in self.options for text in Template.parsed(template, WHERE, 0).texts(values)]
        gold = _index(values, self.gold, self.labels) if self.gold else 0
        if self.shuffle:
            order = random.Random("\n".join(options)).sample(range(len(options)), len(options))
            options, gold = [options[number] for number in order], order.index(gold)
        lettered = [dict(zip(LETTERS, texts, strict=False)) for texts in (options, sorted(options))]
        shown, in_order = ({**values, **letters} for letters in lettered)
        choices = [text for template in self.choices for text in Template.parsed(template, WHERE, 0).texts(shown)]
        if len(choices) < 2 or not gold < len(choices) or (options and len(options) != len(choices)):
            raise RecordError("no_choice")
        for pattern, replacement in self.choice_rewrites:
            choices = [re.sub(pattern, replacement, choice) for choice in choices]
        prompt = Template.parsed(self.prompt, WHERE, 0)
        return FieldQuestion(
            question=self.rewritten(prompt.text(shown, may_be_blank=True)),
            choices=tuple(choices),
            gold=gold,
            group=str(value_of(values, self.group)) if self.group else "",
            description=Template.parsed(self.description, WHERE, 0).text(shown) if self.description else "",
            key=self.rewritten(prompt.text(in_order, may_be_blank=True)),
        )

    def _worked(self, data: Path) -> Mapping[str, list[FieldQuestion]]:
        """Returns the questions that ``worked_paths`` have for each group."""
        examples: dict[str, list[FieldQuestion]] = defaultdict(list)
        for record in benchmark_records(files_at(data, self.worked_paths), header=self.header):
            question = record.parsed(self.parse)
            examples[question.group].append(question)
        return examples

    def _with_answer(self, question: FieldQuestion) -> WorkedExample:
        return self.worked_example(question.question, question.choices[question.gold])

    def _items(
        self,
        records: Sequence[tuple[str, FieldQuestion]],
        worked: Mapping[str, list[FieldQuestion]],
        form: PromptForm,
    ) -> list[Item]:
        """Returns the items of one group."""
        group, questions = records[0][1].group, [question for _, question in records]
        if self.worked_paths:
            given = worked.get(group, [])
            if len(given) < self.shots:
                raise too_many_shots(self.shots, len(given))
            others = ((self._with_answer(other) for other in given if other.key != asked.key) for asked in questions)
            examples_of = [tuple(itertools.islice(examples, self.shots)) for examples in others]
        else:
            answered = [self._with_answer(question) for question in questions]
            examples_of = self.drawn([question.key for question in questions], answered)
        contexts = [
            form.context(self.turns(question.question, examples, question.description))
            for question, examples in zip(questions, examples_of, strict=True)
        ]
        delimiter = self.before_answer(form)
        return [
            dataclasses.replace(choice_item(name, context, question.choices, question.gold, delimiter), group=group)
            for (name, question), context in zip(records, contexts, strict=True)
        ]


def words(name: str) -> str:
    """Returns the name of a file in words: "abstract algebra" for abstract_algebra_test.csv."""
    return SPLIT.sub("", name.partition(".")[0]).replace("_", " ")


def _index(values: FieldValues, field: str, labels: Sequence[str]) -> int:
    """Returns the index of the right choice.

    Raises:
        RecordError: when the field is absent, or holds none of ``labels`` or, without them, no index.
    """
    value = value_of(values, field)
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    if labels:
        if text not in labels:
            raise RecordError("no_class", field)
        return labels.index(text)
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII):
        raise RecordError("no_number", field)
    return int(text)
