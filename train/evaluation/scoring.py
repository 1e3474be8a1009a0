"""Scores benchmarks and tasks with a model, keeps every answer, and writes the tables.

Benchmark ── items ──> queries ── answers_to ──> answers ── outcome, metrics ──> BenchmarkScores

Text, Tokens ── prompt.encode ── likelihood ──> Answer
NetworkQuery ─────────────────── network ─────> its answer
Generate ─────────────────────── generator ───> Written

all ranks answer together ──> rank 0 writes scores.json, scores.md, samples/*.jsonl, lm_eval/*

round of queries done ── beat ──> watchdog
                      └─ rank 0 ──> a line of the log, logs/progress.jsonl
"""

import contextlib
import dataclasses
import importlib
import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from headrace.data_prep.tokenization.page_tokenizer import library_errors
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.json_files import json_text, write_json
from headrace.pipeline.core.progress import LATEST, TRAIL, Progress
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.distributed.watchdog import SCORING, Watchdog
from headrace.train.evaluation import harness_files
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources
from headrace.train.evaluation.contamination import BenchmarkOverlap, metrics_by_part, parts_of, sizes
from headrace.train.evaluation.held_out_documents import HeldOut
from headrace.train.evaluation.prompt import PromptForm, encode
from headrace.train.evaluation.score_rows import DIGITS, BenchmarkScores, Metric, markdown
from headrace.train.evaluation.settings import Evaluation
from headrace.train.evaluation.suites import Member, suite_scores
from headrace.train.inference.generator import generator_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import (
    Answer,
    AnyAnswer,
    Generate,
    NetworkQuery,
    Query,
    Tally,
    Text,
    TextEncoder,
    TokenQuery,
    Written,
)
from headrace.train.inference.settings import Sampling
from headrace.train.inference.sharing import AnswerLog, Sharing
from headrace.train.inference.transformers_model import FolderTokenizer


@dataclasses.dataclass(frozen=True)
class Scored:
    """One benchmark with all its answers."""

    scores: BenchmarkScores
    items: Sequence[Item]
    answers: Sequence[Sequence[AnyAnswer]]
    outcomes: Sequence[Outcome]
    parts: Sequence[str | None]
    """``clean``, ``dirty`` or ``too_short`` for each item; None for a benchmark that was not searched for."""

    def samples(self) -> list[dict[str, Any]]:
        """Returns a line of samples/<name>.jsonl for each item."""
        rows = zip(self.items, self.answers, self.outcomes, self.parts, strict=True)
        return [_sample(*row) for row in rows]


def score_all(
    evaluation: Evaluation,
    held_out: HeldOut | None,
    overlaps: Mapping[str, BenchmarkOverlap],
    model: InferenceModel,
    expect: Callable[[int], None] = lambda queries: None,
) -> Iterator[Scored]:
    """Scores every benchmark, in the order of their names; first calls ``expect`` with the number of all queries.

    Raises:
        ConfigError: when a benchmark needs a larger window than the model has, or another stack.
    """
    evaluation.check_window(model.window_tokens)
    evaluation.check_stack(model.stack)
    form, model = with_form(evaluation, model)
    items_of = {
        name: benchmark.items(sources_of(name, evaluation, held_out, model, form))
        for name, benchmark in sorted(evaluation.benchmarks.items())
    }
    expect(sum(len(item.queries) for items in items_of.values() for item in items))
    for name, items in items_of.items():
        yield score_items(name, evaluation.benchmarks[name], items, overlaps.get(name), model)


def with_form(evaluation: Evaluation, model: InferenceModel) -> tuple[PromptForm, InferenceModel]:
    """Returns the form of prompts, and ``model`` as it reads them: special tokens of a chat template are tokens.

    It writes as in lm-evaluation-harness: the text of the token that ends a text ends an answer, too, and ids beyond
    those of the tokenizer may be written, and are no text.

    Raises:
        ConfigError: when the template of the model is asked for, and it has none.
    """
    chat, tokenizer = evaluation.chat, model.tokenizer
    stops = () if tokenizer.end is None else (tokenizer.decode([tokenizer.end]),)
    model = dataclasses.replace(model, tokens=None, stops=stops)
    if isinstance(tokenizer, FolderTokenizer):
        return chat.form(tokenizer.template, tokenizer.special), model
    form = chat.form(None, {"eos_token": str(tokenizer.backend.id_to_token(tokenizer.end_of_text))})
    return form, model if form.template is None else dataclasses.replace(model, tokenizer=TemplateTokenizer(tokenizer))


