"""Makes prompts of a benchmark's records, and tokens of prompts, both as lm-evaluation-harness does.

    <query><delimiter><answer><shot delimiter> … <query>   the context: worked examples, then the question
    <delimiter><choice>                                    the continuation, one query per choice

The harness's names: delimiter = target_delimiter (" "), shot delimiter = fewshot_delimiter (blank line).
"""

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.train.inference.chat_template import ChatTemplate, Message
from headrace.train.inference.queries import LikelihoodQuery, Text, TextEncoder, TokenQuery, with_opening

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
    moved = [_space_moved(query) for query in queries if isinstance(query, Text)]
    contexts = encoder.encode([context for context, _ in moved])
    wholes = encoder.encode([context + continuation for context, continuation in moved])
    texts = zip(contexts, wholes, [continuation for _, continuation in moved], strict=True)
    tokens = [query if isinstance(query, TokenQuery) else _cut(*next(texts), encoder, opening) for query in queries]
    kinds = {query.passed_over for query in queries if isinstance(query, Text)}
    passed_over = {texts: _single_tokens(texts, encoder) for texts in kinds}
    return [
        _as_asked(query, token_query, passed_over[query.passed_over]) if isinstance(query, Text) else token_query
        for query, token_query in zip(queries, tokens, strict=True)
    ]


def _single_tokens(texts: Sequence[str], encoder: TextEncoder) -> tuple[int, ...]:
    """Returns the tokens of those ``texts`` that are one token, in order."""
    return tuple(sorted({int(ids[0]) for ids in encoder.encode(texts) if len(ids) == 1}))


def _as_asked(query: Text, tokens: TokenQuery, passed_over: tuple[int, ...]) -> TokenQuery:
    """Returns ``tokens`` with the settings of ``query`` for its first and last token."""
    given = tokens.continuation[: -1 if query.last_token else 0]
    context = np.concatenate([tokens.context, given])
    return TokenQuery(context, tokens.continuation[len(given) :], passed_over)


def _space_moved(query: Text) -> tuple[str, str]:
    context = query.context.rstrip()
    return context, query.context[len(context) :] + query.continuation


def _cut(context: np.ndarray, whole: np.ndarray, text: str, encoder: TextEncoder, opening: Sequence[int]) -> TokenQuery:
    continuation = whole[len(context) :]
    if not len(continuation):
        (continuation,) = encoder.encode([text])
    read = with_opening(context.tolist(), opening) if len(context) else [encoder.end_of_text]
    return TokenQuery(np.array(read), continuation)
