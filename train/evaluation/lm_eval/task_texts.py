"""Makes the texts of a task's records, as lm-evaluation-harness's ConfigurableTask does (api/task.py).

    doc_to_text, doc_to_choice, doc_to_target: a field's name gives its value, any other text is a Jinja template

    context       <description><worked examples><doc_to_text>                      of multiple inputs: one per choice
    continuation  <target_delimiter><choice>, or <doc_to_target> of loglikelihood

Templates run in Jinja's sandbox: they can read a record and nothing else.
"""

import ast
import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.train.evaluation.lm_eval.task_data import NamedRecord
from headrace.train.evaluation.lm_eval.task_file import TaskFile
from headrace.train.evaluation.lm_eval.task_keys import PromptTemplates
from headrace.train.evaluation.prompt import Turns, WorkedExample

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

WHERE = "evaluation.yaml"
RENDERING = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, re.error)
"""The errors that a template can raise on a record, in addition to Jinja's own."""


@dataclasses.dataclass(frozen=True)
class TaskQuestion:
    """One record as the task asks about it."""

    record: NamedRecord
    text: str | int
    """doc_to_text; a number when the inputs are the choices, of which it is the right one."""
    target: Any
    """doc_to_target: a text, the index of a choice, or a list of either."""
    choices: tuple[str, ...] = ()
    answer_start: str = ""
    """The beginning of the answer, gen_prefix."""

    def error(self, problem: str, remedy: str) -> ArtifactError:
        return ArtifactError(self.record.name, problem, remedy)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The texts that are asked about: one, or each of the choices."""
        return (self.text,) if isinstance(self.text, str) else self.choices

    @property
    def targets(self) -> tuple[str, ...]:
        """The right answers as texts."""
        targets = self.target if isinstance(self.target, list) else [self.target]
        return tuple(self._chosen(target) for target in targets)

    def _chosen(self, target: Any) -> str:
        if not self.choices or not isinstance(target, int):
            return str(target)
        if not -len(self.choices) <= target < len(self.choices):
            raise self.error(f"the right answer is {target}, none of {list(self.choices)!r}", "correct it")
        return self.choices[target]

    @property
    def is_written(self) -> bool:
        """Whether the right answer, or the first of several, is a text, or the choice that is one."""
        first = self.target[0] if isinstance(self.target, list) and self.target else self.target
        return isinstance(first, str) or (isinstance(first, int) and bool(self.choices) and isinstance(self.text, str))

    @property
    def golds(self) -> tuple[int, ...]:
        """The indices of the right choices.

        Raises:
            ArtifactError: naming an answer that is none of the choices.
        """
        answer = self.target if isinstance(self.text, str) else self.text
        return tuple(self._index(right) for right in (answer if isinstance(answer, list) else [answer]))

    def _index(self, right: Any) -> int:
        if isinstance(right, str) and right in self.choices:
            return self.choices.index(right)
        if not isinstance(right, int) or not 0 <= right < len(self.choices):
            problem = f"the right answer is {right!r}, none of the {len(self.choices)} choices {list(self.choices)!r}"
            raise self.error(problem, f"give the text of a choice, or a number from 0 to {len(self.choices) - 1}")
        return int(right)


@dataclasses.dataclass(frozen=True)
class TaskTexts:
    """The templates of one task."""

    task: TaskFile
    fields: frozenset[str]
    """The names of the fields of a record."""

    def question(self, record: NamedRecord, templates: PromptTemplates | None = None) -> TaskQuestion:
        """Returns ``record`` as a question, or as a worked example with its own ``templates``.

        Raises:
            ConfigError: when a template does not fit the record.
            ArtifactError: when a value of the record is not what the task needs.
        """
        own = templates or self.task.templates
        prefix = self._value(own.gen_prefix, record)
        question = TaskQuestion(
            record,
            text=self._text(own.doc_to_text, record),
            target=self._target(own.doc_to_target, record),
            choices=() if own.doc_to_choice is None else self._choices(own.doc_to_choice, record),
            answer_start="" if prefix is None else self._is_text("gen_prefix", prefix, record),
        )
        if isinstance(question.text, int) and not question.choices:
            raise question.error(f"doc_to_text is {question.text!r}", "give a text, or doc_to_choice")
        return question

    def description(self, record: NamedRecord) -> str:
        return self._is_text("description", self._value(self.task.description, record) or "", record)

    def turns(self, question: TaskQuestion, examples: Sequence[TaskQuestion]) -> list[Turns]:
        """Returns what comes before each answer to ``question``: one for each of its inputs."""
        worked = tuple(map(self.worked, examples))
        description, start = self.description(question.record), question.answer_start
        delimiter = self.task.templates.target_delimiter if isinstance(question.text, str) else ""
        return [
            Turns(
                text,
                worked,
                description,
                shot_delimiter=self.task.worked.templates.fewshot_delimiter,
                system_delimiter=self.task.templates.fewshot_delimiter,
                delimiter=delimiter if start and _is_open(text, start) else "",
                answer_start=start,
            )
            for text in question.inputs
        ]

    def worked(self, example: TaskQuestion) -> WorkedExample:
        """Returns ``example`` with its answer.

        Raises:
            ArtifactError: when it has none.
        """
        start, delimiter = example.answer_start, self.task.worked.templates.target_delimiter
        text = example.text if isinstance(example.text, str) else example.choices[example.golds[0]]
        answer = example.targets[0] if example.is_written else ""
        if not answer:
            problem = f"has the answer {example.target!r}, and is a worked example"
            raise example.error(problem, "give it a text, or the number of a choice")
        between = delimiter if not start or _is_open(text, start) else ""
        return WorkedExample(text, between, start + (" " if start and _is_open(start, answer) else "") + answer)

    def _text(self, template: str | int, record: NamedRecord) -> str | int:
        value = self._value(template, record)
        if isinstance(value, str) and self._is_index(value) and template not in self.fields:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        return self._is_text("doc_to_text", value, record)

    def _target(self, template: Any, record: NamedRecord) -> Any:
        if isinstance(template, tuple):
            return list(template)
        value = self._value(template, record)
        if template in self.fields or not isinstance(value, str):
            return value
        if self._is_index(value):
            return int(value)
        if len(value) >= 2 and value[0] == "[" and value[-1] == "]":
            try:
                return ast.literal_eval(value)
            except (SyntaxError, ValueError):
                return value
        return value

    def _is_index(self, text: str) -> bool:
        """Whether a template has given the number of a choice."""
        return self.task.templates.doc_to_choice is not None and bool(re.fullmatch("0+|[1-9][0-9]*", text))

    def _choices(self, template: str | tuple[str, ...], record: NamedRecord) -> tuple[str, ...]:
        values: Any = template
        if isinstance(template, str):
            values = self._value(template, record)
            if template not in self.fields:
                values = self._evaluated("doc_to_choice", values, record)
        if not isinstance(values, list | tuple) or not all(isinstance(text, str) and text for text in values):
            remedy = "let it give a list of texts, none empty"
            raise ArtifactError(record.name, f"doc_to_choice gives {values!r}", remedy)
        return tuple(values)

    def _evaluated(self, key: str, text: Any, record: NamedRecord) -> Any:
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            raise ArtifactError(record.name, f"{key} gives {text!r}, no list", "let it give a list") from None

    def _value(self, template: Any, record: NamedRecord) -> Any:
        """Returns the field that ``template`` names, or else the text that it makes of ``record``."""
        if not isinstance(template, str):
            return template
        if template in self.fields:
            if template not in record.values:
                raise ArtifactError(record.name, f"has no field {template!r}", "give it one")
            return record.values[template]
        from jinja2 import TemplateError  # 0.1 s that only a run with such a task needs

        try:
            return compiled(template).render(**record.values)
        except (TemplateError, *RENDERING) as error:
            problem = f"{self.task.path}: the template {template!r} does not fit {record.name} ({error})"
            raise ConfigError(WHERE, problem, f"its fields are {', '.join(sorted(record.values))}") from None

    def _is_text(self, key: str, value: Any, record: NamedRecord) -> str:
        if not isinstance(value, str):
            raise ArtifactError(record.name, f"{key} is {value!r}", "let it give a text")
        return value


def regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    """Returns ``text`` with matches of ``pattern`` replaced: the harness's own filter of Jinja."""
    return re.sub(pattern, replacement, text, count=count)


@functools.cache
def _environment() -> "SandboxedEnvironment":
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = regex_replace
    return environment


@functools.cache
def compiled(template: str) -> "Template":
    """Returns ``template`` ready to be rendered.

    Raises:
        TemplateError: when it is no template.
    """
    return _environment().from_string(template)


def _is_open(left: str, right: str) -> bool:
    """Whether both texts are there and no white space is where they meet."""
    return bool(left and right) and not (left[-1].isspace() or right[0].isspace())


def fields_of(records: Sequence[NamedRecord]) -> frozenset[str]:
    """Returns the names of the fields of ``records``, which all of them have."""
    values: Mapping[str, Any] = records[0].values
    return frozenset(values)
