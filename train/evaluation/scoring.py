"""From a benchmark and a model to an entry of the score table, with every answer that led to it.

Benchmark ── items ──> queries ── prompt.encode ──> tokens ── scorer ──> answers ── outcome, metrics ──> entry
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core import strict_json
from headrace.pipeline.core.artifact import TaskOutput, write_json
from headrace.train.evaluation.answering import answered
from headrace.train.evaluation.benchmarks.base import FewShotBenchmark, Sources
from headrace.train.evaluation.contamination import Overlap, metrics_by_part, parts_of, sizes
from headrace.train.evaluation.held_out import HeldOut
from headrace.train.evaluation.lm_eval import file_format
from headrace.train.evaluation.lm_eval import samples as logged_samples
from headrace.train.evaluation.settings import AnyBenchmark, Evaluation
from headrace.train.evaluation.table import markdown
from headrace.train.inference.item import Answer, AnyAnswer, Generate, Item, Outcome, Text, Written
from headrace.train.inference.subject import Subject

FORMAT = 1
COUNTED = ("items", "queries", "tokens", "truncated_contexts")
DIGITS = 6
"""Decimals of log-likelihoods and outcomes in the samples: beyond what fp32 resolves in a sum of tens."""


@dataclasses.dataclass(frozen=True)
class Scored:
    """One benchmark with all its answers."""

    entry: dict[str, Any]
    """What scores.json says of it."""
    items: Sequence[Item]
    answers: Sequence[Sequence[AnyAnswer]]
    outcomes: Sequence[Outcome]
    parts: Sequence[str | None]
    """Whether each item is clean, dirty or too short to tell; None where the benchmark was not searched for."""


def score_all(
    evaluation: Evaluation,
    held_out: HeldOut | None,
    overlaps: Mapping[str, Overlap],
    subject: Subject,
    expect: Callable[[int], None] = lambda queries: None,
) -> Iterator[Scored]:
    """Every benchmark scored, in the order of their names; ``expect`` is told before how many queries they ask in all.

    Raises:
        ConfigError: when a benchmark needs a larger window than the model has.
    """
    evaluation.check_window(subject.scorer.window_tokens)
    asked = {
        name: benchmark.items(sources_of(name, evaluation, held_out, subject))
        for name, benchmark in sorted(evaluation.benchmarks.items())
    }
    expect(sum(len(item.queries) for items in asked.values() for item in items))
    for name, items in asked.items():
        yield score_items(name, evaluation.benchmarks[name], items, overlaps.get(name), subject)


def sources_of(name: str, evaluation: Evaluation, held_out: HeldOut | None, subject: Subject) -> Sources:
    """Where the items of the benchmark ``name`` come from."""
    return Sources(
        data=Path(evaluation.data),
        held_out=held_out,
        seed=f"{evaluation.seed}:{name}",
        vocabulary=subject.vocabulary,
        start=subject.tokenizer.end_of_text,
        tokenizer=subject.tokenizer,
        window_tokens=subject.scorer.window_tokens,
    )


def write_tables(
    entries: Sequence[Mapping[str, Any]],
    configs: Mapping[str, Mapping[str, Any]],
    evaluation: Evaluation,
    subject: Subject,
    out: TaskOutput,
) -> "Counter[str]":
    """scores.json, scores.md, the harness's results; counts benchmarks, items, queries and tokens."""
    report = {"format": FORMAT, "window_tokens": subject.scorer.window_tokens, "vocabulary": subject.vocabulary}
    with out.file("scores.json") as path:
        write_json(path, {**report, "precision": evaluation.precision, "benchmarks": entries})
    with out.file("scores.md") as path:
        path.write_text(markdown(entries), encoding="utf-8")
    with out.file(logged_samples.RESULTS) as path:
        write_json(path, file_format.results(entries, evaluation.precision, configs))
    return Counter(benchmarks=len(entries), **{unit: sum(e[unit] for e in entries) for unit in COUNTED})


def score(name: str, benchmark: AnyBenchmark, sources: Sources, overlap: Overlap | None, subject: Subject) -> Scored:
    """Ask the model every item of ``benchmark`` and sum up."""
    return score_items(name, benchmark, benchmark.items(sources), overlap, subject)


def score_items(
    name: str, benchmark: AnyBenchmark, items: Sequence[Item], overlap: Overlap | None, subject: Subject
) -> Scored:
    """Ask the model ``items`` of ``benchmark`` and sum up."""
    flat, tally = answered([query for item in items for query in item.queries], subject)
    remaining = iter(flat)
    answers = [[next(remaining) for _ in item.queries] for item in items]
    outcomes = [benchmark.outcome(item, found) for item, found in zip(items, answers, strict=True)]
    parts = parts_of(items, overlap)
    entry = {
        "name": name,
        "type": benchmark.type,
        "shots": benchmark.shots if isinstance(benchmark, FewShotBenchmark) else 0,
        "items": len(items),
        **dataclasses.asdict(tally),
        "overlap": sizes(parts) if overlap else None,
        "metrics": metrics_by_part(benchmark, items, outcomes, parts, subject.vocabulary),
    }
    return Scored(entry, items, answers, outcomes, parts)


def write_samples(name: str, rows: Sequence[Mapping[str, Any]], out: TaskOutput) -> None:
    """``samples/<name>.jsonl``: one line per item."""
    _write_lines(f"samples/{name}.jsonl", rows, out)


def write_logs(
    tasks: Iterable[tuple[str, Sequence[Mapping[str, Any]]]], out: TaskOutput
) -> dict[str, Mapping[str, Any]]:
    """The lines of each task as the harness logs them; what its tools must know of the task to read them."""
    configs = {}
    for task, lines in tasks:
        _write_lines(logged_samples.file_of(task), lines, out)
        configs[task] = logged_samples.config(lines[0])
    return configs


def _write_lines(name: str, rows: Sequence[Mapping[str, Any]], out: TaskOutput) -> None:
    with out.file(name) as path, path.open("w", encoding="utf-8") as stream:
        for row in rows:
            stream.write(strict_json.dumps(row, path) + "\n")


def samples(scored: Scored) -> list[dict[str, Any]]:
    """A line for each item."""
    rows = zip(scored.items, scored.answers, scored.outcomes, scored.parts, strict=True)
    return [_sample(*row) for row in rows]


def _sample(item: Item, found: Sequence[AnyAnswer], outcome: Outcome, part: str | None) -> dict[str, Any]:
    answers = [answer for answer in found if isinstance(answer, Answer)]
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
        "written": [answer.text for answer in found if isinstance(answer, Written)],
        "right_answers": list(item.choices) if any(isinstance(answer, Written) for answer in found) else [],
        "gold": item.gold,
        "outcome": {metric: round(value, DIGITS) for metric, value in outcome.items()},
    }
