"""Shows the exact study: published numbers and our own, as a table, a page and JSON."""

import dataclasses
from pathlib import Path

from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.output.facts import show_lines
from headrace.pipeline.study.exact import exact_rows

TITLE = "What is computed, not trained"
HEAD = ["topic", "what", "published", "own", "equal", "source"]


def show_exact(page: Path | None, json_file: Path | None) -> None:
    """Prints the rows of the exact study, and writes them to ``page`` (HTML) and ``json_file``."""
    rows = list(exact_rows())
    lines = [
        [one.topic, one.what, one.published, one.own, "yes" if one.is_equal else f"no: {one.remark}", one.source]
        for one in rows
    ]
    result = f"{sum(one.is_equal for one in rows)} of {len(rows)} rows are equal"
    show_lines(HEAD, lines)
    print("", result, sep="\n")
    head = {"title": TITLE, "lede": "Headrace study exact", "facts": [("result", result)], "notes": [], "figures": []}
    page_values = {**head, "tables": [("rows", "Published and own", [HEAD, *lines])]}
    write_files(json_file, [dataclasses.asdict(one) for one in rows], page, lambda: page_values)
