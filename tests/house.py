"""The weight of the package: the numbers that tests/house.json bounds, and others that say how it is divided.

    python -m tests.house        prints each number before this work (November 2026), the aim, the bound, and today's

A number is raised by hand only, with the reason in the commit; one that fell by more than a hundredth is lowered.
"""

import ast
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUNDS = ROOT / "tests" / "house.json"
PACKAGES = ("pipeline", "data_prep", "train")
GENERATED_PAGES = ("commands.md", "api.md")
SMALL_MODULE_LINES = 60
AIMS = {
    "lines": (99_246, 68_000),
    "code_lines": (53_998, 38_000),
    "modules": (741, 380),
    "settings_fields": (896, 620),
    "commands": (41, 26),
    "yaml_files": (363, 160),
    "page_words": (91_502, 55_000),
    "test_lines": (78_453, 58_000),
    "modules_composed": (389, 170),
    "modules_started": (508, 220),
    "import lines, %": (9.5, 6.5),
    f"modules of at most {SMALL_MODULE_LINES} lines": (121, 35),
    "modules with one user, in the same folder": (134, 35),
    "own, as a word": (1_090, 300),
    "lines of pipeline/tracking": (1_631, 750),
}
"""Each number before this work, and the one that it is brought to."""


@functools.cache
def tree(path: Path) -> ast.Module:
    """Returns the syntax tree of a module, which several tests of the house read."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def weight() -> dict[str, int]:
    """Returns the numbers that tests/house.json bounds.

    Code lines are those without blank ones, comments, docstrings and imports. A module has more than three lines. Words
    of pages are those of docs/ that no script writes.
    """
    trees = {path: tree(path) for path in _modules()}
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name not in GENERATED_PAGES]
    return {
        "lines": sum(map(_lines, trees)),
        "code_lines": sum(_code_lines(path, tree) for path, tree in trees.items()),
        "modules": sum(_lines(path) > 3 for path in trees),
        "settings_fields": sum(map(_settings_fields, trees.values())),
        "commands": sum(
            path.read_text(encoding="utf-8").count("\n@command\n")
            for path in (ROOT / "pipeline" / "commands").glob("*.py")
        ),
        "yaml_files": len(list((ROOT / "conf").rglob("*.yaml"))),
        "page_words": sum(len(path.read_text(encoding="utf-8").split()) for path in pages),
        "test_lines": sum(map(_lines, (ROOT / "tests").rglob("*.py"))),
    }


def division() -> dict[str, float]:
    """Returns the share of import lines, in percent, and the numbers of small modules and of modules with one user."""
    trees = {path: tree(path) for path in _modules()}
    imported = sum(len(_spans(tree, ast.Import, ast.ImportFrom)) for tree in trees.values())
    return {
        "import lines, %": round(100 * imported / sum(map(_lines, trees)), 1),
        f"modules of at most {SMALL_MODULE_LINES} lines": sum(3 < _lines(path) <= SMALL_MODULE_LINES for path in trees),
        "modules with one user, in the same folder": _with_one_user(trees),
        "own, as a word": sum(len(re.findall(r"\bown\b", path.read_text(encoding="utf-8"))) for path in trees),
        "lines of pipeline/tracking": sum(_lines(path) for path in trees if path.parent.name == "tracking"),
    }


COMPOSED = """
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.config import decoded
decoded(compose({overrides}))
"""
STARTED = """
import contextlib, runpy
sys.argv = ["headrace", *{overrides}, "--dry-run"]
with contextlib.suppress(SystemExit):
    runpy.run_module("headrace", run_name="__main__")
"""
LOADED = {"modules_composed": COMPOSED, "modules_started": STARTED}
"""The number of modules of ours that a process has loaded → its code: the settings of a run are made, a run starts."""


def loaded(folder: Path) -> dict[str, int]:
    """Returns the numbers of ``LOADED``, for a run of JSON lines with the other settings of smoke, in ``folder``."""
    (folder / "pages.jsonl").write_text('{"text": "The mill stands."}\n')
    overrides = ["experiment=smoke", "source=jsonl", "source.paths=pages.jsonl"]
    ours = "len([name for name in sys.modules if name.partition('.')[0] == 'headrace'])"
    numbers = {}
    for name, code in LOADED.items():
        program = f"import sys\n{code.format(overrides=overrides)}\nprint({ours}, file=sys.stderr)"
        environment = os.environ | {"HEADRACE_EXTENSIONS": "none"}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
        numbers[name] = int(done.stderr.splitlines()[-1])
    return numbers


def _modules() -> list[Path]:
    packages = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return [*packages, *(ROOT / "src" / "headrace").glob("*.py")]


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _spans(tree: ast.AST, *kinds: type) -> set[int]:
    """Returns the numbers of the lines that statements of these kinds take."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


def _code_lines(path: Path, tree: ast.AST) -> int:
    texts = [
        node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]  # docstrings, and the sentences below fields
    left_out = _spans(tree, ast.Import, ast.ImportFrom)
    left_out |= {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return sum(
        number not in left_out and bool(line.strip()) and not line.strip().startswith("#") for number, line in lines
    )


def _settings_fields(tree: ast.AST) -> int:
    """Returns the number of fields of the settings classes of a module."""
    classes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("settings" in ast.unparse(mark) for mark in node.decorator_list)
    ]
    fields = [line for cls in classes for line in cls.body if isinstance(line, ast.AnnAssign)]
    return sum("ClassVar" not in ast.unparse(field.annotation) for field in fields)


def _with_one_user(trees: dict[Path, ast.Module]) -> int:
    """Returns the number of modules that only one other imports, of the same folder."""
    names = {".".join(("headrace", *path.relative_to(ROOT).with_suffix("").parts)): path for path in trees}
    users = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    if name in names:
                        users[names[name]].add(path)
    modules = [path for path in trees if path.name != "__init__.py" and len(users[path]) == 1]
    return sum(next(iter(users[path])).parent == path.parent for path in modules)


if __name__ == "__main__":
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        numbers = weight() | loaded(Path(folder)) | division()
    print(f"{'':45}{'before':>10}{'aim':>10}{'bound':>10}{'today':>10}")
    for name, number in numbers.items():
        before, aim = AIMS[name]
        print(f"{name:45}{before:>10,}{aim:>10,}{bounds.get(name, ''):>10}{number:>10,}")
