"""Shows the exact study: published numbers and our own, as a table, a page and JSON."""

import dataclasses
from pathlib import Path

from headrace.pipeline.command_line.facts import show_lines
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.study.exact import exact_rows

TITLE = "What is computed, not trained"
HEAD = ["topic", "what", "published", "own", "equal", "source"]


def show_exact(page: Path | None, json_file: Path | None) -> None:
    """Prints the rows of the exact study, and writes them to ``page`` (HTML) and ``json_file``."""
    rows = list(exact_rows())
    lines = [
        [row.topic, row.what, row.published, row.own, "yes" if row.is_equal else f"no: {row.remark}", row.source]
        for row in rows
    ]
    result = f"{sum(row.is_equal for row in rows)} of {len(rows)} rows are equal"
    show_lines(HEAD, lines)
    print("", result, sep="\n")
    head = {"title": TITLE, "lede": "Headrace study exact", "facts": [("result", result)], "notes": [], "figures": []}
    page_values = {**head, "tables": [("rows", "Published and own", [HEAD, *lines])]}
    write_files(json_file, [dataclasses.asdict(row) for row in rows], page, lambda: page_values)
