"""Questions that the model answers in writing: TriviaQA and GSM8K as in lm-evaluation-harness's triviaqa and gsm8k.

    {"context": "Question: Who …?\\nAnswer:", "aliases": ["Onion", "Allium cepa", …]}                    short_answer
    {"context": "Janet’s ducks lay …", "chain_of_thought": "… <<16-3-4=9>>9 …", "answer": "18"}          word_problem

    context     <worked examples><context, rewritten><query suffix>
    written     greedily, up to the first of ``stops``, at most ``max_tokens`` tokens

Each text is judged in two or three ways, from strict to lenient; samples show the texts. A metric has the harness's
name, with the harness's filter in brackets.
"""

import abc
import dataclasses
import re
import string
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import AnyText, Positive, TextList, settings
from headrace.train.evaluation.benchmarks.base import FewShotBenchmark, Item, Outcome, Sources, T, column
from headrace.train.evaluation.benchmarks.choices import without_form
from headrace.train.evaluation.metrics import accuracy, f1_of_words, mean
from headrace.train.evaluation.prompt import PromptForm
from headrace.train.evaluation.question_files import BenchmarkRecord
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Generate, Written
from headrace.train.inference.settings import Sampling

LENIENT = "exact_match (remove_whitespace)"
STRICT = "exact_match (strict-match)"
FLEXIBLE = "exact_match (flexible-extract)"
MARKED = re.compile(r"#### (-?[0-9.,]+)")
NUMBER = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, ""))
SPACED_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationBenchmark(FewShotBenchmark[T]):
    """Questions that the model answers in writing."""

    revision: ClassVar[int] = 1
    """1 since special tokens are no part of what is written."""
    query_suffix: AnyText = ""
    """The text after each question."""
    stops: TextList = ()
    """The answer ends before the first of these."""
    max_tokens: Positive = 256
    """The most tokens of an answer; a model whose window is not longer writes half a window at most."""

    @abc.abstractmethod
    def question(self, parsed: T) -> str:
        """Returns the question."""

    @abc.abstractmethod
    def worked_answer(self, parsed: T) -> str:
        """Returns the answer as a worked example has it."""

    @abc.abstractmethod
    def right_answers(self, parsed: T) -> tuple[str, ...]:
        """Returns the texts that the written answer is compared with."""

    @property
    def sampling(self) -> Sampling:
        """The way in which answers are written: greedily."""
        return Sampling(max_tokens=self.max_tokens, stops=self.stops)

    def items(self, sources: Sources) -> list[Item]:
        return self.items_of(self.read(sources.data), sources.form)

    def items_of(self, records: Sequence[tuple[str, T]], form: PromptForm) -> list[Item]:
        """Returns the items of ``records``; see ``read``."""
        questions = [self.rewritten(self.question(parsed)) + self.query_suffix for _, parsed in records]
        contexts = self.contexts(questions, [self.worked_answer(parsed) for _, parsed in records], form)
        return [
            Item(name, (Generate(context, self.sampling),), self.right_answers(parsed))
            for (name, parsed), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def texts(self, parsed: Sequence[T]) -> list[tuple[str, ...]]:
        questions = without_form([self.question(problem) for problem in parsed])
        return [
            (f"{question} {self.worked_answer(problem)}",) for question, problem in zip(questions, parsed, strict=True)
        ]


Trivia = tuple[str, tuple[str, ...]]
"""Question, all right answers."""


@settings
class ShortAnswers(GenerationBenchmark[Trivia]):
    """Answers of a few words; several may be right."""

    type: Literal["short_answer"] = "short_answer"
    stops: TextList = ("\n", ".", ",")
    """The answer ends before the first of these (lm-evaluation-harness's triviaqa)."""

    def parse(self, record: BenchmarkRecord) -> Trivia:
        return record.query("context"), record.texts("aliases", least=1)

    def question(self, parsed: Trivia) -> str:
        return parsed[0]

    def worked_answer(self, parsed: Trivia) -> str:
        return parsed[1][0]

    def right_answers(self, parsed: Trivia) -> tuple[str, ...]:
        return parsed[1]

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """Returns ``exact_match`` without case and punctuation, and ``em`` and ``f1`` of TriviaQA's own evaluation,
        which also ignores articles (Joshi et al. 2017; evaluation/triviaqa_evaluation.py); each by the best of the
        right answers."""
        (written,) = answers
        bare = _bare(written.text.strip())
        words = normalized(written.text)
        rights = [normalized(right) for right in item.choices]
        return {
            LENIENT: float(any(_bare(right) == bare for right in item.choices)),
            "em": float(words in rights),
            "f1": max(f1_of_words(words, right) for right in rights),
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the three scores; guessing gives 0."""
        exact = [accuracy(name, column(outcomes, name), 0.0) for name in (LENIENT, "em")]
        return [*exact, mean("f1", column(outcomes, "f1"), 0.0)]


Problem = tuple[str, str, str]
"""Question, chain of thought, answer (a number)."""


@settings
class WordProblems(GenerationBenchmark[Problem]):
    """A number after some reasoning."""

    type: Literal["word_problem"] = "word_problem"
    stops: TextList = ("Question:", "</s>", "<|im_end|>")
    """The answer ends before the first of these (lm-evaluation-harness's gsm8k)."""

    def parse(self, record: BenchmarkRecord) -> Problem:
        return record.query("context"), record.text("chain_of_thought"), record.text("answer")

    def question(self, parsed: Problem) -> str:
        return parsed[0]

    def worked_answer(self, parsed: Problem) -> str:
        """Returns the answer as in GSM8K (Cobbe et al. 2021): the number comes after four hash marks."""
        _, thought, answer = parsed
        return f"{thought}\n#### {answer}"

    def right_answers(self, parsed: Problem) -> tuple[str, ...]:
        return (parsed[2],)

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """Compares the first number after four hash marks (``strict-match``), and the last number
        (``flexible-extract``). Both ignore dollar signs, commas, and a period at the end."""
        ((written,), (right,)) = answers, item.choices
        marked, numbers = MARKED.search(written.text), NUMBER.findall(written.text)
        return {
            STRICT: float(marked is not None and _number(marked[1]) == _number(right)),
            FLEXIBLE: float(bool(numbers) and _number(numbers[-1]) == _number(right)),
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns both scores; guessing gives 0."""
        return [accuracy(name, column(outcomes, name), 0.0) for name in (STRICT, FLEXIBLE)]


def _bare(text: str) -> str:
    return text.lower().translate(PUNCTUATION)


def _number(text: str) -> str:
    return text.replace(",", "").replace("$", "").removesuffix(".").lower()


def normalized(answer: str) -> list[str]:
    """Returns the words of ``answer`` in lower case, without punctuation and articles."""
    return re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(SPACED_PUNCTUATION)).split()
