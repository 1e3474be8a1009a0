"""Settings of the evaluation.

benchmarks:
  piqa: {type: multiple_choice, paths: [piqa.jsonl.zst], query_suffix: "Answer:", shots: 5}
"""

import dataclasses
import hashlib
import importlib.metadata
import os.path
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

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
    by_content,
    settings,
    unhashed,
)
from headrace.pipeline.core.stage import RawFile
from headrace.train.evaluation.benchmarks import AnyBenchmark
from headrace.train.evaluation.benchmarks.base import FewShotBenchmark, FileBenchmark
from headrace.train.evaluation.contamination import BenchmarkTexts
from headrace.train.evaluation.harness_files import SETTING, is_file, read_task
from headrace.train.evaluation.prompt import ChatPrompts
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
    yaml: TextList = by_content(())
    """The same as paths below ``data``, or absolute. The content of all files that a task reads decides the address."""
    task_shots: Natural | None = None
    """Worked examples of each of these tasks; None: the task's own number."""
    task_limit: Positive | None = None
    """At most this many items of each of these tasks; None takes all."""
    chat: ChatPrompts = dataclasses.field(default_factory=ChatPrompts)
    """Prompts as the messages of a conversation."""
    hang_seconds: PositiveNumber = unhashed(1800.0)
    """The limit for one round of queries. After it every rank prints its stacks and ends; no answer is lost."""
    seed: Seed = 0
    """Decides every random choice, except worked examples (a benchmark's ``shot_seed``) and sampled texts (its
    ``seed``)."""

    def __post_init__(self) -> None:
        for setting, names in {"benchmarks": [*self.benchmarks], "suites": [*self.suites]}.items():
            for name in names:
                if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
                    raise ConfigError(
                        f"evaluation.{setting}", f"{name!r} names a file", "use letters, digits, _ . and -"
                    )
        check_suites(self.suites, {*self.benchmarks, *self.task_names})

    @property
    def task_paths(self) -> list[Path]:
        """The YAML files of tasks."""
        return [Path(task) for task in self.tasks if is_file(task)] + [Path(self.data) / path for path in self.yaml]

    @property
    def task_names(self) -> list[str]:
        """The names of tasks; those of YAML files have the names of their files."""
        return [task for task in self.tasks if not is_file(task)] + [path.stem for path in self.task_paths]

    def expanded(self) -> "Evaluation":
        """Returns the same evaluation written out: ``shots`` and ``limit`` are in the settings of the benchmarks, and
        the files of ``tasks`` in ``yaml``.

        Stages and addresses hold this form, so the short form and the long one are one artifact.

        Raises:
            ConfigError: when two benchmarks get one name, or nothing takes ``shots``.
        """
        takes_shots = any(isinstance(benchmark, FewShotBenchmark) for benchmark in self.benchmarks.values())
        if self.shots and self.task_names and not takes_shots:
            problem = f"is {list(self.shots)}, and tasks of lm-evaluation-harness take one number"
            raise ConfigError("evaluation.shots", problem, "give evaluation.task_shots=N")
        benchmarks: dict[str, AnyBenchmark] = {}
        for name, benchmark in self._each_shots():
            if name in benchmarks:
                problem = f"two benchmarks are named {name!r} with evaluation.shots={list(self.shots)}"
                remedy = "rename one, or leave evaluation.shots out"
                raise ConfigError("evaluation.benchmarks", problem, remedy)
            benchmarks[name] = dataclasses.replace(benchmark, limit=least(benchmark.limit, self.limit))
        task_limit = least(self.task_limit, self.limit) if self.task_names else self.task_limit
        files = [os.path.abspath(task) if self.data else task for task in self.tasks if is_file(task)]
        return dataclasses.replace(
            self,
            benchmarks=benchmarks,
            suites=suites_of_shots(self.suites, self.shots, {*benchmarks, *self.task_names}),
            tasks=tuple(task for task in self.tasks if not is_file(task)),
            yaml=(*files, *self.yaml),
            task_limit=task_limit,
            shots=(),
            limit=None,
        )

    def _each_shots(self) -> Iterator[tuple[str, AnyBenchmark]]:
        """Yields the benchmarks; those that take worked examples, once for each of ``shots``."""
        for name, benchmark in self.benchmarks.items():
            if self.shots and isinstance(benchmark, FewShotBenchmark):
                for shots in self.shots:
                    yield shots_name(name, shots), dataclasses.replace(benchmark, shots=shots)
            else:
                yield name, benchmark

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files of all benchmarks, in the order of the benchmarks' names, then those of tasks and the chat
        template.

        Raises:
            ConfigError: when one is missing, or tasks are asked for and lm-evaluation-harness is not installed.
            ArtifactError: when a benchmark's file has a line that is no item.
        """
        files: tuple[RawFile, ...] = ()
        for name, benchmark in sorted(self.benchmarks.items()):
            try:
                files += benchmark.raw_files(Path(self.data))
            except ConfigError as error:
                raise ConfigError(f"evaluation.benchmarks.{name}", error.problem, error.remedy) from None
        return files + tuple(self._raw_task_files()) + self.chat.raw_files()

    def _raw_task_files(self) -> Iterator[RawFile]:
        """Yields the files of tasks, and the version of the harness as one without content."""
        if not self.task_names:
            return
        require(SETTING, "lm_eval")
        yield RawFile(f"lm-eval=={importlib.metadata.version('lm-eval')}", 0, hashlib.sha256().hexdigest())
        tasks = {path: read_task(path, Path(self.data)) for path in self.task_paths}
        shipped = [task for task in self.tasks if not is_file(task)]
        names = Counter([*self.benchmarks, *shipped, *(task.name for task in tasks.values())])
        if twice := [name for name, number in names.items() if number > 1]:
            raise ConfigError(SETTING, f"two tasks or benchmarks are named {twice[0]!r}", "rename one")
        for path, task in tasks.items():
            if path.stem != task.name and any(path.stem in members for members in self.suites.values()):
                problem = f"a suite has {path.stem!r}, and {path} holds the task {task.name!r}"
                raise ConfigError("evaluation.suites", problem, "give file and task one name")
            yield from task.raw_files()

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
        if self.task_names and stack != "decoder":
            raise ConfigError(SETTING, f"{self.task_names[0]!r} {problem}", remedy)
        self.chat.check_stack(stack)

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
        bases = {
            name: without_shots(name, getattr(benchmark, "shots", 0)) for name, benchmark in self.benchmarks.items()
        }
        known = {*bases, *bases.values(), *self.task_names}
        if "" in names:
            raise ConfigError("--only", "has an empty name", "give names of benchmarks, separated by commas")
        for name in sorted(names - known):
            remedy = f"{suggestion(name, known)} (others with evaluation=…)"
            raise ConfigError("--only", f"no benchmark of evaluation is named {name!r}", remedy)
        chosen = {name: benchmark for name, benchmark in self.benchmarks.items() if names & {name, bases[name]}}
        evaluation = self._only(chosen, names)
        if evaluation.task_names:
            return evaluation
        # without tasks, their settings are no part of the address
        return dataclasses.replace(evaluation, task_shots=None, task_limit=None)

    def _only(self, benchmarks: Mapping[str, AnyBenchmark], tasks: AbstractSet[str] = frozenset()) -> "Evaluation":
        """Returns these ``benchmarks``, the tasks with the names ``tasks``, and the suites that need no others."""
        known = {*benchmarks, *tasks}
        suites = {name: members for name, members in self.suites.items() if known.issuperset(members)}
        named = tuple(task for task in self.tasks if (Path(task).stem if is_file(task) else task) in tasks)
        files = tuple(path for path in self.yaml if Path(path).stem in tasks)
        return dataclasses.replace(self, benchmarks=dict(benchmarks), tasks=named, yaml=files, suites=suites)

    def without_run(self) -> "Evaluation":
        """Returns the benchmarks that need no run: any model can answer them.

        Raises:
            ConfigError: when there are none.
        """
        benchmarks = {name: benchmark for name, benchmark in self.benchmarks.items() if not benchmark.needs_run}
        if not benchmarks and not self.task_names:
            remedy = "take others: evaluation=standard evaluation.data=FOLDER"
            raise ConfigError("evaluation.benchmarks", "all are made of a run's held-out documents", remedy)
        return self._only(benchmarks, {*self.task_names})

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
            bare = without_shots(name, benchmark.shots) if isinstance(benchmark, FewShotBenchmark) else name
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
