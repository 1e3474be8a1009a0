"""The score table in Markdown.

    | benchmark | shots | metric | value | 95 % interval | random | items | clean | dirty |

Percent where the metric is an accuracy. The standard error follows the value after ±. ``clean`` and ``dirty`` are the
value on the items that training cannot, or may, have seen, with the number of items.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.train.evaluation.benchmarks.base import without_shots
from headrace.train.evaluation.contamination import PARTS, TOO_SHORT
from headrace.train.evaluation.metrics import SHARES

HEADER = ("benchmark", "shots", "metric", "value", "95 % interval", "random", "items", "clean", "dirty")


def markdown(benchmarks: Sequence[Mapping[str, Any]]) -> str:
    """``scores.json``'s list of benchmarks as a table, then one for their groups, then what did not fit."""
    benchmarks = sorted(benchmarks, key=place)
    lines = _table([(entry, metric) for entry in benchmarks for metric in entry["metrics"] if not metric["group"]])
    lines += [
        f"| {entry['name']} | {entry['shots']} | – | no items | – | – | 0 | – | – |" for entry in _empty(benchmarks)
    ]
    groups = [(entry, metric) for entry in benchmarks for metric in entry["metrics"] if metric["group"]]
    if groups:
        lines += ["", "By group:", "", *_table(groups)]
    notes = [note for entry in benchmarks for note in _notes(entry)]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def place(entry: Mapping[str, Any]) -> tuple[str, int, str]:
    """Where a benchmark stands in a table: by its name, then by its number of shots, 2 before 16."""
    shots = int(entry.get("shots") or 0)
    return without_shots(str(entry["name"]), shots), shots, str(entry["name"])


def _empty(benchmarks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in benchmarks if not entry["items"]]


def _table(rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    lines = [f"| {' | '.join(HEADER)} |", "|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for entry, metric in rows:
        percent = metric["name"].startswith(SHARES)
        value = _number(metric["value"], percent)
        if metric["standard_error"] is not None:
            value += f" ± {_number(metric['standard_error'], percent)}"
        interval = "–"
        if metric["interval"] is not None:
            interval = " – ".join(_number(end, percent) for end in metric["interval"])
        random = "–" if metric["random"] is None else _number(metric["random"], percent)
        name = f"{entry['name']} / {metric['group']}" if metric["group"] else entry["name"]
        parts = [_part(metric[part], percent) for part in PARTS]
        cells = (name, entry["shots"], metric["name"], value, interval, random, f"{metric['items']:,}", *parts)
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return lines


def _part(metric: Mapping[str, Any] | None, percent: bool) -> str:
    return "–" if metric is None else f"{_number(metric['value'], percent)} ({metric['items']:,})"


def _notes(entry: Mapping[str, Any]) -> list[str]:
    notes = []
    if entry["truncated_contexts"]:
        lost = f"{entry['truncated_contexts']:,} of {entry['queries']:,} contexts did not fit the window"
        notes.append(f"{entry['name']}: {lost} and lost {entry['truncated_tokens']:,} tokens on the left.")
    if entry["split_continuations"]:
        notes.append(f"{entry['name']}: {entry['split_continuations']:,} continuations were longer than the window.")
    overlap = entry["overlap"]
    if overlap and overlap[TOO_SHORT]:
        notes.append(f"{entry['name']}: {overlap[TOO_SHORT]:,} items have too few words to tell clean from dirty.")
    return notes


def _number(value: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:.2f} %"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.3g}"
