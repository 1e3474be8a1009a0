"""The composed configuration: Hydra reads conf/ and the overrides, and hands on plain values.

Hydra is imported here, in merged_options.py, overrides.py and override_values.py only.
"""

import contextlib
import functools
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import hydra
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    GrammarParseError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from headrace.pipeline.conf_folder import CONF, EXPERIMENT, groups, own_files, own_folder, setting_of
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.filter_names import FILTERS, names_filter, numbered, split_removals
from headrace.pipeline.merged_options import PRIMARY, merged, search
from headrace.pipeline.override_values import form_to_type, readable
from headrace.pipeline.overrides import (
    as_typed,
    each_of_sweep,
    parsed,
    refuse_hydra,
    refuse_no_options,
    refuse_secrets_in,
    settable,
)
from headrace.pipeline.preset_files import option_values
from headrace.pipeline.setting_names import dotted, key_remedy, neighbours

HYDRA_VERSION_BASE = "1.3"
"""Pins Hydra's behaviour, whatever its version changes."""
BENCHMARK = "evaluation.benchmarks."
"""A dotted path that begins so leads to a benchmark, or to a field of one."""

REFUSED = (
    ConfigCompositionException,
    HydraException,
    OmegaConfBaseException,
    yaml.YAMLError,
    ValueError,
    OSError,
    RecursionError,  # a file that extends itself
)
"""Errors that Hydra raises for overrides and for files in conf/ that it cannot compose."""


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """Composes the configuration, as plain values.

    Raises:
        ConfigError: when an override does not fit, naming the nearest that would, or holds a secret.
    """
    with _hydra(overrides):
        prepared, removed = _prepared(overrides)
        composed, choices = merged(prepared)
        announce(choices)
        return _plain(composed, removed)


def layers(overrides: Sequence[str]) -> tuple[list[tuple[str, str, str]], list[tuple[str, Any, bool]], list[int]]:
    """Returns what ``compose`` merges: the files in their order, each as (dotted key of its values, group, option),
    then the overrides, each as (dotted key with numbers of filters, value, whether it removes the key); and the numbers
    of filters that it removes, in descending order.

    conf/config.yaml has no group.
    """
    with _hydra(overrides):
        prepared, removed = _prepared(overrides)
        read = GlobalHydra.instance().config_loader().compute_defaults_list(PRIMARY, prepared, RunMode.RUN).defaults
        files = [(one.package or "", *str(one.config_path).rpartition("/")[::2]) for one in read]
        known = {"", *groups()}
        typed = [(str(one.key_or_group), one.value(), one.is_delete()) for one in parsed(prepared)]
        return [one for one in files if one[1] in known], typed, removed


Combination = tuple[str, dict[str, Any], list[str]]
"""One run of a sweep: what it does not share with the others, its values, and its own overrides."""


def combinations(overrides: Sequence[str]) -> list[Combination]:
    """Composes each combination of the comma-separated values in ``overrides``; the last one changes first.

    Raises:
        ConfigError: as ``compose`` does.
    """
    with _hydra(overrides, is_sweep=True):
        prepared, removed = _prepared(overrides, is_sweep=True)
        choices = [each_of_sweep(one) for one in parsed(prepared)]
        found = list[Combination]()
        for chosen in itertools.product(*choices):
            composed, options = merged(chosen)
            announce(options)
            own = [as_typed(one) for one in chosen]
            varied = " ".join(one for one, among in zip(own, choices, strict=True) if len(among) > 1)
            found.append((varied, _plain(composed, removed), [*own, *(f"~{FILTERS}.{index}" for index in removed)]))
        return found


def _prepared(overrides: Sequence[str], is_sweep: bool = False) -> tuple[list[str], list[int]]:
    """Returns ``overrides`` as Hydra takes them, and the numbers of filters to remove from what it composes.

    Raises:
        ConfigError: when one holds a secret, is none, sets something of Hydra's own, chooses no option of its group, or
            names an unknown filter.
    """
    refuse_secrets_in(overrides)
    refuse_hydra(overrides)
    found = [readable(one, is_sweep) for one in overrides]
    refuse_no_options(found)
    numbers, removed = split_removals(with_numbers(found))
    return [settable(one) for one in numbers], removed


