"""The folders of presets: their groups, options and names of settings, read from file names and lines of text.

    cleaning=mine   conf/cleaning/mine.yaml of the user: in the folder of --config-dir, else in ./conf
    cleaning=c4     conf/cleaning/c4.yaml of Headrace, unless the user's folder has a file of that name

The command line takes its help and its completion from here: they need no Hydra, no YAML and none of our settings.
"""

import functools
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.environment import CONFIG_DIR
from headrace.pipeline.core.errors import ConfigError

CONF = Path(__file__).resolve().parents[2] / "conf"
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
    return folder if folder != CONF and _has_presets(folder) else None


def _has_presets(folder: Path) -> bool:
    return any(_options(folder)) or any(_options(folder, STUDY))


def _options(folder: Path, group: str = "*") -> Iterator[Path]:
    """Yields the files of ``folder`` that are options of ``group``, or of any group of ours; studies by name only."""
    ours = _our_options()
    names = ours.keys() - {STUDY} if group == "*" else ours.keys() & {group}
    if folder == CONF:
        return (file for name in names for file in ours[name])
    return (file for file in folder.glob(f"{group}/*.yaml") if file.parent.name in names)


@functools.cache
def _our_options() -> Mapping[str, tuple[Path, ...]]:
    """Returns the files of each group of Headrace, and its studies. They do not change while it runs."""
    files = sorted(CONF.glob("*/*.yaml"))
    return {name: tuple(group) for name, group in itertools.groupby(files, lambda file: file.parent.name)}


@functools.cache
def _our_groups() -> Mapping[str, frozenset[str]]:
    """Returns the names of the options of each group of Headrace."""
    return {name: frozenset(file.stem for file in files) for name, files in _our_options().items() if name != STUDY}


def own_files(group: str = "*") -> list[Path]:
    """Returns the files of the user's folder that are options of ``group``, or of any group."""
    own = own_folder()
    return sorted(_options(own, group)) if own else []


def _all_options(group: str = "*") -> list[Path]:
    return [*_options(CONF, group), *own_files(group)]


def groups() -> dict[str, list[str]]:
    """Returns each group with its options, both in alphabetical order."""
    options_by_group = dict(_our_groups())
    for file in own_files():
        options_by_group[file.parent.name] |= {file.stem}
    return {group: sorted(options) for group, options in options_by_group.items()}


def studies() -> list[str]:
    """Returns the names of all studies, in alphabetical order."""
    return sorted({file.stem for file in _all_options(STUDY)})


def option_file(group: str, option: str) -> Path:
    """Returns the file of an option: the user's, else ours."""
    return next((file for file in own_files(group) if file.stem == option), CONF / group / f"{option}.yaml")


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
    """Whether ``key`` is a setting of an option of ``group`` in conf/ with another type than ``values`` have."""
    return "type" in values and any(key in _keys(file) for file in (CONF / group).glob("*.yaml"))


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
