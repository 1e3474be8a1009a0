"""The commands of this package: ``python -m headrace_courses.NAME``, with the arguments and errors of ``headrace``."""

import inspect
from collections.abc import Sequence

import click

from headrace.pipeline.__main__ import program
from headrace.pipeline.command_line.declaration import Command
from headrace.pipeline.command_line.group import without_config_dir
from headrace.pipeline.command_line.help_text import columns


def run(command: Command) -> None:
    """Runs ``command``, whose module is run as a program, and ends the process. Its help ends with the docstring of
    the module."""
    program(lambda arguments: obey(command, arguments))


def obey(command: Command, arguments: Sequence[str]) -> None:
    """Does what ``arguments`` ask of ``command``.

    Raises:
        HeadraceError: when it fails, or they ask for nothing that is known.
    """
    callback = command.callback or command.main
    module = inspect.getmodule(callback)
    command.epilog = inspect.getdoc(module)
    name = f"python -m headrace_courses.{command.name}"
    try:
        with command.make_context(name, without_config_dir([*arguments]), terminal_width=columns()) as context:
            context.invoke(callback, context.args, **context.params)
    except click.exceptions.Exit:  # help was printed
        return
