"""Benchmarks of questions and answers, which may come after worked examples.

records ── drawn ──> examples of each question ── turns ──> Turns ── prompt.PromptForm ──> its context
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, Natural, Seed
from headrace.train.evaluation.benchmarks.base import Item, RecordBenchmark, T
from headrace.train.evaluation.prompt import PromptForm, Turns, WorkedExample, shot_numbers, too_many_shots


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewShotBenchmark(RecordBenchmark[T]):
    """A benchmark of questions and answers, which may come after worked examples."""

    shots: Natural = 0
    """Worked examples before each question: other records of the same files, drawn for each item."""
    delimiter: AnyText = " "
    """The text before an answer (lm-evaluation-harness: target_delimiter)."""
    shot_delimiter: AnyText = "\n\n"
    """The text after a worked example (lm-evaluation-harness: fewshot_delimiter)."""
    worked_delimiter: AnyText | None = None
    """The text before the answer of a worked example; None for ``delimiter``. In lm-evaluation-harness the two differ
    when the task's target begins with a space of its own."""
    shot_seed: Seed = 1234
    """Decides which records serve as worked examples; the default is lm-evaluation-harness's (--seed)."""
    description: AnyText = ""
    """The text before all worked examples: what the task is (lm-evaluation-harness: description)."""
    rewrites: tuple[tuple[str, AnyText], ...] = ()
    """Regular expressions and the replacements of their matches in a question, applied in order."""

    def __post_init__(self) -> None:
        for pattern, replacement in self.rewrites:
            try:
                re.sub(pattern, replacement, "")
            except re.error as error:
                problem = f"{pattern!r} → {replacement!r} of rewrites is no regular expression ({error})"
                raise ConfigError("evaluation.benchmarks", problem, "correct it") from None

    def shots_of(self, items: Sequence[Item]) -> int:
        return self.shots

    @property
    def answer_space(self) -> str:
        """The white space at the beginning of each answer, which ``delimiter`` ends with: the second of two spaces."""
        return " " if self.delimiter == "  " else ""

    def before_answer(self, form: PromptForm) -> str:
        """Returns the text between the context of a question and its answer."""
        return form.delimiter(self.delimiter.removesuffix(self.answer_space)) + self.answer_space

    def read(self, data: Path) -> list[tuple[str, T]]:
        records = super().read(data)
        if len(records) <= self.shots:
            raise too_many_shots(self.shots, len(records))
        return records

    def rewritten(self, question: str) -> str:
        """Returns ``question`` as the prompt has it."""
        for pattern, replacement in self.rewrites:
            question = re.sub(pattern, replacement, question)
        return question

    def worked_example(self, question: str, answer: str) -> WorkedExample:
        delimiter = self.delimiter if self.worked_delimiter is None else self.worked_delimiter
        space = self.answer_space if delimiter.endswith(self.answer_space) else ""
        return WorkedExample(question, delimiter.removesuffix(space), space + answer)

    def drawn(self, keys: Sequence[str], worked: Sequence[WorkedExample]) -> list[tuple[WorkedExample, ...]]:
        """Returns the worked examples of each question: others of ``worked``, never one with the same key."""
        numbers_of = shot_numbers(keys, self.shots, self.shot_seed)
        return [tuple(worked[number] for number in numbers) for numbers in numbers_of]

    def turns(self, question: str, examples: tuple[WorkedExample, ...], description: str) -> Turns:
        """Returns what comes before the answer to ``question``."""
        return Turns(question, examples, description, self.shot_delimiter, system_delimiter=self.shot_delimiter)

    def contexts(self, questions: Sequence[str], answers: Sequence[str], form: PromptForm) -> list[str]:
        """Returns the prompt of each question: worked examples, each with its answer, then the question itself."""
        worked = [self.worked_example(*pair) for pair in zip(questions, answers, strict=True)]
        examples_of = self.drawn(questions, worked)
        return [
            form.context(self.turns(question, examples, self.description))
            for question, examples in zip(questions, examples_of, strict=True)
        ]
