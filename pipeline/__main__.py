"""The ``headrace`` command: its arguments, its errors and its exit status."""

import os
import sys
from collections.abc import Callable, Sequence

from headrace.pipeline.command_line.group import obey
from headrace.pipeline.core import environment
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.extras import missing_packages_explained
from headrace.pipeline.core.signals import Stop, quick_exit, stoppable
from headrace.pipeline.core.system_errors import system_errors_explained

BROKEN_PIPE = 141
"""The exit status of a command whose reader went away, as shells give it (128 + SIGPIPE)."""


def program(obeying: Callable[[Sequence[str]], None] = obey) -> None:
    """Runs the command line of this process, and ends the process. ``obeying`` does what the arguments ask for."""
    environment.prepare()
    with quick_exit():
        main(obeying)


@stoppable()
def main(obeying: Callable[[Sequence[str]], None] = obey) -> None:
    """Runs the command line of this process."""
    try:
        with system_errors_explained("headrace"), missing_packages_explained("packages"):
            check_process(sys.argv)
            obeying(sys.argv[1:])
            print(end="", flush=True)
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except Stop as stop:
        print(f"headrace: {stop}", file=sys.stderr)
        sys.exit(stop.exit_status)


def check_process(arguments: Sequence[str]) -> None:
    """Refuses what no command can work with: a current folder that was removed, arguments that are not UTF-8.

    Raises:
        ConfigError: naming the folder or the argument.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError("headrace", "the current folder was removed", "change to another (cd)") from None
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise ConfigError("command line", f"{argument!r} is not UTF-8", "rename what it names") from None


if __name__ == "__main__":
    program()
