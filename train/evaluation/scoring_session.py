"""One scoring from its start to its tables: progress, the log of answers, benchmarks, tasks of the harness, files.

all ranks answer together ──> rank 0 writes scores.json, scores.md, samples/*.jsonl, lm_eval/*

round of queries done ── beat ──> watchdog
                      └─ rank 0 ──> a line of the log, logs/progress.jsonl
"""

import contextlib
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.json_files import json_text, write_json
from headrace.pipeline.core.progress import LATEST, TRAIL, Progress
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.distributed.watchdog import SCORING, Watchdog
from headrace.train.evaluation.contamination import BenchmarkOverlap
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.lm_eval import file_format
from headrace.train.evaluation.score_rows import BenchmarkScores, markdown
from headrace.train.evaluation.scoring import score_all, with_form
from headrace.train.evaluation.settings import Evaluation
from headrace.train.evaluation.suites import Member, suite_scores
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.sharing import AnswerLog, Sharing

FORMAT = 1
HARNESS = "headrace.train.evaluation.lm_eval.harness"
"""Is imported only for ``evaluation.tasks``: lm-evaluation-harness is an optional extra."""
NO_SYSTEM = (
    "the chat template has no message of the system: evaluation.chat.system and descriptions of benchmarks are left out"
)
LoggedRows = Sequence[Mapping[str, Any]]


class ScoringProgress:
    """The progress of one scoring: shown, written for the launcher, and watched for ranks that hang."""

    def __init__(self, folder: Path, ranks: Ranks, hang_seconds: float) -> None:
        """A round lasts at most ``hang_seconds``."""
        self._folder, self._ranks = folder, ranks
        self._watchdog = Watchdog(hang_seconds, hang_seconds, ranks.rank, folder, SCORING)
        self._rounds = 0
        self._progress: Progress | None = None
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> "ScoringProgress":
        self._opened.enter_context(self._watchdog)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def expect(self, queries: int) -> None:
        """Sets the number of queries to answer."""
        if self._ranks.first:
            trail = self._folder / TRAIL
            make(trail.parent)
            progress = Progress("scores", queries, "queries", trail, self._folder / LATEST)
            self._progress = self._opened.enter_context(progress)

    def answered(self, queries: int) -> None:
        """Counts a finished round of expected ``queries``."""
        self.beat(queries)
        if self._progress:
            self._progress.advance(queries)

    def beat(self, queries: int) -> None:
        """Counts a finished round."""
        self._rounds += 1
        self._watchdog.beat(self._rounds)


def run(
    evaluation: Evaluation,
    held_out: HeldOut | None,
    overlaps: Mapping[str, BenchmarkOverlap],
    open_model: Callable[[Ranks], InferenceModel],
    out: TaskOutput,
) -> "Counter[str]":
    """Scores our benchmarks, then tasks of lm-evaluation-harness, and writes the tables of both.

    All ranks answer together; rank 0 writes. Returns counts of benchmarks, items, queries and tokens.
    """
    ranks = processes.start(evaluation.device, "evaluation.device")
    scores: list[BenchmarkScores] = []
    configs: dict[str, Mapping[str, Any]] = {}
    samples: dict[str, LoggedRows] = {}
    progress = ScoringProgress(out.folder, ranks, evaluation.hang_seconds)
    with progress, processes.StopRequest() as stop:
        model, log = open_model(ranks), AnswerLog.resumed(out.own_scratch("answers"), ranks)
        form, _ = with_form(evaluation, model)
        if ranks.first and not form.has_system:
            print(NO_SYSTEM, file=sys.stderr)
        shared = model.shared(Sharing(ranks, progress.answered, log, stop))
        for scored in score_all(evaluation, held_out, overlaps, shared, progress.expect):
            scores.append(scored.scores)
            if ranks.first:
                name, rows = scored.scores.name, scored.samples()
                _write_samples(name, rows, out)
                samples[name] = rows
                configs |= _write_logs(file_format.by_task(name, rows), out)
        if evaluation.task_names:
            harness = importlib.import_module(HARNESS)
            task_scores = harness.score_tasks(evaluation, model.shared(Sharing(ranks, progress.beat, log, stop)))
            scores += task_scores.scores
            for task, rows in task_scores.samples.items() if ranks.first else ():
                _write_samples(task, rows, out)
                samples[task] = rows
            if ranks.first:
                configs |= _write_logs(task_scores.logs.items(), out)
                for row in task_scores.scores:
                    print(*(f"{row.name}: {note}\n" for note in row.notes), sep="", end="", file=sys.stderr)
    if not ranks.first:
        return Counter()
    suites: list[BenchmarkScores] = []
    for name, members in evaluation.suites.items():
        members_of_suite = [Member(row, samples.get(row.name, ())) for row in scores if row.name in members]
        suite, rows = suite_scores(name, members_of_suite)
        suites.append(suite)
        _write_samples(name, rows, out)
    _write_tables([*scores, *suites], configs, evaluation, model, out)
    return Counter(
        benchmarks=len(scores),
        items=sum(benchmark.items for benchmark in scores),
        queries=sum(benchmark.tally.queries for benchmark in scores),
        tokens=sum(benchmark.tally.tokens for benchmark in scores),
        truncated_contexts=sum(benchmark.tally.truncated_contexts for benchmark in scores),
    )


def _write_tables(
    scores: Sequence[BenchmarkScores],
    configs: Mapping[str, Mapping[str, Any]],
    evaluation: Evaluation,
    model: InferenceModel,
    out: TaskOutput,
) -> None:
    """Writes scores.json, scores.md, and the results in lm-evaluation-harness's format."""
    head = {"format": FORMAT, "window_tokens": model.window_tokens, "vocabulary": model.vocabulary}
    with out.file("scores.json") as path:
        rows = [benchmark.row() for benchmark in scores]
        write_json(path, {**head, "precision": evaluation.precision, "benchmarks": rows})
    with out.file("scores.md") as path:
        path.write_text(markdown(scores), encoding="utf-8")
    with out.file(file_format.RESULTS) as path:
        write_json(path, file_format.results(scores, evaluation.precision, configs))


def _write_samples(name: str, rows: LoggedRows, out: TaskOutput) -> None:
    """Writes ``samples/<name>.jsonl``: one line per item."""
    _write_lines(f"samples/{name}.jsonl", rows, out)


def _write_logs(tasks: Iterable[tuple[str, LoggedRows]], out: TaskOutput) -> dict[str, Mapping[str, Any]]:
    """Writes each task's samples as the harness logs them; returns the settings of the tasks that its tools need."""
    configs: dict[str, Mapping[str, Any]] = {}
    for task, lines in tasks:
        _write_lines(file_format.file_of(task), lines, out)
        configs[task] = file_format.config(lines[0])
    return configs


def _write_lines(name: str, rows: LoggedRows, out: TaskOutput) -> None:
    with out.file(name) as path, path.open("w", encoding="utf-8") as stream:
        for row in rows:
            stream.write(json_text(row, path) + "\n")
