"""Writes the documentation of installed packages as JSON lines: real text for a first run, without a download.

    python -m headrace.documentation              documentation/networkx.jsonl, …: the packages that experiment=demo and
                                                  experiment=smoke read, those of them that are installed
    python -m headrace.documentation numpy rich   documentation/numpy.jsonl, documentation/rich.jsonl
    python -m headrace.documentation all          all installed packages: source=jsonl source.paths=documentation

A record is a long description, a text or a licence, or the docstrings of one module. The folder is that of the command.
"""

import ast
import importlib.metadata
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGES = ("networkx", "fsspec", "hydra-core", "huggingface-hub", "numpy", "pydantic", "rich")
FOLDER = Path("documentation")
TEXT = re.compile(r"(.*\.(md|rst|txt)|METADATA|(LICEN[CS]E|COPYING|NOTICE|AUTHORS|CREDITS)[\w-]*)", re.IGNORECASE)
"""Names of files with text."""
ALONE = re.compile(r"\s*([-*+•–>|#:@]|\.\.|\(?\w{1,3}[.)]\s|[\w.`*]+( \(.*\))?: \S)|.*(\S {3,}\S|\t|[;{}\\]$)")
"""Lines that are joined with none before them: items, headings, fields, doctests, rows of tables, code."""
RULE = re.compile(r"[^\w\s]{3,}(\s+[^\w\s]{2,})*")
"""A line under a heading, or the border of a table."""


def main(arguments: Sequence[str]) -> None:
    """Writes the packages that ``arguments`` name."""
    installed = {found.name for found in importlib.metadata.distributions()}
    chosen = sorted(installed) if list(arguments) == ["all"] else arguments or [*filter(is_installed, PACKAGES)]
    FOLDER.mkdir(exist_ok=True)
    for name in chosen:
        if not is_installed(name):
            sys.exit(f"documentation: no package {name!r} is installed; install it, or name another")
        records = [{"text": text, "id": path} for path, text in texts(name) if text]
        lines = (json.dumps(record) + "\n" for record in records)
        (FOLDER / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{FOLDER / name}.jsonl: {len(records):,} records")


def is_installed(name: str) -> bool:
    """Whether the package ``name`` is installed."""
    return any(True for _ in importlib.metadata.distributions(name=name))


def texts(name: str) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each file of the package ``name`` that has one, in the order of paths."""
    for file in sorted(importlib.metadata.files(name) or (), key=str):
        is_python, path = file.suffix == ".py", Path(str(file.locate()))
        if (is_python or TEXT.fullmatch(file.name)) and file.parts[0] != ".." and path.is_file():
            content = path.read_text(encoding="utf-8", errors="replace")
            if file.name == "METADATA":
                content = content.partition("\n\n")[2]
            parts = docstrings(content) if is_python else [content]
            yield str(file), "\n\n".join(filter(None, map(joined, parts)))


def docstrings(source: str) -> Iterator[str]:
    """Yields the docstrings of the module ``source``, its classes and functions, in the order of the source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nodes: list[ast.AST] = [ast.parse(source)]
        except (SyntaxError, ValueError):
            return
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        nodes += [*ast.iter_child_nodes(node)][::-1]


def joined(text: str) -> str:
    """Joins the lines of each paragraph: rules of cleaning for lines need whole sentences."""
    lines, indent = list[str](), -1
    for line in inspect.cleandoc(text).split("\n"):
        before, indent = indent, len(line) - len(line.lstrip())
        if RULE.fullmatch(line.strip()):
            indent = -1
        elif line.strip() and indent == before and not ALONE.match(line):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
            indent = indent if line.strip() and not line.strip().startswith((">>>", "#", "|")) else -1
    return "\n".join(lines).strip()


if __name__ == "__main__":
    main(sys.argv[1:])
