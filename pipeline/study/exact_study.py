"""Shows the exact study: published numbers beside our own, as a table, a page and JSON."""

import dataclasses
import json
from pathlib import Path

from headrace.pipeline.command_line.facts import show_lines
from headrace.pipeline.report import html_page
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
    if json_file is not None:
        json_file.write_text(json.dumps([dataclasses.asdict(one) for one in rows], indent=1) + "\n", encoding="utf-8")
        print(f"\njson: {json_file}")
    if page is not None:
        values = {"title": TITLE, "lede": "Headrace study exact", "facts": [("result", result)], "notes": []}
        tables = [("rows", "Published and own", [HEAD, *lines])]
        text = html_page.render("findings.html", values | {"figures": [], "tables": tables})
        page.write_text(text, encoding="utf-8")
        print(f"\npage: {page}")
