"""The pages that follow from the code: what ``--help`` prints in docs/commands.md, and docstrings in docs/api.md.

python -m docs.references        writes both again; tests/test_references.py compares them with the code
"""

import ast
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import click

import headrace
from docs.paragraphs import reflowed
from headrace.pipeline.command_line.declaration import read
from headrace.pipeline.command_line.group import COMMANDS, HEADRACE
from headrace.pipeline.core.environment import EXTENSIONS

FOLDER = Path(__file__).parent
MARK = "<!-- Everything below is written by `python -m docs.references`. -->\n"
"""The line of a page below which it follows from the code."""
COLUMNS = 80


def commands() -> str:
    """Returns a section for each command, with what ``headrace COMMAND --help`` prints."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), str(COLUMNS)
    try:
        return "".join(f"\n### {name}\n\n```text\n{_help(name)}\n```\n" for name in COMMANDS)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def _help(name: str) -> str:
    """Returns the help of the command ``name``."""
    parent = click.Context(
        HEADRACE, info_name=HEADRACE.name, terminal_width=COLUMNS, help_option_names=["-h", "--help"]
    )
    command = read(name)
    return command.get_help(click.Context(command, parent, name)).strip()


def api() -> str:
    """Returns a section for each name that ``import headrace`` gives."""
    return reflowed(
        "".join(_section(name, getattr(headrace, name)) for name in sorted(headrace.__all__, key=str.lower))
    )


def _section(name: str, value: Any) -> str:
    """Returns the section of a class or function."""
    if not inspect.isclass(value):
        return f"\n## {name}\n\n{_signature(name, value)}\n\n{_text(value)}\n"
    members = "".join(f"\n### {title}\n\n{text}\n" for title, text in _members(name, value))
    return f"\n## {name}\n\n{_text(value)}\n{members}"


def _members(name: str, cls: type) -> Iterator[tuple[str, str]]:
    """Yields the title and the text of each public function and property of ``cls``, in the order of its source."""
    for key, member in vars(cls).items():
        if key.startswith("_"):
            continue
        if inspect.isfunction(member):
            yield f"{name}.{key}", f"{_signature(key, member)}\n\n{_text(member)}"
        elif isinstance(member, property | cached_property):
            yield f"{name}.{key}", _text(member)


def _signature(name: str, function: Callable[..., Any]) -> str:
    """Returns the parameters of ``function``, and what it returns, as they stand in its source."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"{name}: no function")
    node.args.args = [argument for argument in node.args.args if argument.arg != "self"]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"```python\n{name}({ast.unparse(node.args)}){returned}\n```"


def _text(value: Any) -> str:
    """Returns the docstring of ``value`` as Markdown: its arguments and errors are lists."""
    text = (inspect.getdoc(value) or "").replace("``", "`")
    text = re.sub(r"^(Args|Raises):$", r"\1:\n", text, flags=re.MULTILINE)
    text = re.sub(r"^    (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"^        (?=\w)", "  ", text, flags=re.MULTILINE)


PAGES = {"commands.md": commands, "api.md": api}


def written(name: str) -> str:
    """Returns the page ``name`` as it has to be: its own beginning, and what follows from the code."""
    beginning, mark, _ = (FOLDER / name).read_text(encoding="utf-8").partition(MARK)
    return beginning + mark + PAGES[name]()


if __name__ == "__main__":
    os.environ[EXTENSIONS] = "none"  # the pages are those of this package alone
    for page in PAGES:
        text = written(page)
        (FOLDER / page).write_text(text, encoding="utf-8")