class TemplateTokenizer:
    """The tokenizer of ``encoder``, which reads special tokens in a text, as a chat template writes them."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self.end_of_text, self.end = encoder.end_of_text, encoder.end
        self.backend: Tokenizer = Tokenizer.from_str(encoder.backend.to_str())
        self.backend.encode_special_tokens = False

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text; none is added."""
        with library_errors("tokenizer.json"):
            encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int64) for encoding in encodings]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Returns the text of ``ids``; see ``TextEncoder``."""
        return self._encoder.decode(ids, skip_special_tokens)


def sources_of(
    name: str, evaluation: Evaluation, held_out: HeldOut | None, model: InferenceModel, form: PromptForm
) -> Sources:
    """Returns the sources of the items of the benchmark ``name``."""
    return Sources(
        data=Path(evaluation.data),
        held_out=held_out,
        seed=f"{evaluation.seed}:{name}",
        vocabulary=model.vocabulary,
        start=model.tokenizer.end_of_text,
        tokenizer=model.tokenizer,
        window_tokens=model.window_tokens,
        most_window_tokens=model.most_window_tokens,
        opening=model.opening,
        form=form,
    )


def score(
    name: str, benchmark: Benchmark, sources: Sources, overlap: BenchmarkOverlap | None, model: InferenceModel
) -> Scored:
    """Scores all items of ``benchmark``."""
    return score_items(name, benchmark, benchmark.items(sources), overlap, model)


def score_items(
    name: str, benchmark: Benchmark, items: Sequence[Item], overlap: BenchmarkOverlap | None, model: InferenceModel
) -> Scored:
    """Scores ``items`` of ``benchmark``."""
    answers, tally = answers_of(items, model)
    items = [_with_texts(item, of_item) for item, of_item in zip(items, answers, strict=True)]
    outcomes = [benchmark.outcome(item, of_item) for item, of_item in zip(items, answers, strict=True)]
    parts = parts_of(items, overlap)
    metrics = tuple(metrics_by_part(benchmark, items, outcomes, parts, model.vocabulary))
    scores = BenchmarkScores(
        name=name,
        type=benchmark.type,
        shots=benchmark.shots_of(items),
        items=len(items),
        tally=tally,
        overlap=sizes(parts) if overlap else None,
        metrics=metrics,
        notes=(*benchmark.notes(model.most_window_tokens), *interval_notes(metrics)),
    )
    return Scored(scores, items, answers, outcomes, parts)


def answers_of(items: Sequence[Item], model: InferenceModel) -> tuple[list[list[AnyAnswer]], Tally]:
    """Returns for each item the answers to its queries; see ``answers_to``."""
    answers, tally = answers_to([query for item in items for query in item.queries], model)
    left = iter(answers)
    return [list(itertools.islice(left, len(item.queries))) for item in items], tally


def interval_notes(metrics: Sequence[Metric]) -> Iterator[str]:
    """Yields why metrics of the whole benchmark have no interval: their spread is unknown with one item in a part."""
    single = [(metric.name, metric.group) for metric in metrics if metric.group and metric.items == 1]
    for metric in metrics:
        groups = [group for name, group in single if name == metric.name]
        if metric.interval is None and not metric.group and (metric.items == 1 or groups):
            yield f"{metric.name} has no interval: one item{' in ' if groups else ''}{', '.join(groups)}."


def answers_to(queries: Sequence[Query], model: InferenceModel) -> tuple[list[AnyAnswer], Tally]:
    """Returns one answer per query, in their order; the tally counts the queries that read or write text."""
    read = {number: query for number, query in enumerate(queries) if isinstance(query, (Text, TokenQuery))}
    asked = {number: query for number, query in enumerate(queries) if isinstance(query, Generate)}
    tokens = encode([*read.values()], model.tokenizer, model.opening)
    answers: dict[int, AnyAnswer] = dict(zip(read, model.likelihood.answers(tokens), strict=True))
    written, tally_of_written = texts_written([*asked.values()], model)
    answers |= zip(asked, written, strict=True)
    for number, query in enumerate(queries):
        if isinstance(query, NetworkQuery):
            answers[number] = query.answered(model)
            if model.sharing:
                model.sharing.answered(1)
    return [answers[number] for number in range(len(queries))], model.likelihood.tally(tokens) + tally_of_written


def texts_written(queries: Sequence[Generate], model: InferenceModel) -> tuple[list[Written], Tally]:
    """Returns the text after each query.

    A model whose window is not longer than ``max_tokens`` writes half a window at most.
    """
    if not queries:
        return [], Tally()
    generator, window, tally = generator_of(model), model.window_tokens, Tally()
    numbers: dict[Sampling, list[int]] = defaultdict(list)
    for number, query in enumerate(queries):
        numbers[query.sampling].append(number)
    written: dict[int, Written] = {}
    for sampling, alike in numbers.items():
        prompts = [queries[number].context for number in alike]
        max_tokens = sampling.most_tokens if sampling.most_tokens < window else window // 2
        texts = generator.generate(prompts, dataclasses.replace(sampling, max_tokens=max_tokens))
        for number, text in zip(alike, texts, strict=True):
            written[number] = Written(text.text, len(text.tokens))
            tally += Tally(1, len(text.tokens), int(text.lost_tokens > 0), text.lost_tokens)
    return [written[number] for number in range(len(queries))], tally


def _with_texts(item: Item, answers_of_item: Sequence[AnyAnswer]) -> Item:
    """Returns ``item`` with the texts that were written for it."""
    texts = tuple(answer.text for answer in answers_of_item if isinstance(answer, Written))
    return dataclasses.replace(item, written=texts) if texts else item


def _sample(item: Item, answers_of_item: Sequence[AnyAnswer], outcome: Outcome, part: str | None) -> dict[str, Any]:
    answers = [answer for answer in answers_of_item if isinstance(answer, Answer)]
    prompts = [query.context for query in item.queries if isinstance(query, (Text, Generate))]
    return {
        "name": item.name,
        "group": item.group,
        "overlap": part,
        "prompts": prompts[:1] if len(set(prompts)) == 1 else prompts,
        "continuations": [query.continuation for query in item.queries if isinstance(query, Text)],
        "log_likelihoods": [round(answer.log_likelihood, DIGITS) for answer in answers],
        "greedy": [answer.greedy for answer in answers],
        "tokens": [answer.tokens for answer in answers],
        "written": list(item.written),
        "right_answers": list(item.choices) if item.written else [],
        "gold": item.gold,
        "outcome": {metric: round(value, DIGITS) for metric, value in outcome.items()},
    }


FORMAT = 1
HARNESS = "headrace.train.evaluation.harness"
"""Is imported only for ``evaluation.tasks``: lm-evaluation-harness is an optional extra."""
NO_SYSTEM = (
    "the chat template has no message of the system: evaluation.chat.system and descriptions of benchmarks are left out"
)
LoggedRows = Sequence[Mapping[str, Any]]


class ScoringProgress(contextlib.ExitStack):
    """The progress of one scoring: shown, written for the launcher, and watched for ranks that hang."""

    def __init__(self, folder: Path, ranks: Ranks, hang_seconds: float) -> None:
        """A round lasts at most ``hang_seconds``."""
        super().__init__()
        self._folder, self._ranks = folder, ranks
        self._watchdog = self.enter_context(Watchdog(hang_seconds, hang_seconds, ranks.rank, folder, SCORING))
        self._rounds = 0
        self._progress: Progress | None = None

    def expect(self, queries: int) -> None:
        """Sets the number of queries to answer."""
        if self._ranks.first:
            trail = self._folder / TRAIL
            make(trail.parent)
            progress = Progress("scores", queries, "queries", trail, self._folder / LATEST)
            self._progress = self.enter_context(progress)

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
                _write_lines(f"samples/{name}.jsonl", rows, out)
                samples[name] = rows
                configs |= _write_logs(harness_files.by_task(name, rows), out)
        if evaluation.task_names:
            harness = importlib.import_module(HARNESS)
            task_scores = harness.score_tasks(evaluation, model.shared(Sharing(ranks, progress.beat, log, stop)))
            scores += task_scores.scores
            for task, rows in task_scores.samples.items() if ranks.first else ():
                _write_lines(f"samples/{task}.jsonl", rows, out)
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
        _write_lines(f"samples/{name}.jsonl", rows, out)
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
    with out.file(harness_files.RESULTS) as path:
        write_json(path, harness_files.results(scores, evaluation.precision, configs))


def _write_logs(tasks: Iterable[tuple[str, LoggedRows]], out: TaskOutput) -> dict[str, Mapping[str, Any]]:
    """Writes each task's samples as the harness logs them; returns the settings of the tasks that its tools need."""
    configs: dict[str, Mapping[str, Any]] = {}
    for task, lines in tasks:
        _write_lines(harness_files.file_of(task), lines, out)
        configs[task] = harness_files.config(lines[0])
    return configs


def _write_lines(name: str, rows: LoggedRows, out: TaskOutput) -> None:
    with out.file(name) as path, path.open("w", encoding="utf-8") as stream:
        for row in rows:
            stream.write(json_text(row, path) + "\n")
