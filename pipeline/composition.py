"""The composed configuration: Hydra reads conf/ and the overrides, and hands on plain values.

The only module that imports Hydra.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from headrace.pipeline.conf_folder import CONF, EXPERIMENT, groups
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import refuse_secrets

HYDRA_VERSION_BASE = "1.3"
"""Pins Hydra's behaviour, whatever its version changes."""


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """Composes the configuration, as plain values.

    Raises:
        ConfigError: when an override does not fit, naming the nearest that would, or holds a secret.
    """
    refuse_secrets_of(overrides)
    with hydra.initialize_config_dir(str(CONF), version_base=HYDRA_VERSION_BASE):
        try:
            return _plain(hydra.compose("config", overrides=[_settable(override) for override in overrides]))
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


def sweep(overrides: Sequence[str], start: Callable[[dict[str, Any], list[str]], None]) -> None:
    """Calls ``start`` for each combination of comma-separated values, with the configuration and its own overrides.

    Hydra's own sweeper and launchers do this (``headrace -m``).
    """

    def one(config: DictConfig) -> None:
        start(_plain(config), [_as_typed(override) for override in HydraConfig.get().overrides.task])

    refuse_secrets_of(overrides)
    sys.argv = ["headrace", "--multirun", *(_settable(override) for override in overrides)]
    hydra.main(version_base=HYDRA_VERSION_BASE, config_path=str(CONF), config_name="config")(one)()


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
    is_field = re.match(rf"({settings})\.\w+=", override)
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
