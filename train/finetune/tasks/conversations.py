"""Conversations: a decoder learns to answer as the assistant does (instruction-style fine-tuning).

    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning."}]}

    User: Hello⏎Assistant: Good morning.E⏎          the chat template writes the messages as one text
                          ‾‾‾‾‾‾‾‾‾‾‾‾‾‾              the loss is that of these tokens, in every turn of the assistant

A template may write an answer in another way when messages follow, without its thoughts, say. Then each answer has a
row of its own, which ends with it, and the loss is that of this answer: what a model reads before it is what it will
read when it is asked.

    User: Hello⏎Assistant: <think>…</think>Good morning.E⏎
                           ‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾
    User: Hello⏎Assistant: Good morning.E⏎User: And now?⏎Assistant: <think>…</think>Good night.E⏎
                                                                    ‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾‾

A conversation that does not fit the context is cut at its end. Without a token of an answer in the rest it is left out.
Messages long after the cut are not written: their cost would grow with the square of their number.
"""

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, settings
from headrace.pipeline.core.text_files import stored_path
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.evaluation.file_records import FieldValues, RecordError, objects_of, text_of
from headrace.train.families.end_tokens import (
    GENERATION_CONFIG,
    tokenizer_end,
    write_generation_config,
)
from headrace.train.finetune.files.examples import Example, collect
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.task import Prediction, Row, Task, merged
from headrace.train.finetune.tasks.token_rows import TokenTask, answer_row
from headrace.train.inference.chat_template import DEFAULT_TEMPLATE, AnsweredText, ChatTemplate, Message
from headrace.train.parts import StackName

ROLES = ("system", "user", "assistant")
MESSAGES = "messages"
"""The field of a line, and the name of an example's text: its messages as JSON."""


