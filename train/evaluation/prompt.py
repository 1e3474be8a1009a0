"""Makes prompts of a benchmark's records, and tokens of prompts, both as lm-evaluation-harness does.

    <query><delimiter><answer><shot delimiter> … <query>   the context: worked examples, then the question
    <delimiter><choice>                                    the continuation, one query per choice

The harness's names: delimiter = target_delimiter (" "), shot delimiter = fewshot_delimiter (blank line).

A chat template may write prompts, as with its --apply_chat_template:

evaluation.chat.template=own              the template of the model's folder
evaluation.chat.template=template.jinja   that of a file
evaluation.chat.examples=turns            worked examples are turns before the question (--fewshot_as_multiturn)
evaluation.chat.examples=text             one message of the user holds them and the question
evaluation.chat.system="Be brief."        the first message, before a description (--system_instruction)

Texts may be made of records by templates over their fields (``Template``):

    {"en": "Good morning.", "de": "Guten Morgen."}

    prompt "translate English to German: {en}", answer "{de}"
        ──> "translate English to German: Good morning.", ("Guten Morgen.",)

``{a.b}`` is a field of an object in a field; ``{a:capitalize}`` and ``{a:strip}`` are methods of its text. A field
of the answer may hold a list: each of its texts is a right one. ``{{`` and ``}}`` are braces.
"""

import dataclasses
import functools
import random
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, by_content, settings
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.evaluation.file_records import FieldValues, RecordError, object_of, utf8, value_of
from headrace.train.inference.chat_template import SPECIAL_TOKENS, ChatTemplate, Message, template_file
from headrace.train.inference.queries import LikelihoodQuery, Text, TextEncoder, TokenQuery, with_opening
from headrace.train.parts import WRITING, StackName

ExampleForm = Literal["turns", "text"]
"""Worked examples as turns of a conversation, or as text before the question."""


@dataclasses.dataclass(frozen=True)
class WorkedExample:
    """A question with its answer."""

    question: str
    delimiter: str
    """The text between the two where they are one text."""
    answer: str

    @property
    def text(self) -> str:
        return self.question + self.delimiter + self.answer


@dataclasses.dataclass(frozen=True)
class Turns:
    """All that comes before the answer to one question, before it is one text."""

    question: str
    examples: tuple[WorkedExample, ...] = ()
    description: str = ""
    """The text that says what the task is."""
    shot_delimiter: str = "\n\n"
    """The text after each example."""
    system_delimiter: str = "\n\n"
    """The text between that of a system and the description."""

    @property
    def worked(self) -> str:
        """The text of the examples."""
        return "".join(example.text + self.shot_delimiter for example in self.examples)


@dataclasses.dataclass(frozen=True)
class PromptForm:
    """The way in which turns become the text that a model reads: joined, or written by a chat template.

    As lm-evaluation-harness (api/task.py, fewshot_context; api/utils.py, multiturn_to_singleturn).
    """

    template: ChatTemplate | None = None
    examples: ExampleForm = "turns"
    system: str = ""
    """The beginning of the system's message, before the description."""
    has_system: bool = True
    """Whether the template takes a message of the system; otherwise there is none."""

    def context(self, turns: Turns) -> str:
        """Returns the text before the answer.

        Raises:
            ConfigError: when the template refuses the messages.
        """
        if self.template is None:
            return turns.description + turns.worked + turns.question
        system = joined(self.system, turns.description, turns.system_delimiter)
        return self.render([*([_message("system", system)] if system else []), *self._asked(turns)], True)

    def render(self, messages: Sequence[Message], begins_answer: bool) -> str:
        """Returns the text of ``messages``, up to where the answer begins; else the model goes on with the last one.

        Raises:
            ConfigError: when the template refuses them.
        """
        assert self.template is not None
        taken = [message for message in messages if self.has_system or message["role"] != "system"]
        return self.template.rendered(taken, True) if begins_answer else self.template.continued(taken)

    def delimiter(self, delimiter: str) -> str:
        """Returns the text between the context and an answer: none in a conversation."""
        return delimiter if self.template is None else ""

    def _asked(self, turns: Turns) -> list[Message]:
        """Returns the worked examples and the question."""
        if self.examples == "text":
            return [_message("user", turns.worked + turns.question)]
        worked = [
            message
            for example in turns.examples
            for message in (_message("user", example.question), _message("assistant", example.answer))
        ]
        return [*worked, _message("user", turns.question)]


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def joined(first: str, second: str, delimiter: str) -> str:
    """Returns both texts, with ``delimiter`` in between unless one is empty or there is white space."""
    is_apart = not first or not second or first[-1].isspace() or second[0].isspace()
    return first + ("" if is_apart else delimiter) + second


