"""The folders of presets: their groups, options and names of settings, read from file names and lines of text.

    cleaning=mine   conf/cleaning/mine.yaml of the user: in the folder of --config-dir, else in ./conf
    cleaning=c4     conf/cleaning/c4.yaml of Headrace, unless the user's folder has a file of that name
    study=theirs    study/theirs.yaml in the folder of an installed package that has an entry point of ENTRY_POINTS

The command line takes its help and its completion from here: they need no Hydra, no YAML and none of our settings.
"""

import functools
import importlib.util
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.extras import entry_points

CONF = Path(__file__).resolve().parents[2] / "conf"
ENTRY_POINTS = "headrace.options"
"""The group of entry points of other packages: each names a folder in a package, ``my_package:conf``."""
EXPERIMENT = "experiment"
"""The group whose options override several groups at once."""
STUDY = "study"
"""The folder of studies (pipeline/experiments), which are no settings of a run."""
NOT_SETTINGS = frozenset({"defaults", "hydra"})
"""Keys of conf/config.yaml that Hydra reads for itself."""
NOT_DECISIVE = ("name", "root", "workers", "ranks", "cluster", "tracking", "notify")
"""Settings that do not change results."""


def own_folder() -> Path | None:
    """Returns the user's folder of presets: that of ``--config-dir``, else ./conf if it holds an option of a group.

    Raises:
        ConfigError: when the folder of ``--config-dir`` does not exist or holds no option.
    """
    if chosen := os.environ.get(CONFIG_DIR):
        folder = Path(chosen).expanduser().resolve()
        if not _has_presets(folder):
            problem = f"{chosen!r} holds no preset" if folder.is_dir() else f"there is no folder {chosen!r}"
            raise ConfigError(
                "--config-dir", problem, "give the folder that holds cleaning/NAME.yaml, or another group"
            )
        return folder
    folder = Path("conf").resolve()
    return folder if folder not in installed_folders() and _has_presets(folder) else None


def _has_presets(folder: Path) -> bool:
    return any(_options(folder)) or any(_options(folder, STUDY))


def _options(folder: Path, group: str = "*") -> Iterator[Path]:
    """Yields the files of ``folder`` that are options of ``group``, or of any group of ours; studies by name only."""
    names = installed_options().keys() - {STUDY} if group == "*" else installed_options().keys() & {group}
    return (file for file in folder.glob(f"{group}/*.yaml") if file.parent.name in names)


@functools.cache
def installed_folders() -> tuple[Path, ...]:
    """Returns the folders of presets: that of Headrace, then those of other installed packages.

    Raises:
        ConfigError: when a package or its folder does not exist.
    """
    folders = [CONF]
    for point in entry_points(ENTRY_POINTS):
        package = importlib.util.find_spec(point.module)
        parents = (package and package.submodule_search_locations) or ()
        folder = next((Path(parent, point.attr) for parent in parents if Path(parent, point.attr).is_dir()), None)
        if folder is None:
            problem = f"the installed package {point.name} has no folder {point.value!r}"
            raise ConfigError(ENTRY_POINTS, problem, f"correct its entry point, or: pip uninstall {point.name}")
        folders.append(folder)
    return tuple(folders)


@functools.cache
def installed_options() -> Mapping[str, Mapping[str, Path]]:
    """Returns the files of the options of each group, and of the studies, by name: those of Headrace and of other
    installed packages. They do not change while it runs.

    Raises:
        ConfigError: when two packages have an option of one name, or one has a group that Headrace has not.
    """
    options: dict[str, dict[str, Path]] = {}
    for folder in installed_folders():
        for file in sorted(folder.glob("*/*.yaml")):
            group, option = file.parent.name, file.stem
            if folder != CONF and group not in options:
                raise ConfigError(str(file), f"unknown group {group!r}", suggestion(group, options, str(folder)))
            if other := options.setdefault(group, {}).get(option):
                problem = f"two installed packages have the option {group}={option}: {other} is the other one"
                raise ConfigError(str(file), problem, "rename one of the files, or uninstall one of the packages")
            options[group][option] = file
    return options


