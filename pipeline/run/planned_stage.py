"""A stage of a run with everything that is known before it runs: address, folder, inputs, tasks.

stage.json of a distributed stage has all that a rank needs. So a rank loads neither the settings of other stages nor
their modules.

    PlannedStage ── executor ──> TaskExecutor.run ──> Workers ──> run_task: claim, run, part record

A task is done when its part record exists. Workers claim each task before they run it (pipeline/core/claim.py), so two
commands on one root share the tasks of a phase. A task that another command holds is skipped, and checked again when
all other tasks are done. When a worker is killed, the run ends with a RetryableError.
"""

import dataclasses
import functools
import importlib
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import FORMAT, Artifact, TaskOutput, finish, is_whole, missing_tasks, part_path
from headrace.pipeline.core.artifact_files import held, make
from headrace.pipeline.core.claim import POLL_SECONDS, Waiting, claim_of, claimed, claimed_when_free
from headrace.pipeline.core.environment import JOB
from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.progress import Amounts, StageProgress
from headrace.pipeline.core.settings import decode, differing
from headrace.pipeline.core.stage import FACTS, STORING, Inputs, Phase, Stage, address_of, kind_of
from headrace.pipeline.core.system_errors import explained, moved
from headrace.pipeline.report.funnel import dropped
from headrace.pipeline.report.stage_warnings import is_empty, loss, most_frequent, warnings
from headrace.pipeline.run.saved_run import STAGE_JSON, AnyPhase, is_trusted, read_saved
from headrace.pipeline.run.workers import TaskEnd, WorkerEndedError, Workers

SETTLING_SECONDS = 60
"""The longest time after which a node sees a file of another node. NFS caches folders for 60 s (acdirmax)."""