@contextlib.contextmanager
def _hydra(overrides: Sequence[str], is_sweep: bool = False) -> Iterator[None]:
    """Prepares Hydra, and turns what it finds wrong with ``overrides`` in the block into an error of ours.

    Raises:
        ConfigError: instead of an error of Hydra.
    """
    with hydra.initialize_config_dir(search(), version_base=HYDRA_VERSION_BASE):
        try:
            yield
        except MissingConfigException as error:
            raise _missing_option(error) from None
        except MissingMandatoryValue as error:
            key = re.sub(r"\[(\d+)\]", r".\1", str(error.full_key))
            raise ConfigError(key, "has no value", f"give it one: {key}=…") from None
        except OverrideParseException as error:
            typed = _in_typed_form(str(error.override), _typed_forms(overrides, is_sweep))
            raise ConfigError("command line", f"{typed!r} is not an override", "write KEY=VALUE") from None
        except REFUSED as error:
            _refuse_broken_presets()
            raise _refusal(error, _typed_forms(overrides, is_sweep)) from None


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
    """Returns ``overrides`` with numbers instead of names of filters, by the list of the chosen preset.

    Raises:
        ConfigError: when the list has no filter or rule of that name, or several presets are chosen.
    """
    named = next(filter(names_filter, overrides), None)
    if named is None:
        return list(overrides)
    preset = [one for one in overrides if setting_of(one) in ("cleaning", EXPERIMENT) and not names_filter(one)]
    if several := next((one for one in parsed(preset) if one.is_sweep_override()), None):
        wrong = f"{several.input_line} is a sweep, and each of its presets has its own list of filters ({named})"
        raise ConfigError(FILTERS, wrong, "choose one preset, and sweep a setting of its filters")
    filters = OmegaConf.to_container(merged(preset)[0].cleaning.filters)
    return [numbered(one, filters) for one in overrides]


def _refuse_broken_presets() -> None:
    """Refuses files of the user's folder that hold no settings, or extend an option that they cannot.

    Raises:
        ConfigError: naming the first of them.
    """
    for file in own_files():
        option_values(file.parent.name, file.stem)


def _typed_forms(overrides: Sequence[str], is_sweep: bool) -> dict[str, str]:
    """Returns the form in which Hydra takes each of ``overrides`` → the override as the user typed it."""
    return {settable(readable(one, is_sweep)): one for one in overrides}


def _in_typed_form(text: str, typed: Mapping[str, str]) -> str:
    """Returns ``text``, of Hydra, with overrides as the user ``typed`` them."""
    for form, override in typed.items():
        text = text.replace(form, override)
    return text


def _plain(config: DictConfig, removed: Iterable[int] = ()) -> dict[str, Any]:
    """Returns the values of ``config``, without the filters with the numbers ``removed``, in descending order."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    for index in removed:
        del values["cleaning"]["filters"][index]
    if isinstance(values["root"], str):
        values["root"] = os.path.expanduser(values["root"])  # no shell replaces the ~ of root=~/runs
    return {str(key): value for key, value in values.items()}


def _missing_option(error: MissingConfigException) -> ConfigError:
    group, _, option = str(error.missing_cfg_file).partition("/")
    return ConfigError(group or "command line", f"unknown option {option!r}", suggestion(option, error.options or ()))


def _refusal(error: Exception, typed: Mapping[str, str]) -> ConfigError:
    """Returns what is wrong with overrides (form of Hydra → as ``typed``), which Hydra refused with ``error``."""
    chosen = [form for form in typed if form.partition("=")[0] in groups()]
    try:
        composed: Any = OmegaConf.to_container(merged(chosen)[0])
    except REFUSED as wrong_option:  # such as cleaning=c4,gopher without -m
        is_sweep = any(one.is_sweep_override() for one in parsed(chosen))
        remedy = "give one option of a group, or several after -m" if is_sweep else "correct the file of the option"
        return ConfigError("command line", str(wrong_option).splitlines()[0], remedy)
    known = set(dotted(composed))
    for form in typed:
        if form.startswith("++"):
            continue  # a field that no file lists is taken here, and decoding refuses what is no field
        key = form.split("=")[0].lstrip("~").split("@")[0]
        if not key.startswith("+") and key not in known and key != EXPERIMENT:
            benchmark = key.removeprefix(BENCHMARK).rpartition(".")[0]
            field = "a field at its default" if BENCHMARK + benchmark in known else "one of your own"
            added = f" ({field}: +{key}=…)" if key.startswith(BENCHMARK) else ""
            remedy = key_remedy(key, known, neighbours(key, known))
            return ConfigError("command line", f"unknown key {key!r}", remedy + added)
    wrong = _in_typed_form(str(error).splitlines()[0], typed).rstrip(".")
    if found := re.fullmatch(r"Error merging override [+]*([^=]+)=(.*)", wrong):
        return ConfigError(found[1], f"cannot be {found[2]!r}", f"headrace help {found[1]} shows what it can be")
    where = re.sub(r"\[(\d+)\]", r".\1", str(getattr(error, "full_key", None) or "command line"))
    if isinstance(error, InterpolationResolutionError | GrammarParseError):
        return ConfigError(where, wrong, _interpolation_remedy(where, typed.values()))
    return ConfigError(where, wrong, "correct the override")


def _interpolation_remedy(key: str, overrides: Iterable[str]) -> str:
    """Returns the remedy for a ``${…}`` in the value of ``key`` that names no setting."""
    values = {one.partition("=")[0].lstrip("+"): one.partition("=")[2] for one in overrides}
    given = next((name for name in values if f"{key}.".startswith(f"{name}.") and "${" in values[name]), None)
    if given is None:
        return "correct the file of the option: ${…} is another setting; a text of these characters is \\${…}"
    text = form_to_type(given, values[given])
    return (
        f"correct the override: ${{…}} is another setting, no variable of a shell; a text of these characters is {text}"
    )
