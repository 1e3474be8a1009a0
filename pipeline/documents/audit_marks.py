"""The marks of an audit: read from files that people filled in, and saved.

marks-ann.json      {"sheet": key, "marker": "ann", "marks": {"pages.jsonl:2": "bad"}}    as we save them
sheet.jsonl         {"sheet": key, "id": "pages.jsonl:2", "mark": "bad", …}               a line for each page
"""

import getpass
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.claim import remove_unfinished
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.documents.audit_sheet import FOLDER, AuditSheet, saved_sheet
from headrace.pipeline.run.run_files import NAME

MARKS = ("good", "bad", "unsure")
PREFIX = "marks-"


def checked_marker(marker: str) -> str:
    """Returns ``marker``, or the name of this user without one.

    Raises:
        ConfigError: when it cannot be part of a file's name.
    """
    name = marker or re.sub(r"[^\w.-]", "_", getpass.getuser(), flags=re.ASCII)
    if not NAME.fullmatch(name):
        raise ConfigError("--marker", f"{name!r} is not a name", "use letters, digits, '_', '.' and '-'")
    return name


def marks_file(run_folder: Path, marker: str) -> Path:
    """Returns the path of the marks of ``marker`` in the folder of a run, ``run_folder``."""
    return run_folder / FOLDER / f"{PREFIX}{marker}.json"


def saved_marks(run_folder: Path, sheet: AuditSheet) -> dict[str, dict[str, str]]:
    """Returns the marks of each marker in the folder of a run, ``run_folder``: marker → id → mark.

    Raises:
        ConfigError: when a file has marks of another sheet, or other marks than ours.
    """
    paths = sorted((run_folder / FOLDER).glob(f"{PREFIX}*.json"))
    by_marker = {path.stem.removeprefix(PREFIX): read_marks(path, sheet)[1] for path in paths}
    return {marker: marks for marker, marks in by_marker.items() if marks}


def add_marks(run_folder: Path, sheet: AuditSheet, marker: str, marks: Mapping[str, str]) -> None:
    """Adds ``marks`` to those of ``marker``, atomically: a kill leaves the marks before or after, never a part."""
    path = marks_file(run_folder, marker)
    before = read_marks(path, sheet)[1] if path.is_file() else {}
    remove_unfinished(path)
    write_json(path, {"sheet": sheet.key, "marker": marker, "marks": before | dict(marks)})


def read_marks(path: Path, sheet: AuditSheet) -> tuple[str, dict[str, str]]:
    """Returns the marker that the file at ``path`` names (empty: none), and the marks by id.

    Raises:
        ConfigError: when it has another format, marks of another sheet or unknown pages, or another word than ours.
    """
    marker, entries = _entries(path)
    marks, known = dict[str, str](), set(sheet.ids)
    for place, key, identity, mark in entries:
        if key != sheet.key:
            problem = f"has marks of the sheet {key!r}, and the sheet of this run is {sheet.key!r}"
            raise ConfigError(place, problem, f"name the run that it was drawn from (this is {sheet.run})")
        if not isinstance(identity, str) or identity not in known:
            raise ConfigError(place, f"{identity!r} is no page of the sheet", "leave ids and lines as they are")
        if mark not in ("", *MARKS):
            raise ConfigError(place, f"{identity} has the mark {mark!r}", f"write {', '.join(MARKS)}, or nothing")
        if mark:
            marks[identity] = str(mark)
    return marker, marks


def unsaved_marks(path: Path, run_folder: Path) -> int:
    """Returns how many marks of the line file at ``path``, if there is one, are not saved in ``run_folder``."""
    sheet = saved_sheet(run_folder)
    by_marker = saved_marks(run_folder, sheet) if sheet else {}
    saved = [(sheet.key, *mark) for marks in by_marker.values() for mark in marks.items()] if sheet else []
    entries = map(_parsed, read_lines(path)) if path.is_file() else ()
    marked = [entry for entry in entries if isinstance(entry, dict) and entry.get("mark")]
    return sum((entry.get("sheet"), entry.get("id"), entry["mark"]) not in saved for entry in marked)


MarkEntry = tuple[str, object, object, object]
"""The place of a mark in its file, the key of its sheet, the id of the page, and the mark."""


def _entries(path: Path) -> tuple[str, list[MarkEntry]]:
    """Returns the marker that a file of marks names, and its entries, not checked.

    Raises:
        ConfigError: when it is neither of the two formats.
    """
    try:
        lines = [line for line in read_lines(path) if line.strip()]
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read ({error.strerror})", "name a file with marks") from None
    whole = _parsed(b"\n".join(lines))
    if isinstance(whole, dict) and isinstance(marks := whole.get("marks"), dict):
        return str(whole.get("marker") or ""), [(str(path), whole.get("sheet"), *item) for item in marks.items()]
    return "", list(_of_lines(path, lines))


def _of_lines(path: Path, lines: list[bytes]) -> Iterator[MarkEntry]:
    for number, line in enumerate(lines, 1):
        entry, place = _parsed(line), f"{path}, line {number}"
        if not isinstance(entry, dict) or "id" not in entry:
            remedy = "give the file of --sheet"
            raise ConfigError(place, f"is no page of a sheet: {line[:80].decode(errors='replace')!r}", remedy)
        yield place, entry.get("sheet"), entry["id"], entry.get("mark", "")


def _parsed(text: bytes) -> Any:
    """Returns JSON, or None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
