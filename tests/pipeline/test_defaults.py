"""The defaults of all settings, now and in defaults.json.

An address hashes only the values that differ from their default. So a changed default gives old addresses a new
meaning, and every stage that reads it needs a higher ``version``. After such a change, record the new defaults:

    python tests/pipeline/test_defaults.py

New fields, classes and stages change no address. The test warns about them until they are recorded.
"""

import dataclasses
import importlib
import json
import os
import sys
import typing
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.environment import EXTENSIONS
from headrace.pipeline.core.setting_classes import classes_of, default_of
from headrace.pipeline.core.settings import canonical, hashed_fields
from headrace.pipeline.core.stage import FACTS, Stage

RECORD = Path(__file__).with_name("defaults.json")
REQUIRED = "(required)"
MISSING = "(missing)"
COMMAND = "python tests/pipeline/test_defaults.py"

Record = dict[str, Any]
"""``defaults``: class → field → default. ``stages``: stage → its ``version`` and the classes that its settings use."""


def stage_classes() -> list[type[Stage]]:
    """Returns every stage of the line, and those without a run."""
    classes = [getattr(importlib.import_module(facts.module), facts.class_name) for facts in FACTS.values()]
    return sorted(classes, key=lambda stage: stage.name)


def classes_in(hint: Any) -> list[type]:
    """Returns the dataclasses that a type hint names, through unions, tuples and annotations."""
    return [cls for cls in classes_of(hint) if dataclasses.is_dataclass(cls)]


def reached(cls: type, found: dict[str, type]) -> dict[str, type]:
    """Adds ``cls`` and all dataclasses that its hashed fields lead to, by name. Names are unique."""
    if cls.__qualname__ in found:
        assert found[cls.__qualname__] is cls, f"two settings classes are named {cls.__qualname__}"
        return found
    found[cls.__qualname__] = cls
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in hashed_fields(cls):
        for inner in classes_in(hints[field.name]):
            reached(inner, found)
    return found


def defaults(cls: type) -> dict[str, Any]:
    """Returns the default of each field. One that is itself settings has its own entry: here it is as in an address."""
    values = {field.name: default_of(field) for field in hashed_fields(cls)}
    return {name: REQUIRED if value is dataclasses.MISSING else canonical(value) for name, value in values.items()}


def current() -> Record:
    found: dict[str, type] = reached(RunConfig, {})
    versions = {}
    for stage in stage_classes():
        uses = reached(stage, {})
        found |= uses
        versions[stage.name] = {"version": stage.version, "uses": sorted(uses)}
    return {"defaults": {name: defaults(cls) for name, cls in sorted(found.items())}, "stages": versions}


def faults(recorded: Record, now: Record) -> list[str]:
    """Returns the changed defaults of stages whose ``version`` was not raised. They cannot be recorded."""
    found = []
    for name, fields in recorded["defaults"].items():
        for field, before in fields.items():
            after = now["defaults"].get(name, fields).get(field, before)
            if before != after and REQUIRED not in (before, after):
                old = [
                    stage
                    for stage, facts in now["stages"].items()
                    if name in facts["uses"] and facts["version"] <= recorded["stages"].get(stage, facts)["version"]
                ]
                what = f"the default of {name}.{field} was {before!r} and is now {after!r}"
                found += [f"{what}: raise `version` of the stages {', '.join(old)}"] if old else []
    return found


def recorded() -> Record:
    return json.loads(RECORD.read_text())


def test_no_default_changes_below_an_old_version() -> None:
    assert faults(recorded(), current()) == []


def additions(old: Any, new: Any, path: str = "") -> list[str]:
    """Returns the dotted paths of keys that only ``new`` has."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return []
    added = [f"{path}{key}" for key in sorted(new.keys() - old.keys())]
    return added + [
        found for key in sorted(old.keys() & new.keys()) for found in additions(old[key], new[key], f"{path}{key}.")
    ]


def changes(old: Record, new: Record) -> list[str]:
    """Returns the dotted paths of recorded defaults, fields, classes, versions and stages that changed or are gone."""
    found = [
        f"defaults.{name}.{field}"
        for name, fields in old["defaults"].items()
        for field, default in fields.items()
        if new["defaults"].get(name, {}).get(field, MISSING) != default
    ]
    for name, facts in old["stages"].items():
        now = new["stages"].get(name, {"version": MISSING, "uses": []})
        found += [f"stages.{name}.version"] * (now["version"] != facts["version"])
        found += [f"stages.{name}.uses.{used}" for used in facts["uses"] if used not in now["uses"]]
    return found


def test_the_record_is_up_to_date() -> None:
    """Changed and removed entries fail; new entries are a warning, because they change no address."""
    wrong = changes(recorded(), current())
    assert not wrong, f"{', '.join(wrong)} changed since defaults.json was written: if this is intended, run {COMMAND}"
    if new := additions(recorded(), current()):
        warnings.warn(f"not recorded yet: {', '.join(new)}; run {COMMAND}", stacklevel=1)


def changed(record: Record, default: Any, raised: Mapping[str, int]) -> Record:
    now = json.loads(json.dumps(record))
    now["defaults"]["Packing"]["group_shards"] = default
    for stage, version in raised.items():
        now["stages"][stage]["version"] += version
    return now


@pytest.mark.parametrize(
    ("default", "raised", "found"),
    [
        (64, {}, []),
        (63, {}, ["packed"]),
        (63, {"packed": 1}, []),
        (63, {"tokens": 1}, ["packed"]),
        (REQUIRED, {}, []),
    ],
)
def test_a_changed_default_needs_a_higher_version(default: Any, raised: Mapping[str, int], found: list[str]) -> None:
    what = "the default of Packing.group_shards was 64 and is now 63: raise `version` of the stages "
    assert faults(current(), changed(current(), default, raised)) == [what + stage for stage in found]


def test_additions_and_changes_are_told_apart() -> None:
    now = current()
    now["defaults"] |= {"Spare": {"size": 1}, "Packing": now["defaults"]["Packing"] | {"spare": 1}}
    now["stages"]["spare"] = {"version": 1, "uses": ["Spare"]}
    assert faults(current(), now) == changes(current(), now) == []
    assert additions(current(), now) == ["defaults.Spare", "defaults.Packing.spare", "stages.spare"]
    del now["defaults"]["Packing"], now["stages"]["packed"]
    now["stages"]["clean"]["version"] += 1
    parts = ("defaults.Packing", "stages.packed", "stages.packed.uses", "stages.clean")
    assert {path.rpartition(".")[0] for path in changes(current(), now)} == {*parts}
    assert changes(current(), changed(current(), 63, {})) == ["defaults.Packing.group_shards"]


if __name__ == "__main__":
    os.environ[EXTENSIONS] = "none"  # other packages have records of their own
    if RECORD.exists() and (wrong := faults(recorded(), current())):
        sys.exit("\n".join(wrong))
    RECORD.write_text(json.dumps(current(), indent=1, sort_keys=True) + "\n")
