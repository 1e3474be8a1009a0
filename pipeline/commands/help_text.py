"""``headrace --help``: the commands, the groups with their options, and every setting with its meaning.

The meanings are read from the docstrings under the settings' fields, so that they are written once.
"""

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.config import RunConfig

EXAMPLES = """\
headrace experiment=demo                                        the whole line, on the documentation installed here
headrace source=warc source.paths='[crawl/*.warc.gz]'           ... on your crawl (WARC, WET); also html, jsonl, parquet
headrace until=packed                                           the data stages only
headrace status                                                 one row per stage of the newest run
headrace why numpy:2                                            what became of a document, by id or URL
headrace -m optimizer.learning_rate=3e-4,6e-4                   a sweep; its data stages are shared
headrace cluster=slurm cluster.partition=gpu cluster.nodes=4    the same line as SLURM jobs"""


USAGE_CHARACTERS = 72
"""A longer usage takes several lines."""


def help_text(conf: Path, commands: Mapping[str, Callable[..., None]]) -> str:
    """The whole text, for ``commands`` by their usage."""
    lines = [
        "headrace [COMMAND [WORD ...]] [GROUP=OPTION | KEY=VALUE ...]",
        "",
        "From raw web crawl to an evaluated language model.",
        "",
    ]
    lines += ["Commands (the first is meant when none is given):"]
    width = max(len(usage) for usage in commands if len(usage) <= USAGE_CHARACTERS) + 2
    for usage, command in commands.items():
        *above, last = textwrap.wrap(usage, USAGE_CHARACTERS, break_on_hyphens=False, subsequent_indent="  ")
        lines += [f"  {part}" for part in above] + [f"  {last:<{width}}{first_line(command)}"]
    lines += ["", "Settings (KEY=VALUE):"]
    groups = {path.name: sorted(file.stem for file in path.glob("*.yaml")) for path in conf.iterdir() if path.is_dir()}
    meanings = field_meanings(RunConfig)
    lines += [f"  {name:<17}{meanings[name]}" for name in meanings if name not in groups]
    lines += ["", "Groups (GROUP=OPTION), and the settings of each (GROUP.KEY=VALUE; the options are files of conf/):"]
    for name in [*(name for name in meanings if name in groups), "experiment"]:
        lines += [f"  {name:<17}{meanings.get(name, 'Overrides of several groups at once.')}"]
        lines += textwrap.wrap(", ".join(groups[name]), 100, initial_indent=" " * 19, subsequent_indent=" " * 19)
    return "\n".join([*lines, "", "Examples:", textwrap.indent(EXAMPLES, "  ")])


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def field_meanings(cls: type) -> dict[str, str]:
    """Field name → the docstring under it, for a settings class."""
    names = {field.name for field in dataclasses.fields(cls)}
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in itertools.pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            found[field.target.id] = str(ast.literal_eval(after.value))
    return {name: meaning for name, meaning in found.items() if name in names}
