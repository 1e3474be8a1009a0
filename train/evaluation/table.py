"""The score table in Markdown.

    | benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |

Shares of right answers are in percent. The standard error follows the value after ±. ``clean`` and ``dirty`` are the
value on the items that training cannot, or may, have seen, with the number of items.
"""

from collections.abc import Iterator, Sequence

from headrace.train.evaluation.contamination import TOO_SHORT
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric

HEADER = ("benchmark", "shots", "metric", "value", "95 % interval", "random", "items", "clean", "dirty")


def markdown(benchmarks: Sequence[BenchmarkScores]) -> str:
    """Returns a table of ``benchmarks``, then a table of their groups, then notes on truncation and overlaps."""
    benchmarks = sorted(benchmarks, key=lambda scores: scores.order)
    lines = _table([(scores, metric) for scores in benchmarks for metric in scores.whole])
    lines += [
        f"| {benchmark.name} | {benchmark.shots} | – | no items | – | – | 0 | – | – |"
        for benchmark in benchmarks
        if not benchmark.items
    ]
    groups = [(scores, metric) for scores in benchmarks for metric in scores.metrics if metric.group]
    if groups:
        lines += ["", "By group:", "", *_table(groups)]
    notes = [note for scores in benchmarks for note in _notes(scores)]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[tuple[BenchmarkScores, Metric]]) -> list[str]:
    lines = [f"| {' | '.join(HEADER)} |", "|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for scores, metric in rows:
        name = f"{scores.name} / {metric.group}" if metric.group else scores.name
        lines.append(f"| {' | '.join((name, str(scores.shots), *_cells(metric)))} |")
    return lines


def _cells(metric: Metric) -> Iterator[str]:
    """Yields the cells from the metric's name on."""
    yield metric.name
    error = "" if metric.standard_error is None else f" ± {_text(metric, metric.standard_error)}"
    yield _text(metric, metric.value) + error
    yield "–" if metric.interval is None else " – ".join(_text(metric, end) for end in metric.interval)
    yield "–" if metric.random is None else _text(metric, metric.random)
    yield f"{metric.items:,}"
    for part in (metric.clean, metric.dirty):
        yield "–" if part is None else f"{_text(metric, part.value)} ({part.items:,})"


def _text(metric: Metric, value: float) -> str:
    """Returns ``value`` in the unit of ``metric``."""
    kind = metric.kind
    if kind.unit:
        return f"{kind.scale * value:.2f}{kind.unit}"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.3g}"


def _notes(scores: BenchmarkScores) -> Iterator[str]:
    tally = scores.tally
    yield from (f"{scores.name}: {note}" for note in scores.notes)
    yield from (f"{scores.name}: {metric.name} {metric.signature}" for metric in scores.whole if metric.signature)
    if tally.truncated_contexts:
        lost = f"{tally.truncated_contexts:,} of {tally.queries:,} contexts did not fit the window"
        yield f"{scores.name}: {lost} and lost {tally.truncated_tokens:,} tokens on the left."
    if tally.split_continuations:
        yield f"{scores.name}: {tally.split_continuations:,} continuations were longer than the window."
    if scores.overlap and scores.overlap[TOO_SHORT]:
        yield f"{scores.name}: {scores.overlap[TOO_SHORT]:,} items have too few words to be called clean or dirty."