def shot_numbers(queries: Sequence[str], shots: int, seed: int | str) -> list[list[int]]:
    """Returns for each query the indices of ``shots`` others that serve as its worked examples.

    One generator goes through the queries in order and draws one example more than needed, in case the item itself is
    among them: the draws of lm-evaluation-harness (api/samplers.py, ContextSampler) when items and examples are of one
    split. So a limit changes nothing. Neither the item itself is taken nor another item with the same query (the
    harness would take one with other answers).

    Raises:
        ConfigError: when the file has too few other records.
    """
    if not shots:
        return [[] for _ in queries]
    copies, generator = Counter(queries), random.Random(seed)
    numbers = []
    for query in queries:
        if len(queries) - copies[query] < shots:
            raise too_many_shots(shots, len(queries))
        drawn = generator.sample(range(len(queries)), shots + 1)
        others = [number for number in drawn if queries[number] != query][:shots]
        if len(others) < shots:
            others = generator.sample([n for n, other in enumerate(queries) if other != query], shots)
        numbers.append(others)
    return numbers


def too_many_shots(shots: int, records: int) -> ConfigError:
    return ConfigError("evaluation.benchmarks", f"{shots} shots of {records} records", "ask for fewer shots")


def encode(queries: Sequence[LikelihoodQuery], encoder: TextEncoder, opening: Sequence[int] = ()) -> list[TokenQuery]:
    """Returns the tokens of each query's context and continuation.

    As lm-evaluation-harness's ``_encode_pair`` (api/model.py): white space at the end of the context moves to the
    continuation; context and continuation are tokenized as one text, which is cut after the number of tokens of the
    context alone. An empty context becomes the end-of-text token; any other comes after the tokens of ``opening``. If
    the cut leaves the continuation without tokens (a merge across it), the continuation is tokenized on its own.
    """
    texts = list(dict.fromkeys(query for query in queries if isinstance(query, Text)))
    moved = [_space_moved(text) for text in texts]
    contexts = encoder.encode([context for context, _ in moved])
    wholes = encoder.encode([context + continuation for context, continuation in moved])
    tokens_of = {
        text: _cut(context, whole, continuation, encoder, opening)
        for text, context, whole, (_, continuation) in zip(texts, contexts, wholes, moved, strict=True)
    }
    return [tokens_of[query] if isinstance(query, Text) else query for query in queries]


def _space_moved(query: Text) -> tuple[str, str]:
    context = query.context.rstrip()
    return context, query.context[len(context) :] + query.continuation


def _cut(context: np.ndarray, whole: np.ndarray, text: str, encoder: TextEncoder, opening: Sequence[int]) -> TokenQuery:
    continuation = whole[len(context) :]
    if not len(continuation):
        (continuation,) = encoder.encode([text])
    read = with_opening(context.tolist(), opening) if len(context) else [encoder.end_of_text]
    return TokenQuery(np.array(read), continuation)


TEMPLATE = "evaluation.chat.template"


