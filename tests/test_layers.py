"""The layers of docs/architecture.md, enforced on the source as it is written.

pipeline.core  <-  data_prep  <-  train  <-  the rest of pipeline
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("pipeline", "data_prep", "train")
SOURCES = sorted(path.relative_to(ROOT) for package in OURS for path in (ROOT / package).rglob("*.py"))

MAY_IMPORT = {
    "pipeline.core": ("pipeline.core",),
    "data_prep": ("pipeline.core", "data_prep"),
    "train": ("pipeline.core", "data_prep.tokenization", "train"),
    "pipeline": OURS,
}
ONLY_IN = {
    "hydra": ("pipeline/__main__.py",),
    "omegaconf": ("pipeline/__main__.py",),
    "wandb": ("pipeline/core/tracker.py",),
    "deepspeed": ("train/engine.py", "train/checkpoint.py"),
    "torch": ("train/",),
}

LOAD_TORCH_LATE = ("train/weights.py", "train/scores.py", "train/generate.py")
"""What the pipeline imports, and torch must not be loaded for."""


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that ``path`` imports, and whether it does so inside a function."""
    tree = ast.parse((ROOT / path).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inner) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", id(node) in inner


def layer(path: Path) -> str:
    return "pipeline.core" if path.parts[:2] == ("pipeline", "core") else path.parts[0]


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    for module, _ in imports(path):
        if module.split(".")[0] in OURS:
            assert any(within(module, allowed) for allowed in MAY_IMPORT[layer(path)]), f"{path} imports {module}"
        for package, places in ONLY_IN.items():
            if within(module, package):
                assert path.as_posix().startswith(places), f"{path} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_our_own_packages_are_imported_at_the_top(path: Path) -> None:
    inner = [module for module, is_inner in imports(path) if is_inner and module.split(".")[0] in OURS]
    assert not inner or path.as_posix() in LOAD_TORCH_LATE, f"{path} imports {inner}"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=str)
def test_package_files_are_empty_or_define_a_union(path: Path) -> None:
    body = ast.parse((ROOT / path).read_text()).body
    assert all(isinstance(node, (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)) for node in body), path


def test_torch_is_not_loaded_by_the_command_line() -> None:
    """The stages are imported on login nodes and in data workers: torch there would cost seconds and memory."""
    import subprocess
    import sys

    code = "import sys, pipeline.stages; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_line_fits_one_screen() -> None:
    assert len((ROOT / "pipeline/stages.py").read_text().splitlines()) <= 60
