"""A task of lm-evaluation-harness, read from its YAML file without the harness (lm_eval/task_file.py).

    YAML ── read_task ──> TaskFile ── read_splits ──> records ── TaskTexts ──> questions ── Turns ──> Item, …

Prompts, worked examples and values of metrics are those of the harness's own run. ``evaluation.yaml`` lists such files;
each is a benchmark of this type with the name of its file.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, settings
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.evaluation.benchmarks.base import FileBenchmark, Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.language_modelling import windows
from headrace.train.evaluation.benchmarks.multiple_choice import without_form
from headrace.train.evaluation.lm_eval.task_data import NamedRecord, read_splits, split_files
from headrace.train.evaluation.lm_eval.task_examples import example_numbers
from headrace.train.evaluation.lm_eval.task_file import TaskFile, read_task
from headrace.train.evaluation.lm_eval.task_scores import TaskItem, task_metric_rows, task_outcome
from headrace.train.evaluation.lm_eval.task_texts import TaskQuestion, TaskTexts, fields_of
from headrace.train.evaluation.prompt import Turns
from headrace.train.evaluation.score_rows import Metric
from headrace.train.evaluation.text_metrics import require_packages
from headrace.train.inference.queries import Answer, Generate, Query, Text, TokenQuery, Written, with_opening
from headrace.train.inference.settings import Sampling
from headrace.train.parts import StackName

WHERE = "evaluation.benchmarks"


@settings
class HarnessTask(FileBenchmark[TaskQuestion]):
    """A task of lm-evaluation-harness."""

    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    type: Literal["harness"] = "harness"
    shots: Natural | None = None
    """Worked examples before each question; None: the task's own number."""

    def __post_init__(self) -> None:
        if len(self.paths) > 1:
            raise ConfigError(WHERE, f"paths names {len(self.paths)} tasks", "give one YAML, or evaluation.yaml")

    def task(self, data: Path) -> TaskFile:
        """Returns the task.

        Raises:
            ConfigError: when its YAML says what is not read, or other worked examples are asked for than it allows.
        """
        task = read_task(self.files(data)[0])
        if self.shots and (task.shots == 0 or task.output_type == "loglikelihood_rolling"):
            why = "num_fewshot: 0" if task.shots == 0 else f"output_type: {task.output_type}"
            problem = f"{task.path}: {self.shots} worked examples, and the task has {why}"
            raise ConfigError(WHERE, problem, "leave the number out for this task")
        return task

    def raw_files(self, data: Path) -> tuple[RawFile, ...]:
        task = self.task(data)
        require_packages(WHERE, [metric.name for metric in task.metrics])
        files = [*task.files, *(path for paths in split_files(task, data).values() for path in paths)]
        copies = Counter(path.name for path in dict.fromkeys(files))
        named = {path: path.name if copies[path.name] == 1 else f"{path.parent.name}/{path.name}" for path in files}
        self.items(Sources(data, None, ""))
        return tuple(raw_file(name, path) for path, name in named.items())

    def read(self, data: Path) -> list[tuple[str, TaskQuestion]]:
        return [(question.record.name, question) for question in _questions(self.task(data), data)[0]]

    def texts(self, parsed: Sequence[TaskQuestion]) -> list[tuple[str, ...]]:
        """Returns each question with its right answers, and the other choices."""
        asked = without_form([" ".join(dict.fromkeys(question.inputs)) for question in parsed])
        return [
            (f"{text} {' '.join(question.targets)}", *(own for own in question.choices if own not in question.targets))
            for text, question in zip(asked, parsed, strict=True)
        ]

    def items(self, sources: Sources) -> list[Item]:
        """Returns the items; without a tokenizer, those of whole texts have no queries."""
        task = self.task(sources.data)
        questions, pool, texts = _questions(task, sources.data)
        shots = task.shots or 0 if self.shots is None else self.shots
        asked = questions[: self.limit]
        numbers_of = example_numbers(task, [question.record for question in asked], pool, shots)
        return [
            _item(task, question, shots, queries)
            for question, numbers in zip(asked, numbers_of, strict=True)
            for examples in [[texts.question(pool[number], task.worked.templates) for number in numbers]]
            for queries in [_queries(task, question, texts.turns(question, examples), sources)]
        ]

    def shots_of(self, items: Sequence[Item]) -> int:
        return items[0].shots if items and isinstance(items[0], TaskItem) else 0

    def outcome(self, item: Item, answers: Sequence[Answer | Written]) -> Outcome:
        return task_outcome(item, answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return task_metric_rows(items, outcomes, vocabulary)


def _questions(task: TaskFile, data: Path) -> tuple[list[TaskQuestion], Sequence[NamedRecord], TaskTexts]:
    """Returns the questions, the records of worked examples, and the templates.

    Raises:
        ArtifactError: when the questions are of several kinds.
    """
    splits = read_splits(task, data)
    records, samples = splits[task.question_split], task.worked.samples
    texts = TaskTexts(task, fields_of(records))
    questions = [texts.question(record) for record in records]
    for question in questions:
        _check(task, question, questions[0])
    if task.worked.split is None and samples is not None:
        return questions, [NamedRecord(f"{task.path}: sample {n}", own) for n, own in enumerate(samples, 1)], texts
    return questions, splits[task.worked_split], texts


def _check(task: TaskFile, question: TaskQuestion, first: TaskQuestion) -> None:
    """Refuses a question that the harness would not read as it reads the first one, or not score."""
    if isinstance(question.text, int) != isinstance(first.text, int):
        raise question.error(f"doc_to_text is {question.text!r}", "give all records a text, or all a number")
    if isinstance(question.target, list) != isinstance(first.target, list):
        raise question.error(f"doc_to_target is {question.target!r}", "give all records a list, or none")
    names = {metric.name for metric in task.metrics}
    if task.output_type == "multiple_choice":
        golds = question.golds
        if names & {"f1", "mcc"} and len(question.choices) != 2:
            raise question.error(f"has {len(question.choices)} choices", "f1 and mcc compare two")
        if len(golds) != 1 and names & {"f1", "mcc", "brier_score", "acc_mutual_info"}:
            raise question.error(f"has the right choices {golds!r}", "give one, or only acc, acc_norm and acc_bytes")
    elif task.output_type != "generate_until" and not (isinstance(question.target, str) and question.target):
        raise question.error(f"doc_to_target is {question.target!r}", "let it give a text")
    elif isinstance(question.target, list) and (names & {"bleu", "chrf"} or not question.is_written):
        raise question.error(f"doc_to_target is {question.target!r}", "let it give texts; bleu and chrf compare one")


def _queries(task: TaskFile, question: TaskQuestion, turns: Sequence[Turns], sources: Sources) -> tuple[Query, ...]:
    contexts = [sources.form.context(own) for own in turns]
    if task.output_type == "loglikelihood_rolling":
        return tuple(_windows(question.target, sources))
    if task.output_type == "loglikelihood":
        return (Text(contexts[0], question.target),)
    if task.output_type == "generate_until":
        return (Generate(contexts[0], Sampling(max_tokens=task.max_tokens, stops=task.stops)),)
    before = sources.form.delimiter(task.templates.target_delimiter, task.templates.gen_prefix or "")
    if isinstance(question.text, int):
        queries = [Text(context, f"{before}{question.target}") for context in contexts]
    else:
        queries = [Text(contexts[0], before + choice) for choice in question.choices]
    if any(metric.name == "acc_mutual_info" for metric in task.metrics):
        queries += [Text("", before + choice) for choice in question.choices]
    return tuple(queries)


def _windows(text: str, sources: Sources) -> Iterator[TokenQuery]:
    """Yields the windows of a whole text, which begins with the tokens before any text."""
    if sources.tokenizer is not None:
        (ids,) = sources.tokenizer.encode([text])
        whole = np.array(with_opening(ids.tolist(), sources.opening))
        yield from windows(whole, sources.tokenizer.end_of_text, sources.window_tokens, None)


def _item(task: TaskFile, question: TaskQuestion, shots: int, queries: tuple[Query, ...]) -> TaskItem:
    is_choice, text = task.output_type == "multiple_choice", str(question.target)
    sizes = {"words": float(len(re.split(r"\s+", text))), "bytes": float(len(text.encode()))}
    return TaskItem(
        question.record.name,
        queries,
        question.choices if is_choice else question.targets,
        question.golds[0] if is_choice else 0,
        sizes=sizes if task.output_type == "loglikelihood_rolling" else {},
        task=task,
        question=question,
        shots=shots,
    )
