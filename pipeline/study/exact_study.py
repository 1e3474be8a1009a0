"""Shows the exact study: numbers of others and our own, as a table, a page and JSON."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.output.facts import show_lines
from headrace.pipeline.study.exact import exact_rows
from headrace.pipeline.study.exact_row import ExactRow, NumberOrigin

TITLE = "What is computed, not trained"
HEAD = ["topic", "what", "expected", "own", "equal", "origin", "source"]
ORIGINS: dict[NumberOrigin, str] = {
    "publication": "what publications state",
    "code of others": "what the code of others computes",
    "formula": "what formulas give",
}


def show_exact(page: Path | None, json_file: Path | None) -> None:
    """Prints the rows of the exact study, and writes them to ``page`` (HTML) and ``json_file``."""
    rows = list(exact_rows())
    lines = [[*(row.topic, row.what, row.expected, row.own), equality(row), *(row.origin, row.source)] for row in rows]
    result = "; ".join(f"{text}: {agreement(rows, origin)}" for origin, text in ORIGINS.items())
    show_lines(HEAD, lines)
    print("", result, sep="\n")
    head = {"title": TITLE, "lede": "Headrace study exact", "facts": [("result", result)], "notes": [], "figures": []}
    page_values = {**head, "tables": [("rows", "Expected and own", [HEAD, *lines])]}
    write_files(json_file, [dataclasses.asdict(row) for row in rows], page, lambda: page_values)


def equality(row: ExactRow) -> str:
    """Returns whether our own number of ``row`` equals the expected one, and why not."""
    return "yes" if row.is_equal else f"no: {row.remark}"


def agreement(rows: Sequence[ExactRow], origin: NumberOrigin) -> str:
    """Returns the number of equal ``rows`` of ``origin``, and that of all."""
    of_origin = [row.is_equal for row in rows if row.origin == origin]
    return f"{sum(of_origin)} of {len(of_origin)} are equal"
