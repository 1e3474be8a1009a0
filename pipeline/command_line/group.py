"""The command line as click knows it: the group of all commands, its help, its errors and its completion."""

import os
from collections.abc import Sequence

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

from headrace.pipeline.command_line import declaration, help_text
from headrace.pipeline.command_line.declaration import PIPES, WHERE, plain_errors
from headrace.pipeline.command_line.help_text import columns
from headrace.pipeline.configuration.options import EXPERIMENT, groups, names
from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError, suggestion

COMMANDS = (
    "run",
    "help",
    "config",
    "plan",
    "generate",
    "evaluate",
    "compare",
    "ladder",
    "study",
    "status",
    "runs",
    "cancel",
    "du",
    "why",
    "inspect",
    "export",
    "audit",
    "train-classifier",
    "forget",
    "mirror",
    "release",
    *PIPES,
)
"""The commands, in their order in ``headrace --help``. Each is a module of pipeline/commands/ (declaration.py)."""
COMPLETE = "_HEADRACE_COMPLETE"
"""The environment variable with which a shell asks for completions, and a user for the script (``bash_source``)."""
CONFIG_OPTION = "--config-dir"
OF_RUN = ("-m", "--multirun", "--dry-run")
"""Options of ``run``, whose name may be left out."""


class CommandLine(click.Group):
    """The commands of the table. An override instead of a command starts a run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return declaration.read(cmd_name) if cmd_name in COMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = without_config_dir(args)
        at = next((number for number, word in enumerate(args) if word in COMMANDS), 0)
        if args and args[0].startswith("-") and at:
            args = [args[at], *args[:at], *args[at + 1 :]]
        elif args and ("=" in args[0] or args[0] in OF_RUN):
            args = ["run", *args]
        elif not args or args == ["help"]:
            args = ["--help"]
        with plain_errors(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise ConfigError(WHERE, f"unknown command {args[0]!r}", command_remedy(args[0]))
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, declaration.read(name)) for name in COMMANDS]
        formatter.write(help_text.help_text({name: command.help or "" for name, command in commands}))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return super().shell_complete(ctx, incomplete) + declaration.override_items(incomplete)


def command_remedy(name: str) -> str:
    """Returns the remedy for the unknown command ``name``, which may be a group, an experiment or a setting."""
    group = name.partition(".")[0]
    if name in groups():
        return f"headrace help {name} explains the group"
    if name in groups()[EXPERIMENT]:
        return f"did you mean '{EXPERIMENT}={name}'?"
    return f"write {name}=VALUE" if group in names() else suggestion(name, COMMANDS, f"headrace {name}")


def without_config_dir(args: list[str]) -> list[str]:
    """Returns ``args`` without ``--config-dir DIR``, which every command takes; keeps DIR in the environment.

    Raises:
        ConfigError: when DIR is missing.
    """
    end = args.index("--") if "--" in args else len(args)
    for index, argument in enumerate(args[:end]):
        option, equals, folder = argument.partition("=")
        if option == CONFIG_OPTION:
            after = index + 1 if equals else index + 2
            if not equals and after > end:
                raise ConfigError(WHERE, f"{CONFIG_OPTION} needs a folder", f"write {CONFIG_OPTION} DIR")
            os.environ[CONFIG_DIR] = folder if equals else args[index + 1]
            return [*args[:index], *args[after:]]
    return args


HEADRACE = CommandLine("headrace", context_settings={"help_option_names": ["-h", "--help"]})
click.version_option(package_name="headrace", message="%(prog)s %(version)s")(HEADRACE)


@add_completion_class
class Bash(BashComplete):
    """Completion for bash, which splits words at ``=``: ``model=gpt`` arrives as ``model``, ``=``, ``gpt``."""

    source_template = BashComplete.source_template.replace(
        "    return 0\n", "    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n    return 0\n"
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        before, incomplete = super().get_completion_args()
        words = list[str]()
        for word in (*before, incomplete):
            if words and (word == "=" or words[-1].endswith("=")):
                words[-1] += word
            else:
                words.append(word)
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value.rpartition('=')[2] or item.value}"


@add_completion_class
class Zsh(ZshComplete):
    """Completion for zsh, without the space that zsh adds after a completed word, also after ``model=``."""

    source_template = ZshComplete.source_template.replace("compadd -U", "compadd -S '' -U")


def obey(arguments: Sequence[str]) -> None:
    """Does what ``arguments`` ask for, or answers the shell that asks for completions.

    Raises:
        HeadraceError: when they ask for nothing that is known, or it fails.
    """
    if instruction := os.environ.get(COMPLETE):
        shell_complete(HEADRACE, {}, "headrace", COMPLETE, instruction)
        return
    try:
        with HEADRACE.make_context("headrace", list(arguments), terminal_width=columns()) as context:
            HEADRACE.invoke(context)
    except click.exceptions.Exit:  # help or version was printed
        return