@dataclasses.dataclass(frozen=True)
class TaskExecutor:
    """Runs the ``tasks`` tasks of a phase that are missing: all of them in workers, or one in this process. Its fields
    are all that a process needs to run them."""

    stage: Stage
    shards: Mapping[str, int]
    inputs: Mapping[str, Path]
    folder: Path
    phase: str
    tasks: int

    @property
    def name(self) -> str:
        return f"{self.stage.name}.{self.phase}"

    @functools.cached_property
    def _artifacts(self) -> Inputs:
        return {name: Artifact(folder) for name, folder in self.inputs.items()}

    def write(self, task: int) -> None:
        """Runs ``task`` and writes its part record."""
        phase = next(phase for phase in self.stage.phases(self.shards) if phase.name == self.phase)
        out = TaskOutput(self.folder, self.phase, task)
        self.stage.check_raw_files()
        counts = phase.run(task, self._artifacts, out)
        self.stage.check_raw_files()
        out.done(counts)

    def run_task(self, task: int) -> bool:
        """Runs one task in this process, unless it is done. Returns False when another process holds the task."""
        if self._is_done(task):
            return True
        with claimed(claim_of(self._part(task))) as is_ours:
            if is_ours and not self._is_done(task):
                try:
                    self.write(task)
                except FileNotFoundError:  # while this process was suspended, another one removed its temporary file
                    if not self._is_done(task):
                        raise
        return is_ours

    def _run_there(self, task: int) -> bool:
        """Runs one task like ``run_task``, in a worker: the main process has made the folder, and holds it."""
        with held(self.folder, is_new=False):
            return self.run_task(task)

    def run_task_when_free(self, task: int) -> None:
        """Runs one task like ``run_task``, after waiting for the process that holds it."""
        waiting = Waiting(f"{self.name} task {task}")
        while not self.run_task(task):
            waiting.start()
            while not (self._is_done(task) or waiting.any_free([claim_of(self._part(task))])):
                time.sleep(POLL_SECONDS)

    def run(self, workers: Workers, progress: StageProgress) -> None:
        """Runs the missing tasks, and waits for tasks that another command holds.

        Raises:
            RetryableError: when a worker was killed. Finished tasks are kept.
            TaskError: when a task failed.
        """
        left = self._missing()
        waiting = Waiting(self.name, progress.print_line)
        progress.skip(self.tasks - len(left))
        while left:
            held = set(left)
            for task in self._finished(left, workers, progress):
                held.remove(task)
                progress.advance(1)
            left = self._freed(sorted(held), waiting, progress)

    def _freed(self, held: list[int], waiting: Waiting, progress: StageProgress) -> list[int]:
        """Waits until the tasks ``held`` by other processes are done, or one is free. Returns the unfinished ones."""
        waiting.start()
        while held and not waiting.any_free([claim_of(self._part(task)) for task in held]):
            time.sleep(POLL_SECONDS)
            missing = set(self._missing())
            progress.advance(sum(task not in missing for task in held))
            held = [task for task in held if task in missing]
        return held

    def _part(self, task: int) -> Path:
        return part_path(self.folder, self.phase, task)

    def _is_done(self, task: int) -> bool:
        return self._part(task).is_file()

    def _missing(self) -> list[int]:
        return missing_tasks(self.folder, self.phase, self.tasks)

    def _finished(self, missing: list[int], workers: Workers, progress: StageProgress) -> Iterator[int]:
        """Runs the tasks ``missing`` in ``workers``. Yields each task that is done, none that others hold."""
        log = self.folder / "logs" / f"{self.phase}.log"
        make(log.parent)
        log.open("ab").close()  # an error here is clear; in a worker it would look like a kill
        failed: TaskEnd | None = None
        try:
            for news in workers.run(self._run_there, missing, log):
                if isinstance(news, Amounts):
                    progress.count(news)
                elif news.text:
                    failed = failed or news
                elif self._is_done(news.task):
                    yield news.task
        except WorkerEndedError as ended:
            raise moved(self.folder) or self._without_worker(ended, log) from None
        if failed:
            raise moved(self.folder) or self._error(failed, log)

    def _without_worker(self, ended: WorkerEndedError, log: Path) -> TaskError:
        if start_error := str(ended):
            return TaskError(self.name, f"a worker process did not start: {start_error}", "correct the cause")
        if ended.status is not None:
            problem = f"a worker process ended with status {ended.status}"
            return TaskError(self.name, problem, f"see {log}; running again repeats unfinished tasks only")
        left = len(self._missing())
        return RetryableError(
            self.name,
            f"a worker process was killed, {left} of {self.tasks} tasks are not done",
            "run again: finished tasks are kept (out of memory? use fewer workers)",
        )

    def _error(self, failed: TaskEnd, log: Path) -> HeadraceError:
        """Returns the error of a task that has failed."""
        if isinstance(failed.error, HeadraceError):
            return failed.error
        if failed.error is not None and (explanation := explained(failed.error, self.folder)):
            return explanation
        remedy = f"see {log}; running again repeats this task only"
        return TaskError(f"{self.name} task {failed.task}", failed.text, remedy)


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """A stage of a run, with everything that is known before it runs."""

    stage: Stage
    address: str
    folder: Path
    inputs: Mapping[str, Path]
    shards: Mapping[str, int]
    description: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.stage.name

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        return self.stage.phases(self.shards)

    @property
    def is_whole(self) -> bool:
        return is_whole(self.folder)

    def missing(self, phase: AnyPhase) -> list[int]:
        return missing_tasks(self.folder, phase.name, phase.tasks)

    def executor(self, phase: Phase) -> TaskExecutor:
        """Returns the executor for the tasks of ``phase``."""
        return TaskExecutor(self.stage, self.shards, self.inputs, self.folder, phase.name, phase.tasks)

    def run_tasks(self, workers: Workers) -> None:
        """Runs the missing tasks of all phases in ``workers``. The stage is not distributed."""
        with StageProgress(self.name, len(self.phases)) as progress:
            for number, phase in enumerate(self.phases, 1):
                progress.start_phase(number, phase.name, phase.tasks, phase.raw_bytes)
                self.executor(phase).run(workers, progress)

    def finish(self) -> Artifact:
        """Writes the manifest, unless another process has written it. All part records must exist."""
        with claimed_when_free(self.folder / "logs" / "finish.claim", f"{self.name}.finish"):
            if self.is_whole:
                return Artifact(self.folder)
            inputs = {name: Artifact(folder) for name, folder in self.inputs.items()}
            phases = {phase.name: phase.tasks for phase in self.phases}
            artifact = finish(self.folder, self.description, phases, partial(self.stage.balances, inputs=inputs))
        for text in warnings(self.name, artifact):
            print(f"warning: {text}", file=sys.stderr, flush=True)
        return artifact

    def finish_if_complete(self) -> None:
        """Finishes the artifact if no task is missing. In cluster jobs, the last task to end does this."""
        if not self.is_whole and not any(self.missing(phase) for phase in self.phases):
            self.finish()

    def refuse_empty_inputs(self) -> None:
        """Refuses to start on an input without any document, unless the stage accepts that.

        Raises:
            ConfigError: with the rules of the input that dropped the documents, and an example.
        """
        for name, folder in self.inputs.items() if not self.stage.accepts_empty else ():
            if is_empty(name, artifact := Artifact(folder)):
                rule = most_frequent(dropped(artifact.counts))
                of_rule = f" --rule {shlex.quote(rule)} root={shlex.quote(str(folder.parents[1]))}"
                see = f"change the settings, or see what was dropped: headrace inspect {name}{of_rule}"
                see = see if name in STORING else "change selection.rules"
                raise ConfigError(name, loss(name, artifact), see if rule else "give files with records: source.paths")

    def refuse_other_version(self) -> None:
        """Compares the description with the one that this version's code makes, unless the artifact is finished.

        The address of a saved stage hashes its saved description, so only that version's code may compute it.

        Raises:
            ConfigError: naming what differs.
        """
        if self.is_whole:
            return
        ours = self.stage.without_raw_files({name: folder.name for name, folder in self.inputs.items()})
        if names := differing(_decisive(self.description), _decisive(ours)):
            problem = f"was planned by another version of headrace (different: {', '.join(names)})"
            raise ConfigError(self.name, problem, "run the command that planned it again, with its overrides")

    @classmethod
    def of(
        cls,
        stage: Stage,
        root: Path,
        inputs: Mapping[str, Path],
        shards: Mapping[str, int],
        description: Mapping[str, Any] | None = None,
    ) -> "PlannedStage":
        """Returns ``stage`` as planned below ``root``, with the folders and the numbers of shards of its inputs.

        An existing ``description`` is used unchanged, because making one means reading every raw file.
        """
        description = description or stage.description({name: folder.name for name, folder in inputs.items()})
        address = address_of(description)
        folder = root / kind_of(stage.name) / address
        return cls(stage.planned_as(description), address, folder, inputs, shards, description)