@settings
class Conversations(Task):
    """Writes the answers of the assistant in conversations; files are JSON lines with ``messages``."""

    type: Literal["conversations"] = "conversations"
    template: AnyText = ""
    """The chat template, in Jinja; empty: that of finetune.folder or, without one, lines "User: …" and
    "Assistant: …"."""
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    revision: ClassVar[int] = 1
    """1 since scores.json counts conversations whose answers are all beyond the context."""

    @property
    def metric(self) -> str:
        return "log_likelihood"

    def read(self, paths: Sequence[str], labelled: bool = True) -> tuple[list[Example], dict[str, int]]:
        return merged(collect(stored_path(Path(path)), _conversation) for path in paths)

    def check(self, training: Sequence[Example], validation: Sequence[Example]) -> None:
        """Writes one conversation with the template of the settings, whose special tokens are not known yet."""
        if self.template:
            ChatTemplate(self.template, {}).rendered(json.loads(training[0].texts[MESSAGES]), False)

    def fitted(self, training: Sequence[Example], form: Form) -> "Dialogues":
        folder = form.tokenizer_folder
        given = ChatTemplate.of_folder(folder) if folder is not None else None
        end = str(form.encoder.backend.id_to_token(form.encoder.end_of_text))
        special = given.special if given is not None else {"eos_token": end}
        text = self.template or (given.text if given is not None else DEFAULT_TEMPLATE)
        tokenizer = Tokenizer.from_str(form.encoder.backend.to_str())
        tokenizer.encode_special_tokens = False
        return Dialogues(form=form, template=ChatTemplate(text, special), tokenizer=tokenizer)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dialogues(TokenTask):
    """Conversations with their template."""

    template: ChatTemplate
    tokenizer: Tokenizer
    """The tokenizer, which reads special tokens in a text, as the template writes them."""

    @property
    def context_form(self) -> ContextForm:
        return LEFT_TO_RIGHT

    def complete(self, folder: Path) -> None:
        self.template.write(folder)
        end = tokenizer_end(folder)
        if end is not None and (folder / GENERATION_CONFIG).is_file():
            write_generation_config(folder, {end})

    def rows(self, examples: Sequence[Example], is_training: bool) -> list[Row]:
        rows = [row for index, example in enumerate(examples) for row in self._rows(index, example)]
        if examples and not rows:
            problem = f"is {self.form.context}, and no answer of {len(examples)} conversations begins before its end"
            raise ConfigError("finetune.context", problem, "give a larger one")
        return rows

    def _rows(self, index: int, example: Example) -> list[Row]:
        """Returns the rows of a conversation; where one has no answer within the context, the last row says so."""
        messages = json.loads(example.texts[MESSAGES])
        self._check_text(example, messages)
        rows = [self._row(index, answered) for answered in self.template.answers(self._first(messages))]
        whole = [row for row in rows if row.facts["is_answer"][1:].any()]
        if whole and len(whole) < len(rows):
            (sequence,) = whole[-1].sequences
            beyond = max(row.cut_tokens for row in rows)
            whole[-1] = dataclasses.replace(whole[-1], sequences=(dataclasses.replace(sequence, cut_tokens=beyond),))
        return whole

    def _row(self, index: int, answered: AnsweredText) -> Row:
        context = self.form.context
        encoding = self.tokenizer.encode(answered.text, add_special_tokens=False)
        tokens = np.array(encoding.ids, np.int64)
        is_answer = in_spans([start for start, _ in encoding.offsets], answered.spans)
        prompt_tokens = int(np.flatnonzero(is_answer)[0]) if is_answer.any() else len(tokens)
        cut_tokens = max(0, len(tokens) - context)
        return answer_row(index, tokens[:context], is_answer[:context], prompt_tokens, cut_tokens)

    def _first(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Returns the first of ``messages`` that have more than twice the tokens of the context; all if they have not.

        The tokens at the end of a text depend on what follows, but not those far from it.
        """
        number = 2
        while number < len(messages):
            text = self.template.rendered(messages[:number], False)
            if len(self.tokenizer.encode(text, add_special_tokens=False).ids) > 2 * self.form.context:
                break
            number *= 2
        return messages[:number]

    def _check_text(self, example: Example, messages: Sequence[Message]) -> None:
        """Refuses a message that spells a special token: it would end an answer, or begin another turn."""
        special = [token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special]
        for message in messages:
            if special_token := next((token for token in special if token in message["content"]), None):
                problem = f"a message of {example.id} holds the special token {special_token!r}"
                raise ConfigError("finetune.task", problem, "remove it from the file")

    def predictions(
        self, examples: Sequence[Example], rows: Sequence[Row], outputs: Sequence[NDArray[Any]]
    ) -> list[Prediction]:
        """Returns the mean ln p of the tokens of the answers, and their number, of each conversation with a row."""
        sums, tokens = defaultdict[int, float](float), Counter[int]()
        for row, output in zip(rows, outputs, strict=True):
            sums[row.example] -= float(output[0])
            tokens[row.example] += int(row.facts["is_answer"][1:].sum())
        return [
            {"id": examples[number].id, "prediction": total / tokens[number], "tokens": tokens[number]}
            for number, total in sums.items()
        ]

    def scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        tokens = sum(prediction["tokens"] for prediction in predictions)
        return {
            "log_likelihood": sum(prediction["prediction"] * prediction["tokens"] for prediction in predictions)
            / tokens
        }


def in_spans(offsets: Sequence[int], spans: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Returns for each of ``offsets`` whether it is in one of the ascending ``spans`` (start, end)."""
    if not spans:
        return np.zeros(len(offsets), bool)
    starts, ends = np.array(spans, np.int64).T
    indices = np.searchsorted(starts, offsets, side="right") - 1
    is_inside: NDArray[np.bool_] = (indices >= 0) & (np.array(offsets, np.int64) < ends[indices])
    return is_inside


def _conversation(name: str, record: FieldValues) -> Iterator[Example]:
    """Yields the conversation of one line."""
    messages = [
        {"role": text_of(message, "role"), "content": text_of(message, "content")}
        for message in objects_of(record, MESSAGES)
    ]
    roles = [message["role"] for message in messages]
    if not set(roles) <= set(ROLES):
        raise RecordError("unknown_role")
    if "assistant" not in roles:
        raise RecordError("no_answer")
    yield Example(id=name, texts={MESSAGES: json.dumps(messages, ensure_ascii=False)})
