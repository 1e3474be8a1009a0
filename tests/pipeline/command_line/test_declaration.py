"""Declared commands: arguments and overrides are separated, help, and an added command."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline import commands
from headrace.pipeline.command_line import group
from headrace.pipeline.command_line.declaration import load, module_of, read
from headrace.pipeline.command_line.group import COMMANDS
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here, understood

STATUS = "usage: headrace status [RUN] [--watch] [--logs] [--stage STAGE] [--lines N] [KEY=VALUE ...]"


@pytest.mark.parametrize(
    ("arguments", "given", "overrides"),
    [
        ("why numpy:2 experiment=demo", {"name": "numpy:2"}, ["experiment=demo"]),
        ("why https://a.example/?id=3&x=4 root=r", {"name": "https://a.example/?id=3&x=4"}, ["root=r"]),
        ("why year=2024/a.jsonl:3", {"name": "year=2024/a.jsonl:3"}, []),
        ("why root=r numpy:2 modle.x=1", {"name": "numpy:2"}, ["root=r", "modle.x=1"]),
        ("why -- root=r", {"name": "root=r"}, []),
        ("why root=q -- -a=1", {"name": "-a=1"}, ["root=q"]),
        ("why - --tokens 9 root=r", {"name": "-", "tokens": "9"}, ["root=r"]),
        ("status root=r", {}, ["root=r"]),
        ("status small root=r", {"run": "small"}, ["root=r"]),
        ("why numpy:2 --run small root=r", {"name": "numpy:2", "run": "small"}, ["root=r"]),
        ("status ~evaluation.benchmarks.ptb", {}, ["~evaluation.benchmarks.ptb"]),
        ("status ~model.x +model.x=1", {}, ["~model.x", "+model.x=1"]),
        ("status modle.x=1", {}, ["modle.x=1"]),
        ("inspect clean --rule c4_lines --sample 5", {"stage": "clean", "rule": "c4_lines", "sample": "5"}, []),
        ("inspect --sample=5 clean root=r", {"stage": "clean", "sample": "5"}, ["root=r"]),
        ("inspect clean root=r --rule until=x until=clean", {"stage": "clean", "rule": "until=x"}, ["root=r", "until=clean"]),  # noqa: E501
        ("forget --ids a=b.txt root=r", {"ids": "a=b.txt"}, ["root=r"]),
        ("run -m ranks=1,2", {"multirun": True}, ["ranks=1,2"]),
    ],
)  # fmt: skip
def test_arguments_and_overrides_are_told_apart(arguments: str, given: dict[str, object], overrides: list[str]) -> None:
    assert understood(*arguments.split()) == (given, overrides)


WHY = (
    "why DOCUMENT_ID|URL|… [--as [document|token|step|text|page|item]] [--blocks] [--rank RANK] [--ranks RANKS] "
    "[--tokens N] [--documents N] [--run RUN] [KEY=VALUE ...]"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("why", f"why needs DOCUMENT_ID|URL|…; usage: headrace {WHY}"),
        ("why root=r", f"why needs DOCUMENT_ID|URL|…; usage: headrace {WHY}"),
        ("why a:1 b:2", "'b:2' is not an override; write KEY=VALUE"),
        (
            "why a:1 -- source=x",
            f"too many arguments: source=x; usage: headrace {WHY}",
        ),
        ("status a -- root=r", f"too many arguments: root=r; {STATUS}"),
        ("trace 3 12 root=r", "unknown command 'trace'; it is gone: headrace why SHARD:OFFSET --as token"),
        ("inspect clean --rul x", "inspect has no option '--rul'; did you mean '--rule'?"),
        (
            "forget --ids",
            "Option '--ids' requires an argument; usage: headrace forget --ids FILE [--run RUN] [KEY=VALUE ...]",
        ),
        ("forget root=r", "forget needs --ids; usage: headrace forget --ids FILE [--run RUN] [KEY=VALUE ...]"),
        ("status --run a", f"status has no option '--run'; {STATUS}"),
        ("--hepl", "headrace has no option '--hepl'; did you mean '--help'?"),
        ("wy numpy:2", "unknown command 'wy'; did you mean 'why'?"),
    ],
)
def test_a_mistake_gets_one_line(arguments: str, message: str) -> None:
    done = headrace_here(*arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"headrace: command line: {message}\n")


def test_each_module_of_the_folder_is_a_command() -> None:
    modules = {path.stem for path in Path(commands.__path__[0]).glob("[!_]*.py")}
    assert modules == {module_of(name) for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_declaration_is_that_of_the_module(name: str) -> None:
    """The declaration that is read without imports equals the imported module's."""
    light, whole = read(name), getattr(load(f"commands.{module_of(name)}"), name.replace("-", "_"))
    assert [param.to_info_dict() for param in light.params] == [param.to_info_dict() for param in whole.params]
    assert light.help == whole.help
    done = headrace_here(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: headrace {name} ")
    assert f"headrace {name}" in done.stdout.partition("\n\n")[2], "the docstring of the module"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A second folder for modules of commands."""
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    return tmp_path


COMMAND = '''"""``headrace greet``: greets.

headrace greet Anna --loud
"""

from collections.abc import Sequence

import click
import no_such_library_is_installed as heavy

from headrace.pipeline.command_line.declaration import command


@command
@click.argument("name", metavar="NAME")
@click.option("--loud", is_flag=True, help="Shout.")
def greet(overrides: Sequence[str], name: str, loud: bool) -> None:
    """Greets NAME."""
    print(("HELLO {}" if loud else "Hello {}").format(name), *overrides)
'''


def test_a_command_is_one_module_and_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help and completion read it without its libraries."""
    (folder / "greet.py").write_text(COMMAND)
    monkeypatch.setattr(group, "COMMANDS", (*COMMANDS, "greet"))
    assert "\n  greet             Greets NAME.\n" in headrace_here("--help").stdout
    shown = headrace_here("greet", "--help").stdout
    assert "Usage: headrace greet NAME [--loud] [KEY=VALUE ...]\n" in shown
    assert "headrace greet Anna --loud\n" in shown
    monkeypatch.setenv("_HEADRACE_COMPLETE", "bash_complete")
    for words, found in (("headrace gre", "plain,greet"), ("headrace greet --l", "plain,--loud")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert headrace_here().stdout == f"{found}\n"
    monkeypatch.delenv("_HEADRACE_COMPLETE")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        headrace_here("greet", "Anna")
    (folder / "greet.py").write_text(COMMAND.replace("import no_such_library_is_installed as heavy\n", ""))
    done = headrace_here("greet", "root=x", "Anna", "--loud", "ranks=2")
    assert done.stdout == "HELLO Anna root=x ranks=2\n"
    with pytest.raises(ConfigError, match=r"^command line: greet has no option '--lod'; did you mean '--loud'"):
        understood("greet", "Anna", "--lod")


def test_nothing_heavy_is_imported_for_help() -> None:
    code = (
        "import sys; from headrace.pipeline.__main__ import main; sys.argv = ['headrace', *sys.argv[1:]]; main(); "
        "heavy = {'hydra', 'omegaconf', 'yaml', 'numpy', 'torch', 'pydantic', 'rich', 'datatrove'} & set(sys.modules); "
        "print(heavy, file=sys.stderr)"
    )
    for arguments in (["--help"], ["why", "--help"], []):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
        assert done.stderr == "set()\n", arguments


@pytest.mark.parametrize(
    ("arguments", "own", "overrides"),
    [
        (["lr=0.1", "training.steps=9"], ["lr=0.1", "training.steps=9"], []),
        (["lr=0.1", "model=tiny", "root=x"], ["lr=0.1", "model=tiny"], ["root=x"]),
        (["runs/a=b", "none/a=b", "evaluation=standard"], ["runs/a=b", "none/a=b"], ["evaluation=standard"]),
        (["lr=0.1", "~/a=b", "~evaluation.data"], ["lr=0.1", "~/a=b"], ["~evaluation.data"]),
        (["./model=tiny", "--only", "x", "lr=0.1/"], ["./model=tiny", "lr=0.1/"], []),
        (["lr=0.1", "--", "model=tiny", "none=1"], ["lr=0.1", "model=tiny", "none=1"], []),
        (["a", "b", "none=1"], ["a", "b"], ["none=1"]),
    ],
)
def test_existing_paths_may_hold_an_equals_sign(
    arguments: list[str], own: list[str], overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("lr=0.1", "training.steps=9", "model=tiny", "runs/a=b"):
        Path(folder).mkdir(parents=True)
    for command in ("evaluate", "compare"):
        values, found = understood(command, *arguments)
        assert ([*values["names"]], found) == (own, overrides)


def test_what_is_loaded_late_exists() -> None:
    """The type checker does not see through ``load("MODULE").NAME``."""
    sources = [path.read_text(encoding="utf-8") for path in Path(commands.__file__).parents[1].rglob("*.py")]
    late = {match.groups() for source in sources for match in re.finditer(r'\bload\("([\w.]+)"\)(?:\.(\w+))?', source)}
    assert ("command_line.request", "with_settings") in late
    assert [(module, name) for module, name in late if name and not hasattr(load(module), name)] == []