def finish_inputs(inputs: Sequence[PlannedStage]) -> None:
    """Finishes ``inputs`` whose last task was killed before that. A job waits until the file system shows them.

    Raises:
        ConfigError: when another version of headrace planned one.
    """
    for stage in inputs:
        stage.refuse_other_version()
    patience_seconds = SETTLING_SECONDS if JOB in os.environ else 0
    deadline = time.monotonic() + patience_seconds
    for stage in inputs:
        stage.finish_if_complete()
        while not stage.is_whole and time.monotonic() < deadline:
            time.sleep(1)
            stage.finish_if_complete()


def _decisive(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the version, the settings and the addresses of the inputs of ``description``, by their names."""
    inputs = {f"inputs.{name}": address for name, address in description["inputs"].items()}
    return {"version": description["version"], **inputs, **description["hashed"]}


def save_stage(stage: PlannedStage, path: Path | None = None) -> Path:
    """Writes what the ranks of a distributed stage read to ``path``, by default to its stage.json. Returns the path."""
    path = path or stage.folder / STAGE_JSON
    values: dict[str, Any] = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    values |= {"stage": stage.name, "settings": dataclasses.asdict(stage.stage), "folder": str(stage.folder)}
    values |= {"inputs": {name: str(folder) for name, folder in stage.inputs.items()}}
    write_sealed(path, {"format": FORMAT, **values})
    return path


def load_stage(file: Path) -> PlannedStage:
    """Returns the planned stage that ``save_stage`` wrote to ``file``.

    Raises:
        ConfigError: when another user wrote it.
    """
    refuse_untrusted(file)
    saved = read_saved(file)
    stage = decode(_class_of(saved["stage"]), saved.pop("settings"), str(file), runs_code=True)
    inputs = {name: Path(folder) for name, folder in saved["inputs"].items()}
    return PlannedStage(**saved | {"stage": stage, "folder": Path(saved["folder"]), "inputs": inputs})


def _class_of(stage: str) -> type[Stage]:
    """Imports the class of the distributed ``stage``, and no other stage."""
    facts = FACTS[stage]
    stage_class: type[Stage] = getattr(importlib.import_module(facts.module), facts.class_name)
    return stage_class


def refuse_untrusted(file: Path) -> None:
    """Refuses a ``file`` with settings that another user wrote: they may name any Python class.

    Raises:
        ConfigError: naming the file.
    """
    if not is_trusted(file):
        raise ConfigError(str(file), "was written by another user", "run the command again, or use a root of your own")