@settings
class ChatPrompts:
    """Prompts as the messages of a conversation."""

    template: Literal["own"] | FilePath | None = by_content(None)
    """The chat template: ``own`` is that of the model's folder, a path that of a file in Jinja; null: prompts are plain
    text."""
    examples: ExampleForm = "turns"
    """turns: each worked example is a message of the user and an answer; text: they are text before the question."""
    system: str | None = None
    """The text of the system's message, before a benchmark's description; null: the description alone."""

    def __post_init__(self) -> None:
        for name, value, default in (("examples", self.examples, "turns"), ("system", self.system, None)):
            if self.template is None and value != default:
                problem = f"is {value!r}, and prompts are plain text"
                raise ConfigError(f"evaluation.chat.{name}", problem, f"give {TEMPLATE}=own, or the path of one")

    @property
    def revision(self) -> int:
        """1 with the template of the model, for an address of its own; that of a file is among the raw files."""
        return int(self.template == "own")

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the file of the template.

        Raises:
            ConfigError: when it is missing, or writes no message of a user.
        """
        if self.template is None or self.template == "own":
            return ()
        blank = dict.fromkeys(SPECIAL_TOKENS, "")
        ChatTemplate(_text(self.template), blank).rendered([{"role": "user", "content": "?"}], True)
        return (raw_file("chat_template", Path(self.template)),)

    def check_stack(self, stack: StackName) -> None:
        """Checks that a model of this ``stack`` can answer.

        Raises:
            ConfigError: when it writes no text.
        """
        if self.template is not None and stack not in WRITING:
            problem = f"is {self.template!r}, and a model with model.stack={stack} writes no answer"
            raise ConfigError(TEMPLATE, problem, "leave it out")

    def check_run(self, initial_weights: str | None, is_scored_early: bool) -> None:
        """Checks that the model of a run has a template of its own where that is asked for, before it is trained.

        Args:
            initial_weights: the folder that the first weights come from, whose template a model keeps; None: none.
            is_scored_early: whether checkpoints are scored, too, which have a tokenizer and no template.

        Raises:
            ConfigError: when it has none.
        """
        if self.template != "own":
            return
        remedy = "give the path of a template"
        if initial_weights is None or ChatTemplate.of_folder(Path(initial_weights)) is None:
            raise ConfigError(TEMPLATE, "is own, and the first weights of the run bring no chat template", remedy)
        if is_scored_early:
            problem = "is own, and training.evaluate_every scores checkpoints, which have no chat template"
            raise ConfigError(TEMPLATE, problem, remedy)

    def form(self, of_model: ChatTemplate | None, special: Mapping[str, str]) -> PromptForm:
        """Returns the form of prompts.

        Args:
            of_model: the template of the model; None: it has none.
            special: role (``eos_token``, …) → special token of the model, for the template of a file.

        Raises:
            ConfigError: when the model has no template of its own and that is asked for.
        """
        if self.template is None:
            return PromptForm()
        if self.template != "own":
            template = ChatTemplate(_text(self.template), special)
        elif of_model is None:
            raise ConfigError(TEMPLATE, "is own, and the model has no chat template", "give the path of a template")
        else:
            template = of_model
        return PromptForm(template, self.examples, self.system or "", template.takes_system)


def _text(template: str) -> str:
    if not Path(template).is_file():
        problem = f"is {template!r}, and there is no such file"
        raise ConfigError(TEMPLATE, problem, "give own, or the path of a file with a template in Jinja")
    return template_file(Path(template))


FORMS: Mapping[str, Callable[[str], str]] = {"capitalize": str.capitalize, "strip": str.strip}
"""Methods that a template can call on the text of a field."""


TemplatePart = tuple[str, str | None, str]
"""A text, the field after it (None: the end of the template), and one of ``FORMS`` or empty: the field as it is."""


@dataclasses.dataclass(frozen=True)
class Template:
    """A text with fields."""

    parts: tuple[TemplatePart, ...]

    @classmethod
    @functools.cache
    def parsed(cls, text: str, setting: str, least: int = 1) -> "Template":
        """Returns the template that ``text`` is.

        Raises:
            ConfigError: naming the ``setting``, when it has fewer than ``least`` fields, or braces that enclose none.
        """
        remedy = "write names of fields in braces, as {en}, and {{ for a brace"
        try:
            parts = tuple(_parsed(text))
        except ValueError as error:
            raise ConfigError(setting, f"{text!r} is no template ({error})", remedy) from None
        fields = [field for _, field, _ in parts if field is not None]
        if not all(fields) or len(fields) < least:
            raise ConfigError(setting, f"{text!r} names no field" + " in braces" * bool(fields), remedy)
        return cls(parts)

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(field for _, field, _ in self.parts if field is not None))

    def text(self, record: FieldValues, may_be_blank: bool = False) -> str:
        """Returns the text with the fields of ``record``.

        Raises:
            RecordError: when a field is absent or no text, or all are blank and the text may not be.
        """
        return self._filled({field: _field(record, field) for field in self.fields}, may_be_blank)

    def texts(self, record: FieldValues) -> tuple[str, ...]:
        """Returns the text for each entry of the field with a list; without one, the one text.

        Raises:
            RecordError: see ``text``; also when two fields have lists, or a list is empty.
        """
        values = {field: _field(record, field) for field in self.fields}
        listed = [field for field, value in values.items() if isinstance(value, list)]
        if not listed:
            return (self._filled(values),)
        if len(listed) > 1 or not values[listed[0]]:
            raise RecordError("two_lists" if len(listed) > 1 else "no_answer")
        (field,) = listed
        return tuple(self._filled(values | {field: entry}) for entry in values[field])

    def _filled(self, values: FieldValues, may_be_blank: bool = False) -> str:
        texts = {field: _shown(value) for field, value in values.items()}
        if texts and not may_be_blank and not any(text.strip() for text in texts.values()):
            raise RecordError("blank_text")
        filled = (FORMS.get(form, str)(texts[field]) if field else "" for _, field, form in self.parts)
        return "".join(literal + text for (literal, _, _), text in zip(self.parts, filled, strict=True))


def _parsed(text: str) -> Iterator[TemplatePart]:
    """Yields each text with the field after it. Formats of numbers are no part of a template.

    Raises:
        ValueError: when ``text`` is no template.
    """
    for literal, field, form, conversion in string.Formatter().parse(text):
        if conversion or (form and form not in FORMS):
            raise ValueError(f"{{{field}}} has a format other than {' and '.join(FORMS)}")
        yield literal, field, form or ""


def _field(record: FieldValues, field: str) -> Any:
    """Returns the value of ``field``: of that name, or of the objects that a name with dots leads through."""
    first, dot, rest = field.partition(".")
    if not dot or field in record:
        return value_of(record, field)
    return _field(object_of(record, first), rest)


def _shown(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise RecordError("no_text")
    return utf8(str(value))
