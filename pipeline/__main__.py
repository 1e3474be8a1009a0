"""The command line, and the only module that imports Hydra: it composes once and hands on plain values.

headrace [COMMAND [WORD ...]] [GROUP=OPTION | KEY=VALUE ...]
"""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from headrace.pipeline.commands import help_text
from headrace.pipeline.commands.table import COMMANDS, split_words
from headrace.pipeline.config import RunConfig, check
from headrace.pipeline.core.errors import ConfigError, HeadraceError
from headrace.pipeline.core.settings import decode, refuse_secrets, suggestion
from headrace.pipeline.core.signals import Stop, stoppable
from headrace.pipeline.core.system_errors import system_errors_told
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run, newest, plan

CONF = Path(__file__).resolve().parent.parent / "conf"
HYDRA_VERSION_BASE = "1.3"
"""Pins Hydra's behaviour, whatever its version changes."""
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


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration as plain values.

    Raises:
        ConfigError: when an override does not fit, naming the nearest that would, or holds a secret.
    """
    refuse_secrets_of(overrides)
    with hydra.initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        try:
            return _plain(hydra.compose("config", overrides=list(overrides)))
        except MissingConfigException as error:
            raise _missing_option(error) from None
        except MissingMandatoryValue as error:
            key = re.sub(r"\[(\d+)\]", r".\1", str(error.full_key))
            raise ConfigError(key, "has no value", f"give it one: {key}=…") from None
        except OverrideParseException as error:
            raise ConfigError("command line", f"{error.override!r} is not an override", "write KEY=VALUE") from None
        except (ConfigCompositionException, HydraException, OmegaConfBaseException) as error:
            raise _unknown_key(error, overrides) from None


def refuse_secrets_of(overrides: Sequence[str]) -> None:
    """Refuse overrides that hold a secret: they are kept in run.json, also those that a later one replaces.

    Raises:
        ConfigError: naming the key.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        refuse_secrets(value, key if value else "command line")


def _plain(config: DictConfig) -> dict[str, Any]:
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _missing_option(error: MissingConfigException) -> ConfigError:
    group, _, option = str(error.missing_cfg_file).rpartition("/")
    return ConfigError(group or "command line", f"unknown option {option!r}", suggestion(option, error.options or ()))


def _unknown_key(error: Exception, overrides: Sequence[str]) -> ConfigError:
    chosen = [override for override in overrides if (CONF / override.partition("=")[0]).is_dir()]
    known = _dotted(OmegaConf.to_container(hydra.compose("config", overrides=chosen)))
    for override in overrides:
        key = override.split("=")[0].lstrip("~").split("@")[0]
        if not key.startswith("+") and key not in known and key != "experiment":
            added = f" (one of your own: +{key}=…)" if key.startswith("evaluation.benchmarks.") else ""
            return ConfigError("command line", f"unknown key {key!r}", suggestion(key, known) + added)
    return ConfigError("command line", str(error).splitlines()[0], "correct the override")


def _dotted(values: Any, prefix: str = "") -> set[str]:
    """Every dotted path into ``values``."""
    found = set()
    for key, value in values.items():
        found.add(prefix + key)
        if isinstance(value, Mapping):
            found |= _dotted(value, f"{prefix}{key}.")
    return found


def decoded(values: Values) -> RunConfig:
    """The checked configuration."""
    config = decode(RunConfig, values)
    check(config)
    return config


def sweep(overrides: Sequence[str]) -> None:
    """``-m``: every combination of comma-separated values, through Hydra's own sweeper and launchers."""

    def one(config: DictConfig) -> None:
        carry_out(planned(_plain(config), list(HydraConfig.get().overrides.task)))

    refuse_secrets_of(overrides)
    sys.argv = ["headrace", "--multirun", *overrides]
    hydra.main(version_base=HYDRA_VERSION_BASE, config_path=str(CONF), config_name="config")(one)()


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
        sweep([argument for argument in arguments if argument not in ("-m", "--multirun")])
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
