"""The settings that Hydra merges: conf/config.yaml, the files of the chosen options, and the values of overrides.

experiment=smoke model.layers=3
└── choices ──> hydra.compose, once in a process ──> a copy ──> model.layers=3 set in it

The errors of Hydra become errors of ours here. Only this module, overrides.py and override_values.py import Hydra.
"""

import contextlib
import functools
import pickle
import posixpath
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    GrammarParseError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from headrace.pipeline.configuration.option_values import example_command, option_values, preset_values
from headrace.pipeline.configuration.options import (
    EXPERIMENT,
    groups,
    installed_folders,
    installed_options,
    names_in,
    option_file,
    own_files,
    own_folder,
)
from headrace.pipeline.configuration.override_values import form_to_type
from headrace.pipeline.configuration.overrides import HYDRA, each_of_sweep, in_form_of_hydra, parsed
from headrace.pipeline.configuration.setting_names import dotted, key_remedy, neighbours
from headrace.pipeline.core.errors import ConfigError, suggestion

HYDRA_VERSION_BASE = "1.3"
"""Pins Hydra's behaviour, whatever its version changes."""
PRIMARY = "headrace"
"""Hydra's name of conf/config.yaml, so that a config.yaml in the user's folder is not read."""
GROUPS_OF_HYDRA = ("output", "launcher", "sweeper", "help", "hydra_help", "hydra_logging", "job_logging", "env")
"""Groups of Hydra's own settings. They are not used, and to merge their options takes a third of the time."""
NO_OPTIONS = str(Path(__file__).resolve().parent)
"""A folder without options, where Hydra wants one: it finds all by its search path, whose files may hold tables."""
SEVERAL_SOURCES = "clean each in a run of its own, then read their exports together (source=jsonl cleaning=none)"
"""The way from documents of several kinds of source to one run."""
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

OptionFile = tuple[str, str, str]
"""A file that Hydra merges: the dotted key of its values, its group and its option. conf/config.yaml has no group."""


def merged(overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, Any]]:
    """Composes as ``hydra.compose`` does, and returns the chosen option of each group as well."""
    typed = parsed(overrides)
    chosen = tuple(str(override.input_line) for override in typed if _chooses_option(override))
    stored, choices = _merged_files(chosen, _state_of_files())
    config: DictConfig = pickle.loads(stored)
    for override in typed:
        if not _chooses_option(override):
            _set_value(config, override)
    return config, choices


def _chooses_option(override: Override) -> bool:
    return override.key_or_group in groups() and not isinstance(override.value(), dict)


@functools.lru_cache(maxsize=128)
def _merged_files(chosen: tuple[str, ...], files: Hashable) -> tuple[bytes, Mapping[str, Any]]:
    """Returns what the files of the ``chosen`` options hold together, pickled, and the chosen option of each group.

    This takes most of the time of a composition. Those of one process mostly differ in the values that are set then.

    Args:
        chosen: overrides that choose options.
        files: the state of the user's files, for the cache.

    Raises:
        ConfigError: when a file of the user holds settings of Hydra itself.
    """
    if own := own_folder():
        _refuse_hydra_in_files(chosen, own)
    config = hydra.compose(PRIMARY, list(chosen), return_hydra_config=True)
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config[HYDRA]
    return pickle.dumps(config), choices


def _refuse_hydra_in_files(chosen: Sequence[str], own: Path) -> None:
    """Refuses settings of Hydra itself in files of the ``chosen`` options in the user's folder ``own``.

    Raises:
        ConfigError: naming the options.
    """
    for key, group, option in merged_files(chosen):
        if group not in groups():
            is_of_hydra = group.startswith(f"{HYDRA}/")
        elif not (file := option_file(group, option)).is_relative_to(own):
            continue
        else:
            values = preset_values(file, option)
            names = [HYDRA in values, *(f"{HYDRA}/" in str(entry) for entry in values.get("defaults") or ())]
            is_of_hydra = not key and any(names)
        if is_of_hydra:
            problem = "settings of Hydra itself are in a file of options, and are not used"
            raise ConfigError(HYDRA, problem, f"take them out of the file (one of: {', '.join(chosen)})")


def merged_files(overrides: Sequence[str]) -> list[OptionFile]:
    """Returns the files that Hydra merges for ``overrides``, in their order."""
    read = GlobalHydra.instance().config_loader().compute_defaults_list(PRIMARY, list(overrides), RunMode.RUN).defaults
    return [(file.package or "", *str(file.config_path).rpartition("/")[::2]) for file in read]


