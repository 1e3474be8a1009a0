"""The folders of presets: their groups, options and names of settings, read from file names and lines of text.

    cleaning=mine   conf/cleaning/mine.yaml of the user: in the folder of --config-dir, else in ./conf
    cleaning=c4     conf/cleaning/c4.yaml of Headrace, unless the user's folder has a file of that name
    study=theirs    study/theirs.yaml in the folder of an installed package that has an entry point of ENTRY_POINTS
    model=gpt3_13b  an entry of the table of options in conf/model/gpt3.yaml; also: model=gpt3 model.size=13b

The command line takes its help and its completion from here: they need no Hydra, no YAML and none of our settings.
"""

import functools
import importlib.util
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
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
TABLE = "options"
"""The last key of a file of several options: the name of each → the values that are its own. Others are shared."""
SIZE = "size"
"""``model=gpt3 model.size=13b`` chooses the option gpt3_13b in the table of gpt3.yaml."""
NOT_SETTINGS = frozenset({"defaults", "hydra", TABLE})
"""Keys of the files in conf/ that are no settings."""
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
            group = file.parent.name
            if folder != CONF and group not in options:
                raise ConfigError(str(file), f"unknown group {group!r}", suggestion(group, options, str(folder)))
            for option in names_in(file):
                if other := options.setdefault(group, {}).get(option):
                    problem = f"two installed packages have the option {group}={option}: {other} is the other one"
                    raise ConfigError(str(file), problem, "rename one of the files, or uninstall one of the packages")
                options[group][option] = file
    return options


def names_in(file: Path) -> list[str]:
    """Returns the names of the options in ``file``: those of its table, else that of the file."""
    return list(_entries(_text(file))) or [file.stem]


def _entries(text: str) -> dict[str, tuple[str, str]]:
    """Returns the comment and the lines of each entry of the table in the ``text`` of a file, by name."""
    table = text.partition(f"\n{TABLE}:\n")[2]
    entry = re.compile(r"((?:^ +#.*\n)*)^( +)([\w.-]+):((?:.*\n?)(?:^\2 .*\n?)*)", re.MULTILINE)
    return {name: (comment, lines) for comment, _, name, lines in entry.findall(table)}


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
        options_by_group[file.parent.name].update(names_in(file))
    return {group: sorted(options) for group, options in options_by_group.items()}


def studies() -> list[str]:
    """Returns the names of all studies, in alphabetical order."""
    return sorted({*installed_options()[STUDY], *(name for file in own_files(STUDY) for name in names_in(file))})


def option_file(group: str, option: str) -> Path:
    """Returns the file of an option: the user's, else that of an installed package."""
    installed = installed_options().get(group, {}).get(option, CONF / group / f"{option}.yaml")
    return next((file for file in own_files(group) if option in names_in(file)), installed)


def tables(group: str) -> dict[str, list[str]]:
    """Returns the tables of ``group``, files of several options, with the sizes in each: ``gpt3`` → ``125m``, …"""
    by_table = dict[str, list[str]]()
    for file in dict.fromkeys(_all_options(group)):
        beginning = f"{file.stem}_"
        if sizes := [name.removeprefix(beginning) for name in names_in(file) if name.startswith(beginning)]:
            by_table[file.stem] = sizes
    return by_table


def chosen_sizes(overrides: Sequence[str]) -> list[str]:
    """Returns ``overrides`` with each pair as ``model=gpt3 model.size=13b`` in its short form, ``model=gpt3_13b``.

    Raises:
        ConfigError: when a table is chosen without a size.
    """
    short = list(overrides)
    for override in overrides:
        group, _, table = override.partition("=")
        if not table or group not in groups() or table in groups()[group] or table not in tables(group):
            continue
        given = next((text for text in overrides if text.startswith(f"{group}.{SIZE}=")), "")
        if not given:
            sizes = tables(group)[table]
            remedy = f"give one, such as {group}.{SIZE}={sizes[0]}, or {group}={table}_{sizes[0]}"
            raise ConfigError(group, f"{table} has the sizes {', '.join(sizes)}", remedy)
        chosen = ",".join(f"{table}_{size}" for size in given.partition("=")[2].split(","))
        short[short.index(override)] = f"{group}={chosen}"
        short.remove(given)
    return short


def unknown_option(group: str, option: str) -> ConfigError:
    """Returns the error for an unknown ``option`` of ``group``: it names the nearest option or table."""
    return ConfigError(
        group, f"unknown option {option!r}", suggestion(option, [*groups()[group], *tables(group)], f"{group}={option}")
    )


def about_table(group: str, table: str) -> str:
    """Returns the comment at the top of the file of a ``table``, in one line."""
    return _top(_text(option_file(group, f"{table}_{tables(group)[table][0]}")))


def about(group: str, option: str) -> str:
    """Returns the comment of an option, above its entry in a table and at the top of its file, in one line."""
    text = _text(option_file(group, option))
    comment, _ = _entries(text).get(option, ("", ""))
    return " ".join(filter(None, [_top(comment), _top(text)]))


def _top(text: str) -> str:
    """Returns the comment that ``text`` begins with, in one line."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), map(str.strip, text.splitlines()))
    lines = [line[1:].strip() for line in comment]
    return " ".join(line for line in lines if not line.startswith("@package"))


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
    return option if is_other_key and not values.keys() >= set(_keys(option_file(group, option), option)) else ""


def _keys(file: Path, option: str = "") -> list[str]:
    """Returns the settings in ``file``: those of ``option``, or of all its options."""
    text = _text(file)
    entries = _entries(text)
    keys = re.findall(r"^(\w+):", text, re.MULTILINE)
    for name in [option] if option in entries else entries:
        first, *below = entries[name][1].splitlines()
        if below:
            keys += re.findall(r"^    (\w+):", "\n".join(below), re.MULTILINE)
        else:
            inline, is_nested = first.partition("{")[2].rpartition("}")[0], 1
            while is_nested:
                inline, is_nested = re.subn(r"[{\[][^{}\[\]]*[}\]]", "", inline)
            keys += re.findall(r"(\w+):", inline)
    return [key for key in dict.fromkeys(keys) if key not in NOT_SETTINGS]


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
