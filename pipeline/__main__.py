"""The command line.

headrace [COMMAND [WORD ...]] [GROUP=OPTION | KEY=VALUE ...]
"""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any

from headrace.pipeline.commands import help_text
from headrace.pipeline.commands.table import COMMANDS, split_words
from headrace.pipeline.composition import CONF, compose, sweep
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.core.errors import ConfigError, HeadraceError, suggestion
from headrace.pipeline.core.signals import Stop, stoppable
from headrace.pipeline.core.system_errors import system_errors_told
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run, newest, plan

BROKEN_PIPE = 141
"""The exit status of a command whose reader went away, as shells give it (128 + SIGPIPE)."""

Values = Mapping[str, Any]


def run(overrides: Sequence[str]) -> None:
    """Run what is left to do, on this machine or by submitting it to SLURM."""
    carry_out(planned(compose(overrides), overrides))


def look(name: str, arguments: Sequence[str]) -> None:
    """Do the command ``name``: on the run of the given settings, or on the newest when none of them chooses one; if it
    needs no run, on the settings."""
    words, overrides = split_words(name, arguments, names_setting)
    values, command = compose(overrides), COMMANDS[name]
    if not command.of_run:
        command.show(decoded(values), *words)
        return
    given = {setting_of(override) for override in overrides} - {"root"}
    if given - set(command.may_change):
        command.show(planned(values, overrides), *words)
        return
    run = newest(decoded(values).root)
    command.show(changed(run, overrides, given) if given else run, *words)


def changed(run: Run, overrides: Sequence[str], names: Set[str]) -> Run:
    """``run`` with what ``overrides`` make of the settings ``names``, and the same artifacts."""
    anew = {override.partition("=")[0] for override in overrides}
    before = [override for override in run.overrides if override.partition("=")[0] not in anew]
    config = decoded(compose([*before, *overrides]))
    values = {name: getattr(config, name) for name in names}
    return dataclasses.replace(run, config=dataclasses.replace(run.config, **values))


def planned(values: Values, overrides: Sequence[str]) -> Run:
    """The run of the configuration ``values``, which ``overrides`` led to."""
    config = decoded(values)
    return Run(config, values, plan(config), overrides)


def names_setting(argument: str) -> bool:
    """Whether ``argument`` is an override: a ``=`` behind the name of a setting."""
    known = {field.name for field in dataclasses.fields(RunConfig)} | {"experiment", "hydra"}
    return "=" in argument and setting_of(argument) in known


def setting_of(override: str) -> str:
    """The field of RunConfig that ``override`` is about."""
    return re.split("[.@]", override.partition("=")[0].lstrip("+~"))[0]


@stoppable()
def main() -> None:
    """The ``headrace`` command."""
    try:
        with system_errors_told("headrace"):
            check_place(sys.argv)
            obey(sys.argv[1:])
            sys.stdout.flush()
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except Stop as stop:
        print(f"headrace: {stop}", file=sys.stderr)
        sys.exit(stop.exit_status)


def check_place(arguments: Sequence[str]) -> None:
    """Refuse what no command can work with: a current folder that is gone, arguments that no file of ours can hold.

    Raises:
        ConfigError: saying which.
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


def obey(arguments: list[str]) -> None:
    """Do what ``arguments`` ask for.

    Raises:
        HeadraceError: when they ask for nothing that is known, or it fails.
    """
    if {"-h", "--help", "help"} & set(arguments):
        usages = {" ".join([name, *command.words]): command.show for name, command in COMMANDS.items()}
        print(help_text.help_text(CONF, {"run": run, **usages}))
    elif {"-m", "--multirun"} & set(arguments):
        overrides = [argument for argument in arguments if argument not in ("-m", "--multirun")]
        sweep(overrides, lambda values, own: carry_out(planned(values, own)))
    else:
        name = arguments.pop(0) if arguments and "=" not in arguments[0] else "run"
        if name in COMMANDS:
            look(name, arguments)
        elif name == "run":
            run(arguments)
        else:
            known = suggestion(name, ["run", *COMMANDS])
            raise ConfigError("command line", f"unknown command {name!r}", known)


if __name__ == "__main__":
    main()
