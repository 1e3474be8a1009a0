"""The interface of benchmarks: each names its files, makes items, judges answers, and computes metrics.

    sources ── items ──> Item, ... ── (the model answers) ── outcome ──> {"acc": 1.0, ...} ── metrics ──> Metric, ...

A new benchmark is one class with these three methods and a ``type`` tag, and one line of the table of benchmarks.

    records ── drawn ──> examples of each question ── turns ──> Turns ── prompt.PromptForm ──> its context
"""

import abc
import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import AnyText, Natural, Positive, Seed, SomeTexts
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.pipeline.core.text_files import stored_path
from headrace.train.evaluation.file_records import BenchmarkRecord, benchmark_records
from headrace.train.evaluation.held_out_documents import HeldOut, HeldOutDocument
from headrace.train.evaluation.prompt import PromptForm, Turns, WorkedExample, shot_numbers, too_many_shots
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Query, TextEncoder
from headrace.train.parts import StackName

T = TypeVar("T")

Outcome = Mapping[str, float]
"""The contributions of one item to metrics: right (1) or wrong (0), a log-likelihood, a count."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    name: str
    """``<file>:<line>`` (lines from 1), or ``<token shard>:<document>`` (both from 0) for held-out text."""
    queries: tuple[Query, ...]
    """One per choice; the parts of one document for held-out text."""
    choices: tuple[str, ...] = ()
    """The bare choices, without the delimiter before them: length normalization divides by their lengths."""
    gold: int = 0
    """The index of the right choice."""
    group: str = ""
    """The part of the benchmark that gets a score of its own."""
    sizes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """The amount of text by unit (bytes, characters, words), for scores per unit."""
    written: tuple[str, ...] = ()
    """The text that was written for each query: by a baseline, or, when the item is scored, by the model."""


@dataclasses.dataclass(frozen=True)
class Sources:
    """The sources of items."""

    data: Path
    """The folder that relative paths of benchmark files start from."""
    held_out: HeldOut | None
    """The run's own held-out documents; None for a model that no run made."""
    seed: str
    """Decides every random choice of one benchmark."""
    vocabulary: int = 0
    """The size of the model's vocabulary; 0 when no benchmark makes items of tokens."""
    start: int = 0
    """The token before a text."""
    tokenizer: TextEncoder | None = None
    """The model's tokenizer, for text that is cut into windows; prompts need none."""
    window_tokens: int = 0
    """The number of positions that the model has."""
    most_window_tokens: int | None = None
    """The most positions that a query may ask for; None: any number."""
    form: PromptForm = dataclasses.field(default_factory=PromptForm)
    """The way in which the parts of a prompt become one text."""
    opening: Sequence[int] = ()
    """The tokens that the tokenizer puts before a text."""

    @property
    def held_out_documents(self) -> Sequence[HeldOutDocument]:
        """The run's own held-out documents; benchmarks with ``needs_run`` are asked only where there are some."""
        return self.held_out_run.documents

    @property
    def held_out_run(self) -> HeldOut:
        """The run's documents and rows; benchmarks with ``needs_run`` are asked only where there is a run."""
        assert self.held_out is not None
        return self.held_out

    @property
    def text_encoder(self) -> TextEncoder:
        """The model's tokenizer, which scoring gives to every benchmark."""
        assert self.tokenizer is not None
        return self.tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark(abc.ABC):
    """One zero- or few-shot test of a model. Subclasses add their ``type`` tag and settings."""

    needs_run: ClassVar[bool] = False
    """Whether its items are made of a run's held-out documents."""
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder", "encoder_decoder")
    """The values of ``model.stack`` of the models that can answer it. An encoder can only compare sentences, and only a
    decoder has a likelihood of a whole text."""
    reads_attention: ClassVar[bool] = False
    """Whether it reads weights of attention, which a model of another mixer does not compute."""
    sentence: ClassVar[str] = ""
    """The sentence of the report about it."""

    type: str
    """The tag in settings."""
    limit: Positive | None = None
    """At most this many items, taken from the groups in turn; None takes all."""

    @property
    def least_window_tokens(self) -> int:
        """The positions that a model must have; with fewer, contexts would lose what the benchmark tests."""
        return 1

    @abc.abstractmethod
    def items(self, sources: Sources) -> list[Item]:
        """Returns the questions, in an order that depends on the sources only."""

    @abc.abstractmethod
    def outcome(self, item: Item, answers: Sequence[Any]) -> Outcome:
        """Returns the contributions of ``item`` to metrics, given one answer per query, of the query's kind."""

    @abc.abstractmethod
    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the scores, the main one first. Called with at least one item; ``vocabulary`` in tokens.

        Their names are declared in score_rows.KINDS.
        """

    def shots_of(self, items: Sequence[Item]) -> int:
        """Returns the number of worked examples before each of ``items``."""
        return 0

    def notes(self, most_window_tokens: int | None) -> tuple[str, ...]:
        """Returns what cannot be measured with a model that reads at most this many tokens at once, as sentences for
        the reader of the scores; None: any number."""
        return ()

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        """Returns the files whose content decides the items, below the folder ``data``.

        Raises:
            ConfigError: when one is missing.
            ArtifactError: when one has a line that is no item, before a training begins.
        """
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileBenchmark(Benchmark, Generic[T]):
    """A benchmark whose items come from files."""

    paths: SomeTexts = dataclasses.field(metadata={"hashed": False})
    """Files, absolute or below ``evaluation.data``. Their content decides the artifact's address, not their path."""

    @property
    def reading(self) -> str:
        """The way that files are read, which decides ``texts``; empty when the questions are not searched for."""
        return self.type

    @property
    def dirty_share(self) -> float:
        """A question is dirty when more than this share of its n-grams is in training documents."""
        return 0.0

    @abc.abstractmethod
    def read(self, data: Path) -> list[tuple[str, T]]:
        """Returns (name, parsed question) of each question in all files, in order.

        Raises:
            ArtifactError: naming file and line of a value that does not fit.
        """

    @abc.abstractmethod
    def texts(self, parsed: Sequence[T]) -> list[tuple[str, ...]]:
        """Returns the texts of each question that a model must not have seen: with the right answer, and wrong answers,
        without the additions of a prompt."""

    def files(self, data: Path) -> list[Path]:
        """Returns the files at ``paths`` (``files_at``)."""
        return files_at(data, self.paths)

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        files = tuple(map(benchmark_file, self.files(data)))
        if len({file.name for file in files}) < len(files):
            problem = f"two files have one name, but names distinguish their items: {', '.join(self.paths)}"
            raise ConfigError("evaluation.benchmarks", problem, "rename one")
        self.read(data)
        return files


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordBenchmark(FileBenchmark[T]):
    """A benchmark whose files have records: JSON lines, TSV or CSV."""

    @abc.abstractmethod
    def parse(self, record: BenchmarkRecord) -> T:
        """Returns one line as the benchmark needs it.

        Raises:
            ArtifactError, RecordError: when a value does not fit.
        """

    def records(self, data: Path) -> list[BenchmarkRecord]:
        """Returns the records of all files, in order."""
        return benchmark_records(self.files(data))

    def read(self, data: Path) -> list[tuple[str, T]]:
        return [(record.name, record.parsed(self.parse)) for record in self.records(data)]


