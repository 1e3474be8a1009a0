"""Writes the results of a ladder, a search or a study to files: a page with figures, and plain values."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.pipeline.report import html_page


def write_files(
    json_file: Path | None,
    values: Mapping[str, object],
    page: Path | None,
    page_values: Callable[[], Mapping[str, object]],
) -> None:
    """Writes ``values`` to the JSON file, and those of the template findings.html to the page, if they are wanted."""
    if json_file is not None:
        json_file.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        print(f"\njson: {json_file}")
    if page is not None:
        page.write_text(html_page.render("findings.html", page_values()), encoding="utf-8")
        print(f"\npage: {page}")
