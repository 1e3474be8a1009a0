"""What every benchmark does: say which files it reads, make items, judge answers, sum up.

    sources ── items ──> Item, ... ── (the model answers) ── outcome ──> {"acc": 1.0, ...} ── metrics ──> Metric, ...

A new benchmark is one class with these three methods and a ``type`` tag, named in train/evaluation/settings.py.
"""

import abc
import dataclasses
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, Natural, Positive, Seed
from headrace.pipeline.core.stage import RawFile
from headrace.train.evaluation.held_out import HeldOut
from headrace.train.evaluation.metrics import Metric
from headrace.train.evaluation.prompt import TextEncoder, shot_numbers, too_many_shots
from headrace.train.evaluation.records import Record, benchmark_file, read_records
from headrace.train.inference.item import Answer, Item, Outcome

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Sources:
    """Where items come from."""

    data: Path
    """The folder that relative paths of benchmark files start from."""
    held_out: HeldOut | None
    """The run's own held-out documents; None where a model is scored that no run made."""
    seed: str
    """Decides every random choice of one benchmark."""
    vocabulary: int = 0
    """Tokens that the model tells apart; 0 where no benchmark makes items of them."""
    start: int = 0
    """The token that stands before a text."""
    tokenizer: TextEncoder | None = None
    """The model's, for what is cut into windows of tokens; prompts need none."""
    window_tokens: int = 0
    """Positions that the model has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark(abc.ABC):
    """One zero- or few-shot test of a model. Subclasses add their ``type`` tag and settings."""

    needs_run: ClassVar[bool] = False
    """Whether its items are made of a run's held-out documents."""

    limit: Positive | None = None
    """At most this many items, of groups the first of each in turn; None takes all."""

    @property
    def least_window_tokens(self) -> int:
        """Positions that a model must have; with fewer, contexts would lose what the benchmark is about."""
        return 1

    @abc.abstractmethod
    def items(self, sources: Sources) -> list[Item]:
        """The questions, in an order that depends on the sources only."""

    @abc.abstractmethod
    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        """What ``item`` adds to each metric, given one answer per query."""

    @abc.abstractmethod
    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """The scores, the main one first. Only called with at least one item; ``vocabulary`` in tokens."""

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        """The files whose content decides the items, below the folder ``data``.

        Raises:
            ConfigError: when one is missing.
            ArtifactError: when one has a line that is no item: better known now than after a training.
        """
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileBenchmark(Benchmark, Generic[T]):
    """A benchmark whose items come from files."""

    paths: tuple[str, ...] = dataclasses.field(metadata={"hashed": False})
    """Files, absolute or below ``evaluation.data``. Their content decides the artifact's address, not their place."""

    @property
    def reading(self) -> str:
        """With the files it decides ``texts``; empty where the questions are not to be searched for."""
        return str(self.type)

    @property
    def dirty_share(self) -> float:
        """A question is dirty when more than this share of its n-grams is in training documents."""
        return 0.0

    @abc.abstractmethod
    def read(self, data: Path) -> list[tuple[str, T]]:
        """(name, what the benchmark needs of it) of each question in all files, in order.

        Raises:
            ArtifactError: naming file and line of what does not fit.
        """

    @abc.abstractmethod
    def texts(self, parsed: Sequence[T]) -> list[tuple[str, ...]]:
        """The texts of each question that a model must not have seen: with the right answer, and wrong answers;
        without what a prompt adds to them."""

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        files = tuple(benchmark_file(data / path) for path in self.paths)
        if len({file.name for file in files}) < len(files):
            wrong = f"two files have one name, by which items are told apart: {', '.join(self.paths)}"
            raise ConfigError("evaluation.benchmarks", wrong, "rename one")
        self.read(data)
        return files


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordBenchmark(FileBenchmark[T]):
    """A benchmark whose files have one JSON object a line."""

    @abc.abstractmethod
    def parse(self, record: Record) -> T:
        """One line as what the benchmark needs of it.

        Raises:
            ArtifactError: naming file, line and field of what does not fit.
        """

    def read(self, data: Path) -> list[tuple[str, T]]:
        return [(record.name, self.parse(record)) for path in self.paths for record in read_records(data / path)]


def of_groups(groups: Iterable[Sequence[Item]], limit: int | None) -> list[Item]:
    """The items of ``groups``, one group after the other; where they are limited, the first of each in turn."""
    ranked = sorted((place, number, item) for number, group in enumerate(groups) for place, item in enumerate(group))
    return [item for _, _, item in sorted((number, place, item) for place, number, item in ranked[:limit])]


def shots_name(name: str, shots: int) -> str:
    """What the benchmark ``name`` is called with so many worked examples, where there are scores of several."""
    return f"{name}_{shots}shot"


def without_shots(name: str, shots: int) -> str:
    """What ``shots_name`` was given: ``piqa`` for ``piqa_8shot``."""
    return name.removesuffix(shots_name("", shots))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewShotBenchmark(RecordBenchmark[T]):
    """A benchmark of questions and answers, which may be preceded by others with their answers."""

    shots: Natural = 0
    """Worked examples before each question: other records of the same files, drawn for each item."""
    delimiter: AnyText = " "
    """Stands before an answer (lm-evaluation-harness: target_delimiter)."""
    shot_delimiter: AnyText = "\n\n"
    """Stands after a worked example (lm-evaluation-harness: fewshot_delimiter)."""
    worked_delimiter: AnyText | None = None
    """Stands before the answer of a worked example; None for ``delimiter``. In lm-evaluation-harness the two differ
    where the task's target begins with a space of its own."""
    shot_seed: Seed = 1234
    """Decides which records serve as worked examples; the default is lm-evaluation-harness's (--seed)."""
    rewrites: tuple[tuple[str, AnyText], ...] = ()
    """Regular expressions, and what their matches in a question are replaced by, one after the other."""

    def __post_init__(self) -> None:
        for pattern, replacement in self.rewrites:
            try:
                re.sub(pattern, replacement, "")
            except re.error as error:
                wrong = f"{pattern!r} → {replacement!r} of rewrites is no regular expression ({error})"
                raise ConfigError("evaluation.benchmarks", wrong, "correct it") from None

    @property
    def delimiter_of_worked(self) -> str:
        return self.delimiter if self.worked_delimiter is None else self.worked_delimiter

    def read(self, data: Path) -> list[tuple[str, T]]:
        records = super().read(data)
        if len(records) <= self.shots:
            raise too_many_shots(self.shots, len(records))
        return records

    def rewritten(self, question: str) -> str:
        """``question`` as the prompt has it."""
        for pattern, replacement in self.rewrites:
            question = re.sub(pattern, replacement, question)
        return question

    def worked_examples(self, keys: Sequence[str], worked: Sequence[str]) -> list[str]:
        """What stands before each question: other records as ``worked``, never one with the same key."""
        return [
            "".join(worked[number] + self.shot_delimiter for number in numbers)
            for numbers in shot_numbers(keys, self.shots, self.shot_seed)
        ]

    def contexts(self, questions: Sequence[str], answers: Sequence[str]) -> list[str]:
        """The prompt of each question: worked examples, each with its answer, then the question itself."""
        delimiter = self.delimiter_of_worked
        worked = [question + delimiter + answer for question, answer in zip(questions, answers, strict=True)]
        before = self.worked_examples(questions, worked)
        return [examples + question for examples, question in zip(before, questions, strict=True)]
