"""The composed configuration: Hydra reads conf/ and the overrides, and hands on plain values.

The only module that imports Hydra.
"""

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from headrace.pipeline.conf_folder import CONF, EXPERIMENT, groups, own_folder, setting_of
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import refuse_secrets

HYDRA_VERSION_BASE = "1.3"
"""Pins Hydra's behaviour, whatever its version changes."""
PRIMARY = "headrace"
"""Hydra's name of conf/config.yaml, so that a config.yaml in the user's folder is not read."""
FILTERS = "cleaning.filters"
BELOW_FILTERS = re.compile(rf"([+~]*){re.escape(FILTERS)}\.([^=]+)(=.*)?", re.DOTALL)
"""An override of one filter, or of a field of it."""


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """Composes the configuration, as plain values.

    Raises:
        ConfigError: when an override does not fit, naming the nearest that would, or holds a secret.
    """
    refuse_secrets_of(overrides)
    with _hydra(overrides):
        numbered, removed = split_removals(with_numbers(overrides))
        composed = hydra.compose(PRIMARY, [_settable(one) for one in numbered], return_hydra_config=True)
        announce(composed.hydra.runtime.choices)
        return _plain(composed, removed)


@contextlib.contextmanager
def _hydra(overrides: Sequence[str]) -> Iterator[None]:
    """Prepares Hydra, and turns what it finds wrong with ``overrides`` in the block into an error of ours.

    Raises:
        ConfigError: in the place of an error of Hydra.
    """
    with hydra.initialize_config_dir(_search(), version_base=HYDRA_VERSION_BASE):
        try:
            yield
        except MissingConfigException as error:
            raise _missing_option(error) from None
        except MissingMandatoryValue as error:
            key = re.sub(r"\[(\d+)\]", r".\1", str(error.full_key))
            raise ConfigError(key, "has no value", f"give it one: {key}=…") from None
        except OverrideParseException as error:
            typed = _in_typed_form(str(error.override), overrides)
            has_more = "=" in typed.partition("=")[2]
            remedy = "put a value that holds '=' in quotes: KEY=['--name=value']" if has_more else "write KEY=VALUE"
            raise ConfigError("command line", f"{typed!r} is not an override", remedy) from None
        except (ConfigCompositionException, HydraException, OmegaConfBaseException) as error:
            raise _unknown_key(error, overrides) from None


def _search() -> str:
    """Prepares Hydra's search for options: in the user's folder first, then in ours. Returns the first folder."""
    primary, own = OmegaConf.load(CONF / "config.yaml"), own_folder()
    primary.hydra.searchpath = [f"file://{CONF}"] if own else []
    ConfigStore.instance().store(PRIMARY, primary)
    return str(own or CONF)


def announce(choices: Mapping[str, Any]) -> None:
    """Prints which of the chosen options (group → option) are files of the user's folder."""
    if own := own_folder():
        for group, option in choices.items():
            if (file := own / group / f"{option}.yaml").is_file():
                replaces = (CONF / group / file.name).is_file()
                _note(f"{group}={option} is {file}" + (", in place of the file of that name in Headrace" * replaces))


@functools.cache
def _note(line: str) -> None:
    """Prints ``line`` to stderr, once in this process."""
    print(line, file=sys.stderr)


def with_numbers(overrides: Sequence[str]) -> list[str]:
    """Returns ``overrides`` with numbers in the place of names: ``cleaning.filters.c4_lines.min_sentences=5`` becomes
    ``cleaning.filters.2.min_sentences=5``, by the list of the chosen preset.

    Raises:
        ConfigError: when the list has no filter or rule of that name, or several.
    """
    if not any(map(BELOW_FILTERS.fullmatch, overrides)):
        return list(overrides)
    preset = [
        one for one in overrides if setting_of(one) in ("cleaning", EXPERIMENT) and not BELOW_FILTERS.fullmatch(one)
    ]
    filters = OmegaConf.to_container(hydra.compose(PRIMARY, preset).cleaning.filters)
    return [_numbered(one, filters) for one in overrides]


def _numbered(override: str, filters: Any) -> str:
    if not (found := BELOW_FILTERS.fullmatch(override)):
        return override
    values, typed, numbers = filters, FILTERS, [found[1] + FILTERS]
    for part in found[2].split("."):
        if isinstance(values, list):
            index = _index_of(part, values, typed)
            numbers.append(str(index))
            values = values[index]
        else:
            numbers.append(part)
            values = values.get(part) if isinstance(values, dict) else None
        typed += f".{part}"
    return ".".join(numbers) + (found[3] or "")


def _index_of(part: str, entries: Sequence[Any], where: str) -> int:
    """Returns the index of the entry that ``part`` names: its number, its type, or the name of one's own class."""
    names = [{str(index), *_entry_names(entry)} for index, entry in enumerate(entries)]
    found = [index for index, known in enumerate(names) if part in known]
    if not found:
        known = [name for some in names for name in some if not name.isdigit()]
        raise ConfigError(where, f"has no entry {part!r}", suggestion(part, known))
    if len(found) > 1:
        remedy = f"give the number of one of them: {where}.{found[0]}"
        raise ConfigError(where, f"has {len(found)} entries {part!r} ({', '.join(map(str, found))})", remedy)
    return found[0]


