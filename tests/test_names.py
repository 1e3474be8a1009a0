"""A name of a module or class has one meaning (docs/architecture.md, section 8)."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("pipeline", "data_prep", "train")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

NAMED_AS_TYPED = ("pipeline/commands", "pipeline/api")
"""A module here has the name of a command or of a function of ``import headrace``, as the module that does its work."""
MODULES = {
    "base": "the protocol and the base classes of its folder",
    "config": "the settings of its room, or of one stage",
    "continuations": "a benchmark that writes texts, and the report of these texts",
    "multiple_choice": "one kind of question, as a benchmark and as a task",
    "session": "a training, and one of a fine-tuning, which differs in its rows",
    "settings": "the settings of its room; in core what all settings have",
}
"""Modules of one name in one meaning."""
CLASSES = {"Run": "a run, as planned and as ``import headrace`` shows it"}
"""Classes of one name in one meaning."""


def repeated(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Returns the names that stand in several places: name → places."""
    found = defaultdict(list)
    for name, place in names:
        found[name].append(place)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_modules_of_one_name_have_one_meaning() -> None:
    paths = [path.relative_to(ROOT).as_posix() for path in SOURCES if path.name != "__init__.py"]
    modules = [(Path(path).stem, path) for path in paths if not path.startswith(NAMED_AS_TYPED)]
    found = repeated(modules)
    assert found.keys() == MODULES.keys(), found


def test_classes_of_one_name_have_one_meaning() -> None:
    trees = [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES]
    classes = [
        (node.name, path.name) for path, tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    found = repeated(classes)
    assert found.keys() == CLASSES.keys(), found


def test_repeated_names_are_found() -> None:
    assert repeated([("a", "x"), ("b", "x"), ("a", "y")]) == {"a": ["x", "y"]}