def _state_of_files() -> Hashable:
    """Returns a value that is another one when a file of the user's folder was changed."""
    return installed_folders(), *((file, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in own_files())


def _set_value(config: DictConfig, override: Override) -> None:
    """Sets, adds or removes the value of ``override`` in ``config``, by the rules of Hydra.

    Raises:
        ConfigCompositionException: when ``config`` has no such key, one to add is there, or the value does not fit.
    """
    line, key, value = str(override.input_line), str(override.key_or_group), override.value()
    if override.is_sweep_override():
        is_list = override.value_type == ValueType.SIMPLE_CHOICE_SWEEP
        several = f"Ambiguous value for argument '{line}'"
        raise ConfigCompositionException(several if is_list else f"Sweep parameters '{line}' requires --multirun")
    if override.package is not None:
        problem = f"Override {line} looks like a config group override, but config group '{key}' does not exist."
        raise ConfigCompositionException(problem)
    adds = override.is_add() or override.is_force_add()
    try:
        if override.is_delete():
            _remove(config, key, value)
            return
        if override.is_add() and not isinstance(value, dict | list) and _selected(config, key) is not None:
            raise ConfigCompositionException(f"Could not append to config. An item is already at '{key}'.")
        OmegaConf.update(config, key, value, merge=True, force_add=adds)
    except OmegaConfBaseException as error:
        is_unknown = isinstance(error, ConfigAttributeError | ConfigKeyError) and not (adds or override.is_delete())
        problem = f"Could not override '{key}'." if is_unknown else f"Error merging override {line}"
        raise ConfigCompositionException(problem) from error
    except TypeError:
        raise ConfigCompositionException(f"Could not override '{key}'.") from None  # a name where a list has numbers


def _remove(config: DictConfig, key: str, value: Any) -> None:
    """Removes ``key``, whose value must be ``value`` if that is given."""
    current = _selected(config, key)
    if current is None:
        raise ConfigCompositionException(f"Could not delete from config. '{key}' does not exist.")
    if value is not None and value != current:
        problem = f"Could not delete from config. The value of '{key}' is {current} and not {value}."
        raise ConfigCompositionException(problem)
    above, _, last = key.rpartition(".")
    with open_dict(config):
        del (OmegaConf.select(config, above) if above else config)[last]


def _selected(config: DictConfig, key: str) -> Any:
    return OmegaConf.select(config, key, throw_on_missing=False)


@contextlib.contextmanager
def composing(overrides: Sequence[str], is_sweep: bool = False) -> Iterator[None]:
    """Prepares Hydra, and turns what it finds wrong with ``overrides`` in the block into an error of ours.

    Raises:
        ConfigError: instead of an error of Hydra.
    """
    _prepare_search()
    with hydra.initialize_config_dir(NO_OPTIONS, version_base=HYDRA_VERSION_BASE):
        try:
            yield
        except MissingConfigException as error:
            raise _missing_option(error) from None
        except MissingMandatoryValue as error:
            key = re.sub(r"\[(\d+)\]", r".\1", str(error.full_key))
            raise ConfigError(key, "has no value", _value_remedy(key, overrides)) from None
        except OverrideParseException as error:
            typed = _in_typed_form(str(error.override), in_form_of_hydra(overrides, is_sweep))
            raise ConfigError("command line", f"{typed!r} is not an override", "write KEY=VALUE") from None
        except REFUSED as error:
            _refuse_broken_presets(overrides)
            raise _refusal(error, in_form_of_hydra(overrides, is_sweep)) from None


def _prepare_search() -> None:
    """Prepares Hydra's search for options: in the user's folder first, then in the installed ones.

    Raises:
        ConfigError: when two packages have an option of one name.
    """
    installed_options()  # refuses it
    installed, own = installed_folders(), own_folder()
    primary = _primary(installed[0])
    folders = [own, *installed] if own else installed
    primary.hydra.searchpath = [f"{OptionSource.scheme()}://{folder}" for folder in folders]
    SourcesRegistry.instance().register(OptionSource)
    ConfigStore.instance().store(PRIMARY, primary)


class OptionSource(FileConfigSource):
    """A folder of options for Hydra, in which a file may hold a table of several."""

    @staticmethod
    def scheme() -> str:
        return "options"

    def load_config(self, config_path: str) -> ConfigResult:
        group, option = posixpath.split(config_path)
        file = self._file(group, option)
        header = self._get_header_dict(file.read_text(encoding="utf-8"))
        values = OmegaConf.create(preset_values(file, option))
        return ConfigResult(config=values, path=f"{self.scheme()}://{self.path}", provider=self.provider, header=header)

    def is_config(self, config_path: str) -> bool:
        group, option = posixpath.split(config_path)
        return self._file(group, option).is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        files = Path(self.path, config_path).glob("*.yaml")
        return sorted(name for file in files for name in names_in(file))

    def _file(self, group: str, option: str) -> Path:
        """Returns the file in which ``option`` is an entry, else the one of its name."""
        file = option_file(group, option) if group else Path(option)
        return file if file.is_relative_to(self.path) else Path(self.path, group, f"{option}.yaml")


@functools.cache
def _primary(folder: Path) -> DictConfig:
    loaded = OmegaConf.load(folder / "config.yaml")
    assert isinstance(loaded, DictConfig)
    loaded.defaults += [{f"override {HYDRA}/{group}": None} for group in GROUPS_OF_HYDRA]
    return loaded


def _refuse_broken_presets(overrides: Sequence[str]) -> None:
    """Refuses files of the user's folder that hold no settings, or extend an option that they cannot; first those that
    ``overrides`` choose.

    Raises:
        ConfigError: naming the first of them.
    """
    for file in sorted(own_files(), key=lambda file: f"{file.parent.name}={file.stem}" not in overrides):
        for option in names_in(file):
            option_values(file.parent.name, option)


def _value_remedy(key: str, overrides: Sequence[str]) -> str:
    """Returns the remedy for a setting without the value that the chosen option of its group requires."""
    group = key.partition(".")[0]
    chosen = [next(iter(each_of_sweep(override))) for override in parsed(overrides) if _chooses_option(override)]
    option = merged(chosen)[1].get(group)
    example = example_command(group, str(option)) if option in groups().get(group, ()) else ""
    return f"give it one, such as in: {example}" if f" {key}=" in example else f"give it one: {key}=…"


def _in_typed_form(text: str, typed: Mapping[str, str]) -> str:
    """Returns ``text``, of Hydra, with overrides as the user ``typed`` them."""
    for form, override in typed.items():
        text = text.replace(form, override)
    return text


def _missing_option(error: MissingConfigException) -> ConfigError:
    group, _, option = str(error.missing_cfg_file).partition("/")
    remedy = suggestion(option, error.options or (), f"{group}={option}")
    return ConfigError(group or "command line", f"unknown option {option!r}", remedy)


def _refusal(error: Exception, typed: Mapping[str, str]) -> ConfigError:
    """Returns what is wrong with overrides (form of Hydra → as ``typed``), which Hydra refused with ``error``."""
    chosen = [form for form in typed if form.partition("=")[0] in groups()]
    try:
        composed: Any = OmegaConf.to_container(merged(chosen)[0])
    except REFUSED as wrong_option:  # such as cleaning=c4,gopher without -m
        is_sweep = any(override.is_sweep_override() for override in parsed(chosen))
        remedy = "give one option of a group, or several after -m" if is_sweep else "correct the file of the option"
        if any(form.startswith("source=") for form in chosen) and is_sweep:
            remedy = f"a run reads one kind of source: {SEVERAL_SOURCES}"
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
    problem = _in_typed_form(str(error).splitlines()[0], typed).rstrip(".")
    if refused := re.fullmatch(r"Error merging override [+]*([^=]+)=(.*)", problem):
        return ConfigError(refused[1], f"cannot be {refused[2]!r}", f"headrace help {refused[1]} shows what it can be")
    where = re.sub(r"\[(\d+)\]", r".\1", str(getattr(error, "full_key", None) or "command line"))
    if isinstance(error, InterpolationResolutionError | GrammarParseError):
        return ConfigError(where, problem, _interpolation_remedy(where, typed.values()))
    return ConfigError(where, problem, "correct the override")


def _interpolation_remedy(key: str, overrides: Iterable[str]) -> str:
    """Returns the remedy for a ``${…}`` in the value of ``key`` that names no setting."""
    values = {override.partition("=")[0].lstrip("+"): override.partition("=")[2] for override in overrides}
    given = next((name for name in values if f"{key}.".startswith(f"{name}.") and "${" in values[name]), None)
    if given is None:
        return "correct the file of the option: ${…} is another setting; a text of these characters is \\${…}"
    text = form_to_type(given, values[given])
    return (
        f"correct the override: ${{…}} is another setting, no variable of a shell; a text of these characters is {text}"
    )
