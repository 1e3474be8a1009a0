"""``headrace --help``: the commands, the groups with their options, and every setting with its meaning.

The meanings are the docstrings under the fields of RunConfig, read from its source.
"""

import ast
import itertools
import textwrap
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.conf_folder import EXPERIMENT, groups

EXAMPLES = """\
headrace experiment=demo                                        the whole line, on the documentation installed here
headrace source=warc source.paths='[crawl/*.warc.gz]'           ... on your crawl (WARC, WET); also html, jsonl, parquet
headrace until=packed                                           the data stages only
headrace status                                                 one row per stage of the newest run
headrace why numpy:2                                            what became of a document, by id or URL
headrace -m optimizer.learning_rate=3e-4,6e-4                   a sweep; its data stages are shared
headrace cluster=slurm cluster.partition=gpu cluster.nodes=4    the same line as SLURM jobs"""

SETTINGS = Path(__file__).resolve().parent.parent / "config.py"
HEAD = """\
headrace COMMAND [ARGUMENT ...] [GROUP=OPTION | KEY=VALUE ...]
headrace GROUP=OPTION | KEY=VALUE ...                           the same as headrace run …

From raw web crawl to an evaluated language model.

Commands (headrace COMMAND --help explains one command; headrace --version prints the version):
"""
COMMAND_WIDTH = 10
"""The width of the names of commands; a longer name shifts its line."""
COMPLETION = """\
eval "$(_HEADRACE_COMPLETE=bash_source headrace)"      in ~/.bashrc; zsh_source in ~/.zshrc
_HEADRACE_COMPLETE=fish_source headrace | source       in ~/.config/fish/config.fish"""


def help_text(commands: Mapping[str, str]) -> str:
    """Returns the whole text, for ``commands`` (name → what it does)."""
    rows = (f"  {name:<{COMMAND_WIDTH}} {text.partition(chr(10))[0]}" for name, text in commands.items())
    lines = [HEAD + "\n".join(rows)]
    meanings, options = field_meanings(SETTINGS, "RunConfig"), groups()
    lines += ["", "Settings (KEY=VALUE):"]
    lines += [f"  {name:<17}{meaning}" for name, meaning in meanings.items() if name not in options]
    lines += [
        "",
        "Groups (GROUP=OPTION), and the settings of each (GROUP.KEY=VALUE). The options are files of conf/",
        "and of your own folder, --config-dir DIR (default ./conf): cleaning=mine is DIR/cleaning/mine.yaml.",
    ]
    for name in [*(name for name in meanings if name in options), EXPERIMENT]:
        lines += [f"  {name:<17}{meanings.get(name, 'Overrides of several groups at once.')}"]
        lines += textwrap.wrap(", ".join(options[name]), 100, initial_indent=" " * 19, subsequent_indent=" " * 19)
    lines += ["", "Examples:", textwrap.indent(EXAMPLES, "  ")]
    return "\n".join([*lines, "", "Completion:", textwrap.indent(COMPLETION, "  ")])


def field_meanings(source: Path, name: str) -> dict[str, str]:
    """Returns field → the docstring under it, for the class ``name`` in the file ``source``."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    (cls,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        field.target.id: str(ast.literal_eval(after.value))
        for field, after in itertools.pairwise(cls.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr)
    }
