"""``headrace --help``: the commands, the groups with their options, and every setting with its meaning.

The meanings are the docstrings under the fields of RunConfig, read from its source.
"""

import ast
import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

from headrace.pipeline.command_line.help_layout import docstring, meaning, paragraph, rows
from headrace.pipeline.conf_folder import EXPERIMENT, groups

EXAMPLES = """\
headrace experiment=demo                                        the whole line, on the documentation installed here
headrace source=warc source.paths='[crawl/*.warc.gz]'           ... on your crawl (WARC, WET); also html, jsonl, parquet
headrace until=packed                                           the data stages only
headrace status                                                 one row per stage of the newest run
headrace why numpy:2                                            what became of a document, by id or URL
headrace help optimizer                                         every setting of a group, a command, one setting
headrace config experiment=demo model=gpt2_small                what would run, with the source of each value
headrace -m optimizer.learning_rate=3e-4,6e-4                   a sweep; its data stages are shared
headrace cluster=slurm cluster.partition=gpu cluster.nodes=4    the same line as SLURM jobs"""

SETTINGS = Path(__file__).resolve().parent.parent / "config.py"
USAGE = """\
headrace COMMAND [ARGUMENT ...] [GROUP=OPTION | KEY=VALUE ...]
headrace GROUP=OPTION | KEY=VALUE ...  the same as headrace run …"""
OF_EXPERIMENTS = "Overrides of several groups at once."
COMPLETION = """\
eval "$(_HEADRACE_COMPLETE=bash_source headrace)"      in ~/.bashrc; zsh_source in ~/.zshrc
_HEADRACE_COMPLETE=fish_source headrace | source       in ~/.config/fish/config.fish"""


def help_text(commands: Mapping[str, str]) -> str:
    """Returns the whole text, for ``commands`` (name → what it does)."""
    meanings, options = field_meanings(SETTINGS, "RunConfig") | {EXPERIMENT: OF_EXPERIMENTS}, groups()
    shown = [name for name in meanings if name in options]
    return "\n".join(
        [
            docstring(USAGE),
            "",
            paragraph("From raw web crawl to an evaluated language model."),
            "",
            paragraph("Commands (headrace help COMMAND explains one; headrace --version prints the version):"),
            rows((name, text.partition("\n")[0]) for name, text in commands.items()),
            "",
            paragraph("Settings (KEY=VALUE; headrace help KEY explains one):"),
            rows((name, meaning(text)) for name, text in meanings.items() if name not in options),
            "",
            paragraph(
                "Groups (GROUP=OPTION; headrace help GROUP explains its options and settings, GROUP.KEY=VALUE). The "
                "options are files of conf/ and of your own folder, --config-dir DIR (default ./conf): cleaning=mine "
                "is DIR/cleaning/mine.yaml."
            ),
            rows(row for name in shown for row in ((name, meaning(meanings[name])), ("", ", ".join(options[name])))),
            "",
            "Examples:",
            docstring(EXAMPLES),
            "",
            "Completion:",
            docstring(COMPLETION),
        ]
    )


def field_meanings(source: Path, name: str) -> dict[str, str]:
    """Returns field → the docstring under it, for the class ``name`` in the file ``source``."""
    return {
        field.target.id: str(ast.literal_eval(after.value))
        for field, after in itertools.pairwise(_classes(source.read_text(encoding="utf-8"))[name].body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr)
    }


@functools.cache
def _classes(source: str) -> dict[str, ast.ClassDef]:
    """Returns the classes of the Python code ``source`` by name. The help of all settings asks for some files often."""
    return {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
