"""``headrace --help``: the commands, the groups with their options, and every setting with its meaning.

The meanings are the docstrings under the fields of RunConfig, read from its source. Text is wrapped to the width of the
terminal (80 columns when it is piped), and nothing is cut:

paragraph     words of consecutive lines, wrapped
rows          ``headrace runs --json      one JSON object per line``: a column of terms and one of their meanings
indented      tables and drawings, as they are; a line that is too long continues in the next one
"""

import ast
import functools
import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headrace.pipeline.configuration.options import EXPERIMENT, groups

EXAMPLES = """\
python -m headrace.documentation                                writes installed documentation as pages, for a first run
headrace experiment=demo                                        the whole line on them
headrace source=warc source.paths='[crawl/*.warc.gz]'           ... on your crawl (WARC, WET); also html, jsonl, parquet
headrace until=packed                                           the data stages only
headrace status                                                 one row per stage of the newest run
headrace why numpy.jsonl:2                                      what became of a document, by id or URL
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
LEAST_COLUMNS = 30
"""A narrower terminal gets lines of this width."""
LEAST_MEANING = 24
"""A meaning with less space stands below its term."""
ROW = re.compile(r"(headrace\b(?! [\w-]+:).*?|_HEADRACE.*?|eval .*?)(?:  +(.*))?")
"""A command, and its meaning after at least two spaces."""


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


def columns() -> int:
    """Returns the width of the terminal, or 80 when the output is no terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, LEAST_COLUMNS)


def meaning(text: str) -> str:
    """Returns a docstring of a setting or a class as the user reads it: in one line, with YAML's name of None."""
    return re.sub(r"\bNone\b", "null", " ".join(text.replace("``", "").split()))


def paragraph(text: str, indent: int = 0) -> str:
    """Returns the words of ``text``, wrapped and indented."""
    return _fold(" ".join(text.split()), " " * indent, " " * indent)


def rows(entries: Iterable[tuple[str, str]], indent: int = 2, most: int = 40) -> str:
    """Returns terms and their meanings in two columns. The first one is at most ``most`` wide.

    A meaning stands below its term where the term is wider, or where little space is left.
    """
    entries = list(entries)
    most = min(most, columns() - indent - 2 - LEAST_MEANING)
    start = indent + max([2, *(len(term) for term, _ in entries if len(term) <= most)]) + 2
    return "\n".join(_row(term, meaning, indent, start) for term, meaning in entries)


def _row(term: str, meaning: str, indent: int, start: int) -> str:
    continued = " \\\n" if term.startswith("headrace ") else "\n"  # what a shell reads as one command
    head = continued.join(_wrapped(term, " " * indent, " " * (indent + 4), columns() - 2))
    body = _fold(meaning, " " * start, " " * start) if meaning else ""
    if "\n" in head or len(head) + 2 > start:
        return f"{head}\n{body}" if body else head
    return f"{head:<{start}}{body.lstrip()}".rstrip()


def docstring(text: str) -> str:
    """Returns the docstring of a command: its paragraphs, its examples and its drawings."""
    blocks = re.split(r"\n{2,}", text.replace("``", "").strip("\n"))
    return "\n\n".join("\n".join(_parts(block.split("\n"))) for block in blocks)


def _parts(lines: Sequence[str]) -> Iterable[str]:
    """Yields the laid out parts of a block: consecutive lines of one kind."""
    for kind, group in itertools.groupby(lines, _kind):
        if kind == "rows":
            matches = [ROW.fullmatch(line) for line in group]
            yield rows([(match[1], match[2] or "") for match in matches if match], indent=0, most=64)
        elif kind == "indented":
            yield "\n".join(_indented(line) for line in group)
        else:
            yield paragraph(" ".join(group))


def _kind(line: str) -> str:
    return "indented" if line.startswith(" ") else "rows" if ROW.fullmatch(line) else "paragraph"


def _indented(line: str) -> str:
    """Returns a line of a table or drawing; if it is too long, it continues in the next line, further to the right."""
    body = line.lstrip(" ")
    before = " " * (len(line) - len(body))
    return line if len(line) <= columns() else _fold(body, before, f"{before}    ")


def _fold(text: str, first: str, later: str) -> str:
    return "\n".join(_wrapped(text, first, later, columns()))


def _wrapped(text: str, first: str, later: str, width: int) -> list[str]:
    """Wraps ``text`` between words, with indents for its first line and for later ones."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )
