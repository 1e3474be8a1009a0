"""The command line, and the only module that imports Hydra: it composes once and hands on plain values.

headrace [COMMAND [WORD ...]] [GROUP=OPTION | KEY=VALUE ...]
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from rich.console import Console

from pipeline import facts, help_text, inspection, jobs, similar, status, submission, summary, trace, why
from pipeline.cluster import Slurm
from pipeline.config import RunConfig, check
from pipeline.core.errors import ConfigError, HeadraceError
from pipeline.core.settings import decode, suggestion
from pipeline.runner import execute, plan, save

CONF = Path(__file__).resolve().parent.parent / "conf"
HYDRA_VERSION_BASE = "1.3"
"""Pins Hydra's behaviour, whatever its version changes."""

Values = Mapping[str, Any]


def run(config: RunConfig, values: Values, words: Sequence[str] = ()) -> None:
    """Run what is left to do, on this machine or by submitting it to SLURM."""
    steps = plan(config)
    run_json = save(config, values, steps)
    if any(step.name == "signatures" and not step.is_whole for step in steps):
        print(f"{'dedup':<11} {config.dedup.expected_cost}", file=sys.stderr)
    if isinstance(config.cluster, Slurm):
        submission.submit(steps, config.cluster, run_json)
        return
    for step in steps:
        if step.is_whole:
            print(f"{step.name:<11} done before: {step.folder}", file=sys.stderr)
        else:
            execute(step, config, run_json)
    summary.show(steps)


def show_status(config: RunConfig, values: Values, words: Sequence[str]) -> None:
    """Print one row per stage, and a line for each that has a job."""
    steps = plan(config)
    job_states = jobs.states(steps)
    Console(soft_wrap=True).print(status.table(steps, job_states))
    for stage, state in job_states.items():
        print(f"{stage}: {state}")


def show_why(config: RunConfig, values: Values, words: Sequence[str]) -> None:
    """Print what became of a document: dropped by which rule, duplicate of what, its tokens and rows."""
    facts.show(why.explain(plan(config), config.source, words[0]))


def show_trace(config: RunConfig, values: Values, words: Sequence[str]) -> None:
    """Print which document the token at OFFSET of token shard SHARD comes from."""
    facts.show(trace.explain(plan(config), *words))


def show_inspection(config: RunConfig, values: Values, words: Sequence[str]) -> None:
    """Print a few documents of clean or unique: kept ones, those that RULE dropped, or both."""
    facts.show(inspection.documents(plan(config), *words))


def show_similar(config: RunConfig, values: Values, words: Sequence[str]) -> None:
    """Print which documents of clean are similar to the text in FILE."""
    facts.show(similar.explain(plan(config), words[0]))


@dataclasses.dataclass(frozen=True)
class Command:
    """What a command does, and the words it takes before the overrides; those in [brackets] may be left out."""

    run: Callable[[RunConfig, Values, Sequence[str]], None]
    words: tuple[str, ...] = ()

    @property
    def required(self) -> int:
        return sum(not word.startswith("[") for word in self.words)


COMMANDS = {
    "run": Command(run),
    "status": Command(show_status),
    "why": Command(show_why, ("DOCUMENT_ID|URL",)),
    "trace": Command(show_trace, ("SHARD", "OFFSET")),
    "similar": Command(show_similar, ("FILE|-",)),
    "inspect": Command(show_inspection, ("STAGE", "[RULE]", "[NUMBER]")),
}


def split_words(name: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of the command ``name`` and the overrides behind them.

    A document id or URL may hold a ``=`` of its own, so a word that must be there is only taken for an override when
    it begins with the name of a setting.

    Raises:
        ConfigError: when there are too few words or too many.
    """
    command, words = COMMANDS[name], list[str]()
    for argument in arguments[: len(command.words)]:
        if _sets_something(argument) if len(words) < command.required else "=" in argument:
            break
        words.append(argument)
    overrides = list(arguments[len(words) :])
    if command.words and (len(words) < command.required or (overrides and "=" not in overrides[0])):
        got = " ".join(map(repr, [*words, *(o for o in overrides[:1] if "=" not in o)])) or "nothing"
        usage = " ".join(["headrace", name, *command.words, "[KEY=VALUE ...]"])
        raise ConfigError("command line", f"{name} does not go with {got}", f"usage: {usage}")
    return words, overrides


def _sets_something(argument: str) -> bool:
    key, equals, _ = argument.partition("=")
    settings = {field.name for field in dataclasses.fields(RunConfig)} | {"experiment", "hydra"}
    return bool(equals) and re.split("[.@]", key.lstrip("+~"))[0] in settings


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration as plain values.

    Raises:
        ConfigError: when an override does not fit, naming the nearest that would.
    """
    with hydra.initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        try:
            return _plain(hydra.compose("config", overrides=list(overrides)))
        except MissingConfigException as error:
            raise _missing_option(error) from None
        except MissingMandatoryValue as error:
            raise ConfigError(str(error.full_key), "has no value", f"give it one: {error.full_key}=…") from None
        except OverrideParseException as error:
            raise ConfigError("command line", f"{error.override!r} is not an override", "write KEY=VALUE") from None
        except (ConfigCompositionException, HydraException, OmegaConfBaseException) as error:
            raise _unknown_key(error, overrides) from None


def _plain(config: DictConfig) -> dict[str, Any]:
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _missing_option(error: MissingConfigException) -> ConfigError:
    group, _, option = str(error.missing_cfg_file).rpartition("/")
    return ConfigError(group or "command line", f"unknown option {option!r}", suggestion(option, error.options or ()))


def _unknown_key(error: Exception, overrides: Sequence[str]) -> ConfigError:
    known = _dotted(_plain(hydra.compose("config")))
    for override in overrides:
        key = override.split("=")[0].lstrip("+~").split("@")[0]
        if key not in known and key != "experiment":
            return ConfigError("command line", f"unknown key {key!r}", suggestion(key, known))
    return ConfigError("command line", str(error).splitlines()[0], "correct the override")


def _dotted(values: Mapping[str, Any], prefix: str = "") -> set[str]:
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
        values = _plain(config)
        run(decoded(values), values)

    sys.argv = ["headrace", "--multirun", *overrides]
    hydra.main(version_base=HYDRA_VERSION_BASE, config_path=str(CONF), config_name="config")(one)()


def main() -> None:
    """The ``headrace`` command."""
    arguments = sys.argv[1:]
    try:
        if {"-h", "--help", "help"} & set(arguments):
            usages = {" ".join([name, *command.words]): command.run for name, command in COMMANDS.items()}
            print(help_text.help_text(CONF, usages))
        elif {"-m", "--multirun"} & set(arguments):
            sweep([argument for argument in arguments if argument not in ("-m", "--multirun")])
        else:
            name = arguments.pop(0) if arguments and "=" not in arguments[0] else "run"
            if name not in COMMANDS:
                raise ConfigError("command line", f"unknown command {name!r}", suggestion(name, COMMANDS))
            words, overrides = split_words(name, arguments)
            values = compose(overrides)
            COMMANDS[name].run(decoded(values), values, words)
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("headrace: stopped; run the same command again to go on", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
