"""The tables, figures and page of a report as wandb shows them.

sections ──> funnel, rules, samples, costs, scores, questions     tables of bounded length
         └─> figures/loss, figures/funnel, …               plotly's JSON in the colours of a light screen
report.html ──> page                                       unless it is large

wandb uploads them, so texts of documents and questions leave the machine; ``tracking.report=false`` keeps them.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.data_prep.clean import Cleaning
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.documents.samples import Sample, SamplePair
from headrace.pipeline.report.about import About
from headrace.pipeline.report.accounts import Account
from headrace.pipeline.report.cleaning_section import StageDrops
from headrace.pipeline.report.drawing import Figure
from headrace.pipeline.report.funnel import COLUMNS
from headrace.pipeline.report.html_page import FOLDER
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.report.sections import sections
from headrace.pipeline.tracking.wandb_run import Media, WandbTable

MAX_RULES = 500
MAX_SAMPLES = 300
MAX_SCORES = 2_000
QUESTIONS_PER_BENCHMARK = 10
MAX_QUESTIONS = 200
PAGE_BYTES = 20_000_000
"""The size of the largest page that is uploaded. plotly.js takes 1.9 MB of each page."""

Sections = Mapping[str, Any]
WandbRow = Sequence[str | float | None]


def media(report: Artifact, inputs: Inputs, cleaning: Cleaning, about: About) -> Media:
    """Returns what wandb shows of ``report``, which was made from ``inputs`` with the filters ``cleaning``."""
    content = sections(inputs, cleaning, about)
    colours = light_colours((FOLDER / "style.css").read_text(encoding="utf-8"))
    figures = {f"figures/{figure.id}": resolved(figure.json, colours) for figure in figures_in(content)}
    page = report.path("report.html")
    return Media(tables(content), figures, page if page.stat().st_size <= PAGE_BYTES else None)


def tables(content: Sections) -> dict[str, WandbTable]:
    """Returns the tables of the report that have rows."""
    funnel = content["funnel"]["steps"] if content["funnel"] else []
    by_name = {
        "funnel": WandbTable(
            ("step", *(column.name for column in COLUMNS)),
            [(step.name, *(column.value(step) for column in COLUMNS)) for step in funnel],
        ),
        "rules": WandbTable(
            ("stage", "effect", "rule", "count", "share", "meaning"), [*itertools.islice(_rules(content), MAX_RULES)]
        ),
        "samples": WandbTable(
            ("stage", "rule", "document", "id", "url", "value", "text"), _samples(content["dropping"])
        ),
        "costs": WandbTable(
            ("stage", "core_hours", "gpu_hours", "written_bytes", "attempts", "without_end"),
            list(_costs(content["about"].account)),
        ),
    }
    if content["scores"]:
        by_name |= {"scores": score_rows(content["scores"]), "questions": _questions(content["scores"])}
    return {name: table for name, table in by_name.items() if table.rows}


def figures_in(value: Any) -> Iterator[Figure]:
    """Yields all figures in nested content."""
    if isinstance(value, Figure):
        yield value
    elif isinstance(value, ScoreTable):
        yield from figures_in(value.figure)
    elif isinstance(value, Mapping):
        yield from figures_in(list(value.values()))
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(figures_in, value))


def light_colours(style: str) -> dict[str, str]:
    """Returns the variables of the first ``:root`` block of a style sheet, without references to each other."""
    block = style[style.index(":root") : style.index("}")]
    values = {name: value.strip().replace('"', "'") for name, value in re.findall(r"(--[\w-]+):([^;]+);", block)}
    return {name: resolved(value, values) for name, value in values.items()}


def resolved(text: str, values: Mapping[str, str]) -> str:
    """Returns ``text`` with each ``var(--name)`` replaced by its value."""
    return re.sub(r"var\((--[\w-]+)\)", lambda reference: values[reference[1]], text)


def _costs(account: Account) -> Iterator[WandbRow]:
    """Yields what the run has spent on each stage, then on all; nothing without an attempt of the run."""
    for spent in (*account.stages, account.total) if account.total.attempts else ():
        hours = spent.core_hours, spent.gpu_hours
        yield spent.stage, *hours, spent.written_bytes, spent.attempts, spent.without_end


def _rules(content: Sections) -> Iterator[WandbRow]:
    """Yields the number of documents that each rule dropped, then of the parts of documents that it removed."""
    dropping: Mapping[str, StageDrops] = content["dropping"]
    effects = [(stage, "drops documents", drops.rules) for stage, drops in dropping.items()]
    for stage, drops in dropping.items():
        effects += [(stage, f"removes {unit}", rules) for unit, rules in drops.removed.items()]
    for stage, effect, rules in effects:
        for row in rules:
            yield stage, effect, row.name, row.count, row.share, content["explained"](row.name).sentence


def _samples(dropping: Mapping[str, StageDrops]) -> list[WandbRow]:
    """Returns sample documents of each rule: first one pair of each, then a second one, up to ``MAX_SAMPLES`` rows."""
    pairs: list[tuple[int, str, str, SamplePair]] = [
        (number, stage, rule, pair)
        for stage, drops in dropping.items()
        for rule, sample_pairs in drops.samples.items()
        for number, pair in enumerate(sample_pairs)
    ]
    chosen = sorted(pairs, key=lambda pair: pair[0])[: MAX_SAMPLES // 2]
    chosen.sort(key=lambda pair: (list(dropping).index(pair[1]), pair[2], pair[0]))
    return [
        (stage, rule, name, sample.id, sample.url, sample.value, _text(sample))
        for _, stage, rule, pair in chosen
        for name, sample in (("dropped", pair.dropped), ("kept", pair.kept))
        if sample is not None
    ]


def _text(sample: Sample) -> str:
    """Returns the lines of ``sample``; removed ones begin with the name of their rule."""
    return "\n".join(
        f"[… {line:,} more]" if isinstance(line, int) else f"[{line.rule}] {line.text}" if line.rule else line.text
        for line in sample.lines
    )


def score_rows(table: ScoreTable) -> WandbTable:
    """Returns one row for each metric, of all items first, then of groups of items."""
    columns = ("benchmark", "shots", "group", "metric", "value", "standard_error", "low", "high", "random", "items")
    rows = []
    for row in (*table.rows, *table.groups):
        metric = row.metric
        low, high = metric.interval or (None, None)
        numbers = (metric.value, metric.standard_error, low, high, metric.random, metric.items)
        rows.append((row.benchmark.base_name, row.benchmark.shots, metric.group, metric.name, *numbers))
    return WandbTable(columns, rows[:MAX_SCORES])


def _questions(table: ScoreTable) -> WandbTable:
    """Returns the first questions of each benchmark, with the model's choice and the right one."""
    columns = ("benchmark", "item", "verdict", "overlap", "prompt", "chosen", "right")
    shown: Counter[str] = Counter()
    rows: list[WandbRow] = []
    for question in table.questions:
        shown[question.benchmark] += 1
        if shown[question.benchmark] <= QUESTIONS_PER_BENCHMARK:
            facts = (question.benchmark, question.name, question.verdict, question.overlap, question.prompt)
            chosen, right = (
                "\n".join(choice.text for choice in question.choices if getattr(choice, kind))
                for kind in ("chosen", "right")
            )
            rows.append((*facts, chosen, right))
    return WandbTable(columns, rows[:MAX_QUESTIONS])
