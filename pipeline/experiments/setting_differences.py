"""The settings in which runs differ, and the data: each by its dotted name, with the value of every run.

setting                                A          B
optimizer.learning_rate                0.0003     0.0006
cleaning.filters                       [c4_lines] [c4_lines, pii]     entries of a list are named by their types
cleaning.filters.pii.type              –          pii                 –: the run has no such setting
texts.raw_files                        1 file, 20 kB; a.jsonl 1f0c…   1 file, 21 kB; a.jsonl 77aa…

first stage that differs               A             B
clean                                  1f0c3a5b7d9e  77aa3c4d5e6f     addresses; stages before it are the same

A setting is compared with its default where a run leaves it out. Nothing that differs is left out: a long value is
shown from the first difference on. Data is compared by the checksums that the runs were planned with, so the same paths
may name other files. What hashes of stages cover in addition (versions, artifacts of other runs) has a line, too.
The stage has a line even where nothing else explains it: two runs with other data are never shown as equal.
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
    texts_by_path = [{path: _json(leaf) for path, leaf in leaves(value)} for value in values]
    paths = dict.fromkeys(path for texts in texts_by_path for path in texts)
    both = {path: [texts.get(path) for texts in texts_by_path] for path in paths}
    return {path: texts for path, texts in both.items() if len({*texts}) > 1}


def _json(value: Any) -> str:
    return json.dumps(_without_point(value), ensure_ascii=False, sort_keys=True)


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
    present = [text for text in texts if text is not None]
    start = max(0, _equal_characters(present) - CONTEXT) if max(map(len, present)) > CHARACTERS else 0
    shown = ["…" * bool(start) + _shown(text[start:]) for text in present]
    if len({*shown}) < len({*present}):
        shown = [f"{cell} ({_digest(text)})" for cell, text in zip(shown, present, strict=True)]
    left = iter(shown)
    return [ABSENT if text is None else next(left) for text in texts]


def _equal_characters(texts: Sequence[str]) -> int:
    """Returns the number of characters with which all ``texts`` begin; 0 when they are equal."""
    pairs = enumerate(zip(*texts, strict=False))
    first = next((number for number, characters in pairs if len({*characters}) > 1), None)
    return first if first is not None else min(map(len, texts)) * (len({*texts}) > 1)


def _shown(text: str) -> str:
    return visible(text, CHARACTERS).replace("\n", "⏎")


def _digest(text: str) -> str:
    return f"sha256 {hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:12]}"


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
    for stage in dict.fromkeys(name for stages in descriptions for name in stages):
        if any(stage not in stages for stages in descriptions):
            continue
        own = [stages[stage] for stages in descriptions]
        raw_files = [_raw_files(description) for description in own]
        if any(files != raw_files[0] for files in raw_files):
            lines.append([f"{stage}.raw_files", *cells([_files_text(files, raw_files) for files in raw_files])])
        hashed = [{"version": description.get("version"), **description.get("hashed", {})} for description in own]
        for path, texts in differing_leaves(hashed).items():
            if path[-1] not in settings:
                lines.append([_shown(".".join((stage, *path))), *cells(texts)])
    return lines


def parting_lines(addresses: Sequence[Mapping[str, str]]) -> list[SettingLine]:
    """Returns a line for each stage in which runs differ that were equal in all stages before: its name, its addresses.

    Args:
        addresses: of each run, the address of each stage by its name, in the order of the stages.
    """
    longest = max(addresses, key=len)
    lines: list[SettingLine] = []
    before: list[tuple[str | None, ...]] = [()] * len(addresses)
    for stage in dict.fromkeys((*longest, *(name for addresses_of_run in addresses for name in addresses_of_run))):
        both = [
            (*known, addresses_of_run.get(stage)) for known, addresses_of_run in zip(before, addresses, strict=True)
        ]
        if len({*both}) > len({*before}):
            lines.append([stage, *(addresses_of_run.get(stage, ABSENT) for addresses_of_run in addresses)])
        before = both
    return lines


RawFiles = dict[str, tuple[int, str]]
"""Name → size in bytes and SHA-256."""


def _raw_files(description: Mapping[str, Any]) -> RawFiles:
    files = description.get("raw_files", ())
    return {file["name"]: (file["bytes"], file["sha256"]) for file in files}


def _files_text(files: RawFiles, of_all: Sequence[RawFiles]) -> str:
    """Returns the number and the size of ``files``, and the first of those that not ``of_all`` runs have."""
    own = [name for name, record in files.items() if any(other.get(name) != record for other in of_all)]
    named = [f"{name} {files[name][1][:12]}" for name in own[:MOST_FILES]]
    more = [f"and {len(own) - MOST_FILES:,} more"] * (len(own) > MOST_FILES)
    size = byte_size(sum(number for number, _ in files.values()))
    return "; ".join([f"{len(files):,} file{'s' * (len(files) != 1)}, {size}", *named, *more])
