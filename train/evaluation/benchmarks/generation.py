"""Does the model write the right answer? TriviaQA and GSM8K, as lm-evaluation-harness's triviaqa and gsm8k ask them.

    {"context": "Question: Who …?\\nAnswer:", "aliases": ["Onion", "Allium cepa", …]}                    short_answer
    {"context": "Janet’s ducks lay …", "chain_of_thought": "… <<16-3-4=9>>9 …", "answer": "18"}          word_problem

    context     <worked examples><context, rewritten><query suffix>
    written     greedily, up to the first of ``stops``, at most ``max_tokens`` tokens

What was written is judged in two ways each, which differ in what they forgive; samples show it. A metric has the name
that the harness gives it, with that of its filter in brackets.
"""

import abc
import dataclasses
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from headrace.pipeline.core.settings import AnyText, Positive, settings
from headrace.train.evaluation.benchmarks.base import FewShotBenchmark, Item, Outcome, Sources, T
from headrace.train.evaluation.benchmarks.multiple_choice import without_form
from headrace.train.evaluation.metrics import accuracy, mean
from headrace.train.evaluation.records import Record
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Generate, Written

LENIENT = "exact_match (remove_whitespace)"
STRICT = "exact_match (strict-match)"
FLEXIBLE = "exact_match (flexible-extract)"
MARKED = re.compile(r"#### (-?[0-9.,]+)")
NUMBER = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, ""))
SPACED_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GenerationBenchmark(FewShotBenchmark[T]):
    """Questions that the model answers by writing."""

    query_suffix: AnyText = ""
    """Stands after each question."""
    stops: tuple[str, ...] = ()
    """The answer ends before the first of these."""
    max_tokens: Positive = 256
    """An answer has at most so many tokens; a model whose window is not longer writes half a window at most."""

    @abc.abstractmethod
    def question(self, parsed: T) -> str:
        """What is asked."""

    @abc.abstractmethod
    def worked_answer(self, parsed: T) -> str:
        """The answer as a worked example has it."""

    @abc.abstractmethod
    def right_answers(self, parsed: T) -> tuple[str, ...]:
        """What the written answer is compared with."""

    def items(self, sources: Sources) -> list[Item]:
        records = self.read(sources.data)
        questions = [self.rewritten(self.question(parsed)) + self.query_suffix for _, parsed in records]
        contexts = self.contexts(questions, [self.worked_answer(parsed) for _, parsed in records])
        return [
            Item(name, (Generate(context, self.stops, self.max_tokens),), self.right_answers(parsed))
            for (name, parsed), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def texts(self, parsed: Sequence[T]) -> list[tuple[str, ...]]:
        questions = without_form([self.question(one) for one in parsed])
        return [(f"{question} {self.worked_answer(one)}",) for question, one in zip(questions, parsed, strict=True)]


Trivia = tuple[str, tuple[str, ...]]
"""Question, everything that is a right answer."""


@settings
class ShortAnswers(GenerationBenchmark[Trivia]):
    """A few words, of which several are right."""

    type: Literal["short_answer"] = "short_answer"
    stops: tuple[str, ...] = ("\n", ".", ",")
    """The answer ends before the first of these (lm-evaluation-harness's triviaqa)."""

    def parse(self, record: Record) -> Trivia:
        return record.text("context"), record.texts("aliases", least=1)

    def question(self, parsed: Trivia) -> str:
        return parsed[0]

    def worked_answer(self, parsed: Trivia) -> str:
        return parsed[1][0]

    def right_answers(self, parsed: Trivia) -> tuple[str, ...]:
        return parsed[1]

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """``exact_match`` but for case and punctuation; ``em`` and ``f1`` of TriviaQA's own evaluation, which leaves
        out articles, too (Joshi et al. 2017; evaluation/triviaqa_evaluation.py); each by the best of the answers."""
        (written,) = answers
        bare = _bare(written.text.strip())
        words = normalized(written.text)
        rights = [normalized(right) for right in item.choices]
        return {
            LENIENT: float(any(_bare(right) == bare for right in item.choices)),
            "em": float(words in rights),
            "f1": max(f1(words, right) for right in rights),
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Guessing gives 0."""
        exact = [accuracy(name, [outcome[name] for outcome in outcomes], 0.0) for name in (LENIENT, "em")]
        return [*exact, mean("f1", [outcome["f1"] for outcome in outcomes], 0.0)]


Problem = tuple[str, str, str]
"""Question, chain of thought, the number that is the answer."""


@settings
class WordProblems(GenerationBenchmark[Problem]):
    """A number after some reasoning."""

    type: Literal["word_problem"] = "word_problem"
    stops: tuple[str, ...] = ("Question:", "</s>", "<|im_end|>")
    """The answer ends before the first of these (lm-evaluation-harness's gsm8k)."""

    def parse(self, record: Record) -> Problem:
        return record.text("context"), record.text("chain_of_thought"), record.text("answer")

    def question(self, parsed: Problem) -> str:
        return parsed[0]

    def worked_answer(self, parsed: Problem) -> str:
        """As GSM8K has it (Cobbe et al. 2021): the number stands behind four hash marks."""
        _, thought, answer = parsed
        return f"{thought}\n#### {answer}"

    def right_answers(self, parsed: Problem) -> tuple[str, ...]:
        return (parsed[2],)

    def outcome(self, item: Item, answers: Sequence[Written]) -> Outcome:
        """``strict-match``: the first number behind four hash marks; ``flexible-extract``: the last number. Either
        without dollar signs, commas, and a period at its end."""
        ((written,), (right,)) = answers, item.choices
        marked, numbers = MARKED.search(written.text), NUMBER.findall(written.text)
        return {
            STRICT: float(marked is not None and _number(marked[1]) == _number(right)),
            FLEXIBLE: float(bool(numbers) and _number(numbers[-1]) == _number(right)),
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Guessing gives 0."""
        return [accuracy(name, [outcome[name] for outcome in outcomes], 0.0) for name in (STRICT, FLEXIBLE)]


def _bare(text: str) -> str:
    return text.lower().translate(PUNCTUATION)


def _number(text: str) -> str:
    return text.replace(",", "").replace("$", "").removesuffix(".").lower()


def normalized(answer: str) -> list[str]:
    """The words of ``answer`` in small letters, without punctuation and articles."""
    return re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(SPACED_PUNCTUATION)).split()


def f1(words: Sequence[str], right: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of ``words``, as often as they occur (Rajpurkar et al. 2016, §6.1)."""
    same = (Counter(words) & Counter(right)).total()
    return 2 * same / (len(words) + len(right)) if same else 0.0
