"""The settings in which runs differ, and the data: each by its dotted name, with the value of every run.

setting                                A          B
optimizer.learning_rate                0.0003     0.0006
cleaning.filters                       [c4_lines] [c4_lines, pii]     entries of a list are named by their types
cleaning.filters.pii.type              –          pii                 –: the run has no such setting
texts.raw_files                        1 file, 20 kB; a.jsonl 1f0c…   1 file, 21 kB; a.jsonl 77aa…

first stage that differs               A             B
clean                                  1f0c3a5b7d9e  77aa3c4d5e6f     addresses; stages before it are the same

Nothing that differs is left out: a long value is shown from the first difference on. Data is compared by the checksums
that the runs were planned with, so the same paths may name other files. What hashes of stages cover in addition
(versions, artifacts of other runs) has a line, too, and the stage has one even where nothing else explains it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.kinds import TAG
from headrace.pipeline.report.formatting import byte_size, visible

ABSENT = "–"
"""Shown for a setting that a run has not."""
CHARACTERS = 300
"""The longest value that is shown from its beginning."""
CONTEXT = 20
"""Characters before the first difference of longer ones."""
MOST_FILES = 3
"""Raw files that are named."""

Path = tuple[str, ...]
SettingLine = list[str]
"""A name, then the value of each run."""
RawFiles = dict[str, tuple[int, str]]
"""Name → size in bytes and SHA-256."""


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields plain ``value`` as (path, value without settings in it), in its order: ``value`` follows from them.

    A list of settings is yielded as the names of its entries, then the leaves of each below its name.
    """
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        names = list(_entry_names(value))
        yield path, names
        for name, item in zip(names, value, strict=True):
            yield from leaves(item, (*path, name))
    else:
        yield path, value


def _entry_names(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a name for each of ``entries``: its name, its type (of one's own class, the class), else its number."""
    seen = Counter[str]()
    for number, entry in enumerate(entries):
        kind = str(entry.get("path" if entry.get(TAG) == "python" else TAG) or "").rpartition(":")[2]
        name = str(entry.get("name") or kind or number)
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"


def differing_leaves(values: Sequence[Any]) -> dict[Path, list[str | None]]:
    """Returns path → the JSON value of each of ``values``, for the leaves that differ; None where there is no leaf."""
    of_values = [
        {path: json.dumps(_without_point(leaf), ensure_ascii=False, sort_keys=True) for path, leaf in leaves(value)}
        for value in values
    ]
    both = {
        path: [texts.get(path) for texts in of_values]
        for path in dict.fromkeys(p for texts in of_values for p in texts)
    }
    return {path: texts for path, texts in both.items() if len({*texts}) > 1}


def _without_point(value: Any) -> Any:
    """Returns plain ``value`` with 1 for 1.0: a file and an override may write the same number in two ways."""
    if isinstance(value, Mapping):
        return {key: _without_point(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_point(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def setting_lines(values: Sequence[Any]) -> list[SettingLine]:
    """Returns a line for each setting that differs between the nested plain ``values``."""
    return [[_shown(".".join(path)), *cells(texts)] for path, texts in differing_leaves(values).items()]


def cells(texts: Sequence[str | None]) -> list[str]:
    """Returns the cells of ``texts``, which differ where these do: long ones from the first difference on."""
    present = {text: text for text in texts if text is not None}
    start = 0
    if max(map(len, present)) > CHARACTERS and len(present) > 1:
        start = max(0, _equal_characters(min(present), max(present)) - CONTEXT)
    shown = {text: ("…" if start else "") + _shown(text[start:]) for text in present}
    if len({*shown.values()}) < len(present):  # what differs is not visible, or further on
        shown = {text: f"{cell} (sha256 {_digest(text)})" for text, cell in shown.items()}
    return [ABSENT if text is None else shown[text] for text in texts]


def _equal_characters(first: str, second: str) -> int:
    """Returns the number of characters with which both texts begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((number for number, pair in pairs if len({*pair}) > 1), min(len(first), len(second)))


def _shown(text: str) -> str:
    return visible(text, CHARACTERS).replace("\n", "⏎")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def data_lines(
    descriptions: Sequence[Mapping[str, Mapping[str, Any]]], known: Sequence[SettingLine]
) -> list[SettingLine]:
    """Returns a line for each stage whose raw files differ between runs, and for what else its address covers.

    Args:
        descriptions: of each run, the description of each stage by its name (``Stage.description``).
        known: the lines of settings. A hashed value is left out when a setting of its name is among them.
    """
    settings = {line[0].rpartition(".")[2] for line in known}
    lines: list[SettingLine] = []
    for stage in descriptions[0]:
        if any(stage not in stages for stages in descriptions):
            continue
        of_runs = [stages[stage] for stages in descriptions]
        raw_files = [
            {file["name"]: (file["bytes"], file["sha256"]) for file in description.get("raw_files", ())}
            for description in of_runs
        ]
        if any(files != raw_files[0] for files in raw_files):
            lines.append([f"{stage}.raw_files", *cells([_files_text(files, raw_files) for files in raw_files])])
        hashed = [{"version": description.get("version"), **description.get("hashed", {})} for description in of_runs]
        for path, texts in differing_leaves(hashed).items():
            if path[-1] not in settings:
                lines.append([_shown(".".join((stage, *path))), *cells(texts)])
    return lines


def _files_text(files: RawFiles, of_all: Sequence[RawFiles]) -> str:
    """Returns the number and the size of ``files``, and the first of those that not ``of_all`` runs have."""
    differing = [name for name, record in files.items() if any(other.get(name) != record for other in of_all)]
    named = [f"{name} {files[name][1][:12]}" for name in differing[:MOST_FILES]]
    if len(differing) > MOST_FILES:
        named.append(f"and {len(differing) - MOST_FILES:,} more")
    size = byte_size(sum(number for number, _ in files.values()))
    return "; ".join([f"{len(files):,} file{'s' * (len(files) != 1)}, {size}", *named])


def parting_lines(addresses: Sequence[Mapping[str, str]]) -> list[SettingLine]:
    """Returns a line for each stage in which runs differ that were equal in all stages before: its name, its addresses.

    Args:
        addresses: of each run, the address of each stage by its name, in the order of the stages.
    """
    stages = dict.fromkeys(stage for of_run in sorted(addresses, key=len, reverse=True) for stage in of_run)
    lines: list[SettingLine] = []
    before: list[tuple[str | None, ...]] = [()] * len(addresses)
    for stage in stages:
        after = [(*known, of_run.get(stage)) for known, of_run in zip(before, addresses, strict=True)]
        if len({*after}) > len({*before}):
            lines.append([stage, *(of_run.get(stage, ABSENT) for of_run in addresses)])
        before = after
    return lines