def _entry_names(entry: Any) -> set[str]:
    """Returns the type of a filter or rule, and for a filter of type ``python`` the name of its class."""
    if not isinstance(entry, dict) or "type" not in entry:
        return set()
    is_own = entry["type"] == "python"
    return {str(entry["type"])} | ({str(entry.get("path")).rpartition(":")[2]} if is_own else set())


def sweep(overrides: Sequence[str], start: Callable[[dict[str, Any], list[str]], None]) -> None:
    """Calls ``start`` for each combination of comma-separated values, with the configuration and its own overrides.

    Hydra's own sweeper and launchers do this (``headrace -m``).
    """

    refuse_secrets_of(overrides)
    with _hydra(overrides):
        numbered, removed = split_removals(with_numbers(overrides))

    def one(config: DictConfig) -> None:
        announce(HydraConfig.get().runtime.choices)
        own = [_as_typed(override) for override in HydraConfig.get().overrides.task]
        start(_plain(config, removed), [*own, *(f"~{FILTERS}.{index}" for index in removed)])

    sys.argv = ["headrace", "--multirun", *map(_settable, numbered)]
    hydra.main(version_base=HYDRA_VERSION_BASE, config_path=_search(), config_name=PRIMARY)(one)()


def split_removals(overrides: Sequence[str]) -> tuple[list[str], list[int]]:
    """Returns the ``overrides`` for Hydra, which removes no entry of a list, and the numbers of filters to remove."""
    found = {one: re.fullmatch(rf"~{re.escape(FILTERS)}\.(\d+)", one) for one in overrides}
    removed = {int(match[1]) for match in found.values() if match}
    return [one for one in overrides if not found[one]], sorted(removed, reverse=True)


def refuse_secrets_of(overrides: Sequence[str]) -> None:
    """Refuses overrides that hold a secret: run.json keeps them all, also those that a later one replaces.

    Raises:
        ConfigError: naming the key.
    """
    for override in overrides:
        key, _, value = override.partition("=")
        refuse_secrets(value, key if value else "command line")


def _settable(override: str) -> str:
    """Returns ``override`` in the form in which Hydra also takes a field of a group that no file of conf/ lists.

    So a field with a default needs no line in any file. Decoding refuses what is no field.
    """
    settings = "|".join(groups().keys() - {EXPERIMENT})
    is_field = re.match(rf"({settings})\.\w+(\.\d+(\.\w+)+)*=", override)
    return f"++{override}" if is_field else override


def _as_typed(override: str) -> str:
    """Undoes ``_settable``."""
    typed = override.removeprefix("++")
    return typed if _settable(typed) == override else override


def _in_typed_form(text: str, overrides: Sequence[str]) -> str:
    """Returns ``text``, of Hydra, with the ``overrides`` as the user typed them."""
    for override in overrides:
        text = text.replace(_settable(override), override)
    return text


def _plain(config: DictConfig, removed: Iterable[int] = ()) -> dict[str, Any]:
    """Returns the values of ``config``, without the filters with the numbers ``removed``, in descending order."""
    settings = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    values = OmegaConf.to_container(settings, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    for index in removed:
        del values["cleaning"]["filters"][index]
    return {str(key): value for key, value in values.items()}


def _missing_option(error: MissingConfigException) -> ConfigError:
    group, _, option = str(error.missing_cfg_file).rpartition("/")
    return ConfigError(group or "command line", f"unknown option {option!r}", suggestion(option, error.options or ()))


def _unknown_key(error: Exception, overrides: Sequence[str]) -> ConfigError:
    chosen = [override for override in overrides if override.partition("=")[0] in groups()]
    try:
        known = _dotted(OmegaConf.to_container(hydra.compose(PRIMARY, overrides=chosen)))
    except (HydraException, OmegaConfBaseException) as wrong_option:  # such as cleaning=c4,gopher without -m
        wrong = str(wrong_option).splitlines()[0]
        return ConfigError("command line", wrong, "give one option of a group, or several after -m")
    for override in overrides:
        if _settable(override) != override:
            continue  # a field that no file lists is taken here, and decoding refuses what is no field
        key = override.split("=")[0].lstrip("~").split("@")[0]
        if not key.startswith("+") and key not in known and key != "experiment":
            added = f" (one of your own: +{key}=…)" if key.startswith("evaluation.benchmarks.") else ""
            return ConfigError("command line", f"unknown key {key!r}", suggestion(key, known) + added)
    wrong = _in_typed_form(str(error).splitlines()[0], overrides)
    return ConfigError("command line", wrong, "correct the override")


def _dotted(values: Any, prefix: str = "") -> set[str]:
    """Returns every dotted path into ``values``."""
    found = set()
    for key, value in values.items():
        found.add(prefix + key)
        if isinstance(value, Mapping):
            found |= _dotted(value, f"{prefix}{key}.")
    return found
