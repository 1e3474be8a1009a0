"""A name of a module, class or alias has one meaning, and a variable says what it holds.

See docs/architecture.md, section 8.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.house import tree

ROOT = Path(__file__).parents[1]
ROOMS = ("pipeline", "data_prep", "train")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

NAMED_AS_TYPED = ("pipeline/commands", "pipeline/api")
"""A module here has the name of a command or of a function of ``import headrace``, as the module that does its work."""
MODULES = {
    "base": "the protocol and the base classes of its folder",
    "config": "the settings of its room, or of one stage",
    "session": "a training, and one of a fine-tuning, which differs in its rows",
    "settings": "the settings of its room; in core what all settings have",
}
"""Modules of one name in one meaning."""
VAGUE = {"each", "found", "here", "one", "wrong"}
"""Names of variables that do not say what these hold."""
CLASSES = {
    "Run": "a run, as planned and as ``import headrace`` shows it",
    "Tokenizer": "a tokenizer, as a stage makes it and as ``import headrace`` uses it",
}
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
    classes = [
        (node.name, path.name) for path in SOURCES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)
    ]
    found = repeated(classes)
    assert found.keys() == CLASSES.keys(), found


def aliases(path: Path) -> dict[str, str]:
    """Returns the aliases of types that a module defines: name → definition."""
    assigned = {}
    for node in tree(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if is_assigned(node) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        assigned |= {name: ast.unparse(node.value).replace("npt.", "") for name in names}
    return {name: definition for name, definition in assigned.items() if re.fullmatch("[A-Z]+[a-z][A-Za-z0-9]*", name)}


def is_assigned(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is not None


def test_aliases_of_one_name_have_one_meaning() -> None:
    """Two modules may define the same alias in the same way; no class has its name."""
    definitions = defaultdict(set)
    for path in SOURCES:
        for name, definition in aliases(path).items():
            definitions[name].add(definition)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                definitions[node.name].add("class")
    assert {name for name, meanings in definitions.items() if len(meanings) > 1} == set()


def vague_variables(module: ast.Module) -> set[str]:
    """Returns the vague names of the variables, arguments and functions of a module; not of the fields of classes."""
    nodes = [*ast.walk(module)]
    fields = {id(node.target) for node in nodes if isinstance(node, ast.AnnAssign) and node.simple}
    inner = {id(part) for node in nodes if isinstance(node, ast.FunctionDef) for part in ast.walk(node)}
    names = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names |= {node.id} if id(node) not in fields or id(node) in inner else set()
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names & VAGUE


def test_variables_say_what_they_hold() -> None:
    paths = (*SOURCES, *sorted((ROOT / "benchmarks").rglob("*.py")))
    vague = {path.relative_to(ROOT).as_posix(): vague_variables(tree(path)) for path in paths}
    assert {path: names for path, names in vague.items() if names} == {}


def test_vague_variables_are_seen() -> None:
    source = """
class Overlap:
    found: int
    def shares(self, one):
        wrong: int = 0
        return [here for here in one if (each := here)]
"""
    assert vague_variables(ast.parse(source)) == VAGUE - {"found"}


def test_repeated_names_are_found() -> None:
    assert repeated([("a", "x"), ("b", "x"), ("a", "y")]) == {"a": ["x", "y"]}
