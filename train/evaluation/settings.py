"""Settings of the evaluation.

benchmarks:
  piqa: {type: multiple_choice, paths: [piqa.jsonl.zst], query_suffix: "Answer:", shots: 5}
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from headrace.data_prep.canaries import Canaries
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.settings import (
    AnyPath,
    AnyText,
    Natural,
    Positive,
    PositiveNumber,
    Seed,
    SomeTexts,
    TextList,
    settings,
    unhashed,
)
from headrace.pipeline.core.stage import RawFile
from headrace.train.evaluation.benchmarks import AnyBenchmark
from headrace.train.evaluation.benchmarks.base import FileBenchmark
from headrace.train.evaluation.benchmarks.canary_extraction import Extraction
from headrace.train.evaluation.benchmarks.harness_task import HarnessTask
from headrace.train.evaluation.benchmarks.worked_examples import FewShotBenchmark
from headrace.train.evaluation.chat_prompts import ChatPrompts
from headrace.train.evaluation.contamination import BenchmarkTexts
from headrace.train.evaluation.lm_eval.file_format import task_files
from headrace.train.evaluation.score_rows import shots_name, without_shots
from headrace.train.evaluation.suites import check_suites, suites_of_shots
from headrace.train.inference.settings import Inference
from headrace.train.parts import StackName


@settings
class Evaluation(Inference):
    """The tests of the model."""

    benchmarks: dict[AnyText, AnyBenchmark] = dataclasses.field(default_factory=dict)
    """Name in the score table → benchmark; scored in the order of the names."""
    suites: dict[AnyText, SomeTexts] = dataclasses.field(default_factory=dict)
    """Name in the score table → benchmarks and tasks whose mean is one more row; see suites.py."""
    shots: tuple[Natural, ...] = unhashed(())
    """Scores every benchmark that takes worked examples with each of these numbers of examples, as piqa_0shot,
    piqa_1shot, …, as if all were written out (hence no part of the address); empty: each keeps its own number."""
    limit: Positive | None = unhashed(None)
    """At most this many items of every benchmark and task, as if each had this limit; None: each keeps its own."""
    data: AnyPath = unhashed("")
    """The folder that relative ``paths`` of benchmarks start from; empty: the current one."""
    tasks: TextList = ()
    """Tasks of lm-evaluation-harness, by name or as paths of their YAML; needs the extra headrace[evaluation]."""
    yaml: TextList = unhashed(())
    """Tasks in lm-evaluation-harness's format, read without it: paths of YAML files, absolute or below ``data``. Each
    is a benchmark of type ``harness`` with the name of its file, as if it were written out."""
    task_shots: Natural | None = None
    """Worked examples of each of these tasks and of ``yaml``; None: the task's own number."""
    task_limit: Positive | None = None
    """At most this many items of each of these tasks and of ``yaml``; None takes all."""
    chat: ChatPrompts = dataclasses.field(default_factory=ChatPrompts)
    """Prompts as the messages of a conversation."""
    hang_seconds: PositiveNumber = unhashed(1800.0)
    """The limit for one round of queries. After it every rank prints its stacks and ends; no answer is lost."""
    seed: Seed = 0
    """Decides every random choice, except worked examples (a benchmark's ``shot_seed``) and sampled texts (its
    ``seed``)."""

    def __post_init__(self) -> None:
        named = {"benchmarks": [*self.benchmarks], "suites": [*self.suites], "yaml": [*self._yaml_tasks()]}
        for setting, names in named.items():
            for name in names:
                if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
                    raise ConfigError(
                        f"evaluation.{setting}", f"{name!r} names a file", "use letters, digits, _ . and -"
                    )
        check_suites(self.suites, {*self.benchmarks, *self.tasks, *self._yaml_tasks()})

    def expanded(self) -> "Evaluation":
        """Returns the same evaluation written out: ``yaml`` is among the benchmarks, ``shots`` and ``limit`` are in
        their own settings.

        Stages and addresses hold this form, so the short form and the long one are one artifact.

        Raises:
            ConfigError: when two benchmarks get one name.
        """
        benchmarks: dict[str, AnyBenchmark] = {}
        for name, benchmark in self._each_shots():
            if name in benchmarks:
                problem = f"two benchmarks are named {name!r} with evaluation.shots={list(self.shots)}"
                remedy = "rename one, or leave evaluation.shots or evaluation.yaml out"
                raise ConfigError("evaluation.benchmarks", problem, remedy)
            benchmarks[name] = dataclasses.replace(benchmark, limit=least(benchmark.limit, self.limit))
        task_limit = least(self.task_limit, self.limit) if self.tasks else self.task_limit
        return dataclasses.replace(
            self,
            benchmarks=benchmarks,
            suites=suites_of_shots(self.suites, self.shots, {*benchmarks, *self.tasks}),
            task_limit=task_limit,
            yaml=(),
            shots=(),
            limit=None,
        )

    def _each_shots(self) -> Iterator[tuple[str, AnyBenchmark]]:
        """Yields the benchmarks; those that take worked examples, once for each of ``shots``."""
        for name, benchmark in (*self.benchmarks.items(), *self._yaml_tasks().items()):
            if self.shots and isinstance(benchmark, FewShotBenchmark | HarnessTask):
                for shots in self.shots:
                    yield shots_name(name, shots), dataclasses.replace(benchmark, shots=shots)
            else:
                yield name, benchmark

    def _yaml_tasks(self) -> dict[str, HarnessTask]:
        """Returns the tasks of ``yaml`` by the names of their files."""
        own = {Path(path).stem: path for path in self.yaml}
        if len(own) < len(self.yaml):
            raise ConfigError("evaluation.yaml", f"two of {list(self.yaml)} have one name", "rename one")
        return {
            name: HarnessTask(paths=(path,), shots=self.task_shots, limit=self.task_limit) for name, path in own.items()
        }

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files of all benchmarks, in the order of the benchmarks' names, then those of tasks and the chat
        template.

        Raises:
            ConfigError: when one is missing, or tasks are asked for and lm-evaluation-harness is not installed.
            ArtifactError: when a benchmark's file has a line that is no item.
        """
        if self.tasks:
            require("evaluation.tasks", "lm_eval")
        files: tuple[RawFile, ...] = ()
        for name, benchmark in sorted(self.benchmarks.items()):
            try:
                files += benchmark.raw_files(Path(self.data))
            except ConfigError as error:
                raise ConfigError(f"evaluation.benchmarks.{name}", error.problem, error.remedy) from None
        return files + tuple(file for task in self.tasks for file in task_files(task)) + self.chat.raw_files()

    def check_window(self, window_tokens: int) -> None:
        """Checks that a model with this many positions can answer every benchmark.

        Raises:
            ConfigError: naming the first one that needs more.
        """
        for name, benchmark in sorted(self.benchmarks.items()):
            if benchmark.least_window_tokens > window_tokens:
                problem = f"it needs {benchmark.least_window_tokens} positions and the model has {window_tokens}"
                raise ConfigError(f"evaluation.benchmarks.{name}", problem, "make its settings smaller or leave it out")

    def check_stack(self, stack: StackName, has_attention: bool = True) -> None:
        """Checks that a model of this ``stack``, with or without attention, can answer every benchmark.

        Raises:
            ConfigError: naming the first one that it cannot, and both settings.
        """
        problem = f"needs a text's likelihood from left to right, and model.stack is {stack}"
        remedy = "leave it out: evaluation=pairs holds what every stack can answer"
        for name, benchmark in sorted(self.benchmarks.items()):
            if stack not in benchmark.stacks:
                raise ConfigError(f"evaluation.benchmarks.{name}", f"type {benchmark.type} {problem}", remedy)
            if benchmark.reads_attention and not has_attention:
                lacking = f"type {benchmark.type} needs weights of attention, and model.mixer computes none"
                raise ConfigError(f"evaluation.benchmarks.{name}", lacking, "leave it out; or model.mixer=attention")
        if self.tasks and stack != "decoder":
            raise ConfigError("evaluation.tasks", f"{self.tasks[0]!r} {problem}", remedy)
        self.chat.check_stack(stack)

    def with_canaries(self, canaries: Canaries) -> "Evaluation":
        """Returns the same evaluation that extracts the ``canaries`` of a run.

        Raises:
            ConfigError: naming the benchmark when the run plants none.
        """
        benchmarks = dict(self.benchmarks)
        for name, benchmark in self.benchmarks.items():
            if isinstance(benchmark, Extraction):
                if not canaries.copies:
                    problem = "it extracts planted canaries, and canaries.copies is empty"
                    remedy = "give canaries=planted, or leave it out"
                    raise ConfigError(f"evaluation.benchmarks.{name}", problem, remedy)
                benchmarks[name] = dataclasses.replace(benchmark, canaries=canaries)
        return dataclasses.replace(self, benchmarks=benchmarks)

    def light(self, names: Sequence[str], items: int | None) -> "Evaluation":
        """Returns the benchmarks with these ``names`` (all without names), each with at most this many ``items``.

        Raises:
            ConfigError: when no benchmark has one of the names.
        """
        for name in names:
            if name not in self.benchmarks:
                remedy = suggestion(name, self.benchmarks)
                raise ConfigError("training.evaluate", f"no benchmark of evaluation is named {name!r}", remedy)
        chosen = {name: self.benchmarks[name] for name in names} or self.benchmarks
        return dataclasses.replace(self._only(chosen), limit=items).expanded()

    def only(self, names: AbstractSet[str]) -> "Evaluation":
        """Returns the benchmarks, each with any number of shots, and the tasks that have one of ``names``.

        Raises:
            ConfigError: when none has one of the names, or one is empty.
        """
        bases = {name: without_shots(name, getattr(own, "shots", 0)) for name, own in self.benchmarks.items()}
        known = {*bases, *bases.values(), *self.tasks}
        if "" in names:
            raise ConfigError("--only", "has an empty name", "give names of benchmarks, separated by commas")
        for name in sorted(names - known):
            remedy = f"{suggestion(name, known)} (others with evaluation=…)"
            raise ConfigError("--only", f"no benchmark of evaluation is named {name!r}", remedy)
        chosen = {name: benchmark for name, benchmark in self.benchmarks.items() if names & {name, bases[name]}}
        tasks = tuple(task for task in self.tasks if task in names)
        own = self._only(chosen, tasks)
        # without tasks, their settings are no part of the address
        return own if tasks else dataclasses.replace(own, task_shots=None, task_limit=None)

    def _only(self, benchmarks: Mapping[str, AnyBenchmark], tasks: TextList = ()) -> "Evaluation":
        """Returns these ``benchmarks`` and ``tasks``, and the suites that need no others."""
        known = {*benchmarks, *tasks}
        suites = {name: members for name, members in self.suites.items() if known.issuperset(members)}
        return dataclasses.replace(self, benchmarks=dict(benchmarks), tasks=tasks, suites=suites)

    def without_run(self) -> "Evaluation":
        """Returns the benchmarks that need no run: any model can answer them.

        Raises:
            ConfigError: when there are none.
        """
        benchmarks = {name: benchmark for name, benchmark in self.benchmarks.items() if not benchmark.needs_run}
        if not benchmarks and not self.tasks:
            remedy = "take others: evaluation=standard evaluation.data=FOLDER"
            raise ConfigError("evaluation.benchmarks", "all are made of a run's held-out documents", remedy)
        return self._only(benchmarks, self.tasks)

    def same_texts(self) -> dict[str, str]:
        """Returns for each benchmark made from files the name of its texts.

        It is the name, without the number of shots, of the first benchmark that reads the same files in the same way.
        Zero and five shots of one benchmark share their texts, so another number of shots changes no training data.
        Text of the run itself, or made here, has no entry: it occurs nowhere else. Nor has a file of raw text that is
        not cut into documents.
        """
        names: dict[tuple[str, tuple[str, ...]], str] = {}
        from_files = {name: of_file for name, of_file in self.benchmarks.items() if isinstance(of_file, FileBenchmark)}
        from_files = {name: of_file for name, of_file in from_files.items() if of_file.reading}
        for name, benchmark in sorted(from_files.items()):
            bare = (
                without_shots(name, benchmark.shots or 0)
                if isinstance(benchmark, FewShotBenchmark | HarnessTask)
                else name
            )
            names.setdefault((benchmark.reading, benchmark.paths), name if bare in names.values() else bare)
        return {name: names[benchmark.reading, benchmark.paths] for name, benchmark in sorted(from_files.items())}

    def texts(self) -> dict[str, BenchmarkTexts]:
        """Returns the texts that training documents must not hold, by the names in ``same_texts``."""
        data, firsts = Path(self.data), dict[str, FileBenchmark[Any]]()
        for name, texts in self.same_texts().items():
            benchmark = self.benchmarks[name]
            assert isinstance(benchmark, FileBenchmark)
            firsts.setdefault(texts, benchmark)
        return {
            texts: BenchmarkTexts(type=first.reading, benchmark=first, data=data) for texts, first in firsts.items()
        }


def least(*limits: int | None) -> int | None:
    """Returns the smallest limit that is not None."""
    return min((limit for limit in limits if limit is not None), default=None)