def column(outcomes: Sequence[Outcome], name: str) -> list[float]:
    """Returns the contribution ``name`` of each item."""
    return [outcome[name] for outcome in outcomes]


def by_group(items: Sequence[Item], values: Sequence[T]) -> dict[str, list[T]]:
    """Returns the ``values`` of the items of each group."""
    groups: dict[str, list[T]] = defaultdict(list)
    for item, value in zip(items, values, strict=True):
        groups[item.group].append(value)
    return groups


def files_at(data: Path, paths: Sequence[str]) -> list[Path]:
    """Returns the files at ``paths`` below ``data``; of one that is missing, the file of its name in another
    compression.

    ``*`` stands for any text. A path with it that no file has is returned as it is, and refused where it is read.
    """
    files: list[Path] = []
    for path in paths:
        matching = sorted(data.glob(path)) if "*" in path and not Path(path).is_absolute() else []
        files += matching or [stored_path(data / path)]
    return files


def of_groups(groups: Iterable[Sequence[Item]], limit: int | None) -> list[Item]:
    """Returns the items of ``groups``, group after group; a limit takes the first of each group in turn."""
    ranked = sorted((index, number, item) for number, group in enumerate(groups) for index, item in enumerate(group))
    return [item for _, _, item in sorted((number, index, item) for index, number, item in ranked[:limit])]


def benchmark_file(path: Path) -> RawFile:
    """Returns name, size and checksum of ``path``.

    Raises:
        ConfigError: when there is no such file.
    """
    if not path.is_file():
        raise ConfigError("evaluation.benchmarks", f"no file {str(path)!r}", "give its folder as evaluation.data")
    return raw_file(path.name, path)


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