def own_files(group: str = "*") -> list[Path]:
    """Returns the files of the user's folder that are options of ``group``, or of any group."""
    own = own_folder()
    return sorted(_options(own, group)) if own else []


def _all_options(group: str) -> list[Path]:
    return [*installed_options().get(group, {}).values(), *own_files(group)]


def groups() -> dict[str, list[str]]:
    """Returns each group with its options, both in alphabetical order."""
    options_by_group = {group: set(files) for group, files in sorted(installed_options().items()) if group != STUDY}
    for file in own_files():
        options_by_group[file.parent.name].add(file.stem)
    return {group: sorted(options) for group, options in options_by_group.items()}


def studies() -> list[str]:
    """Returns the names of all studies, in alphabetical order."""
    return sorted({file.stem for file in _all_options(STUDY)})


def option_file(group: str, option: str) -> Path:
    """Returns the file of an option: the user's, else that of an installed package."""
    installed = installed_options().get(group, {}).get(option, CONF / group / f"{option}.yaml")
    return next((file for file in own_files(group) if file.stem == option), installed)


def about(file: Path) -> str:
    """Returns the comment at the top of the ``file`` of an option, in one line."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), _text(file).splitlines())
    return " ".join(line[1:].strip() for line in lines if not line.startswith("# @package"))


def names() -> list[str]:
    """Returns the groups, then the settings that belong to no group."""
    return [*groups(), *_keys(CONF / "config.yaml")]


def fields(group: str) -> list[str]:
    """Returns the settings of ``group``: the keys of all its options."""
    return sorted({key for file in _all_options(group) for key in _keys(file)})


def is_of_other_option(group: str, key: str, values: Mapping[str, Any]) -> bool:
    """Whether ``key`` is a setting of an installed option of ``group`` with another type than ``values`` have."""
    return "type" in values and any(key in _keys(file) for file in installed_options().get(group, {}).values())


def unchosen_option(group: str, key: str, values: Mapping[str, Any]) -> str:
    """Returns the option whose ``type`` the ``values`` of ``group`` have, if it was not chosen; else an empty text.

    Then ``values`` are those of another option, which ``key`` belongs to, with another ``type``.
    """
    option = str(values.get("type"))
    is_other_key = option in groups().get(group, ()) and key in fields(group)
    return option if is_other_key and not values.keys() >= set(_keys(option_file(group, option))) else ""


def _keys(file: Path) -> list[str]:
    keys = re.findall(r"^(\w+):", _text(file), re.MULTILINE)
    return [key for key in keys if key not in NOT_SETTINGS]


def _text(file: Path) -> str:
    """Returns the text of ``file``, also when it is not UTF-8: completion and lists of options go on."""
    return file.read_text(encoding="utf-8", errors="replace")


def setting_of(override: str) -> str:
    """Returns the setting that ``override`` changes, without the keys below it: ``model`` of ``model.layers=3``."""
    return re.split("[.@]", override.partition("=")[0].lstrip("+~"))[0]


def names_setting(argument: str) -> bool:
    """Whether ``argument`` is an override: ``=`` after the name of a setting."""
    return "=" in argument and setting_of(argument) in {*names(), "hydra"}


def completions(incomplete: str) -> list[str]:
    """Returns the overrides that begin with ``incomplete``: ``mod`` → ``model=`` → ``model=gpt1``, ``training.s`` →
    ``training.steps=``.
    """
    key, equals, _ = incomplete.partition("=")
    group, dot, _ = key.partition(".")
    if equals:
        known = [f"{key}={option}" for option in groups().get(key, [])]
    elif dot:
        known = [f"{group}.{field}=" for field in fields(group)]
    else:
        known = [f"{name}=" for name in names()]
    return [override for override in known if override.startswith(incomplete)]
