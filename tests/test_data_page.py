"""The pages on data name every filter, rule, reason and preset, and their own filter works."""

import dataclasses
import re
import sys
import typing
from pathlib import Path

import pytest
import yaml

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters import FILTERS
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.core.settings import decode

ROOT = Path(__file__).parents[1]
PAGE = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("data", "reading", "filters"))
PRESETS = {path.stem: path for path in (ROOT / "conf" / "cleaning").glob("*.yaml")}


def rules_of(cls: type) -> dict[str, type]:
    """The rules (or kinds) that a filter's list may hold, by type."""
    hints = typing.get_type_hints(cls, include_extras=True)
    lists = [hints[name] for name in ("rules", "kinds") if name in {field.name for field in dataclasses.fields(cls)}]
    members = [typing.get_args(typing.get_args(typing.get_args(one)[0])[0]) for one in lists]
    return {rule.type: rule for group in members for rule in group}


def reasons() -> set[str]:
    """Every reason that filters and sources write, from their classes and their source."""
    found = set()
    for cls in FILTERS.classes:
        source = Path(sys.modules[cls.__module__].__file__).read_text(encoding="utf-8")
        found |= {f"{cls.type}.{name}" for name in re.findall(r'Drop\(f"\{self\.type\}\.(\w+)"', body(source, cls))}
        found |= {f"{cls.type}.{rule}" for rule in rules_of(cls) if cls.type != "pii"}
    stages = [ROOT / "data_prep" / f"{name}.py" for name in ("texts", "clean")]
    for path in [*(ROOT / "data_prep" / "sources").glob("*.py"), *stages]:
        found |= set(re.findall(r'Drop\("(\w+)"', path.read_text(encoding="utf-8")))
    return found | {"exact_duplicate", "near_duplicate", "contaminated"}


def body(source: str, cls: type) -> str:
    """The source of a class within that of its module."""
    start = source.index(f"class {cls.__name__}(")
    return source[start:].split("\n\n\n")[0]


def test_reasons_are_found() -> None:
    assert {
        "c4_lines.sentences",
        "allowed_domains.subdomain",
        "line_corrections.removed_words",
        "gopher_quality.stop_words",
        "not_json",
    } < reasons()


@pytest.mark.parametrize("reason", sorted(reasons()))
def test_every_reason_is_explained(reason: str) -> None:
    assert re.search(rf"`{reason}(_\w+)?`", PAGE), reason


@pytest.mark.parametrize("cls", FILTERS.classes, ids=lambda cls: cls.type)
def test_every_filter_and_rule_is_explained(cls: type) -> None:
    assert f"`{cls.type}`" in PAGE or cls.type == "datatrove"
    for rule in rules_of(cls):
        assert f"| `{rule}` |" in PAGE, rule


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_listed_with_its_filters_in_order(name: str) -> None:
    filters = yaml.safe_load(PRESETS[name].read_text(encoding="utf-8"))["filters"]
    [row] = re.findall(rf"^\| `{name}` \|[^|]*\|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == [one["type"] for one in filters]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_writes_out_every_setting(name: str) -> None:
    """Each can then be overridden by its index, and read without the code."""
    classes = {cls.type: cls for cls in FILTERS.classes}
    for entry in yaml.safe_load(PRESETS[name].read_text(encoding="utf-8"))["filters"]:
        cls = classes[entry["type"]]
        assert set(entry) == {field.name for field in dataclasses.fields(cls)}, entry["type"]
        for rule in [*entry.get("rules", ()), *entry.get("kinds", ())]:
            known = {field.name for field in dataclasses.fields(rules_of(cls)[rule["type"]])}
            assert set(rule) == known, f"{entry['type']}: {rule['type']}"


def test_the_filter_of_ones_own_works(run_clean, tmp_path, monkeypatch) -> None:
    [code] = re.findall(r"```python\n(\"\"\"my_filters.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my_filters.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "in.jsonl").write_text('{"text": "What? Why? When? Who?"}\n{"text": "A mill?"}\n', encoding="utf-8")
    entry = {"type": "python", "path": "my_filters:ManyQuestions", "settings": {"most": 3}}
    cleaning = decode(Cleaning, {"filters": [entry]})
    artifact = run_clean(Jsonl(paths=(str(tmp_path / "in.jsonl"),)), cleaning, tmp_path / "out")
    assert [d.text for path in artifact.shards("documents") for d in read_documents(path)] == ["A mill?"]
    [dropped] = [d for path in artifact.shards("dropped") for d in read_documents(path)]
    assert dropped.metadata["drop"] == {"rule": "python.ManyQuestions", "value": "4"}


def test_the_entry_of_another_filter_works() -> None:
    [entry] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    [rule] = decode(Cleaning, {"filters": yaml.safe_load(entry)}).filters
    assert rule.type == "datatrove"
