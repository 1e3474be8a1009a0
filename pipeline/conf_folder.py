"""The folder conf/: its groups, their options and the names of settings, read from file names and lines of text.

The command line takes its help and its completion from here: they need no Hydra, no YAML and none of our settings.
"""

import re
from pathlib import Path

CONF = Path(__file__).resolve().parent.parent / "conf"
EXPERIMENT = "experiment"
"""The group whose options override several groups at once."""
NOT_SETTINGS = frozenset({"defaults", "hydra"})
"""Keys of conf/config.yaml that Hydra reads for itself."""


def groups() -> dict[str, list[str]]:
    """Returns each group with its options, both in alphabetical order."""
    folders = sorted(path for path in CONF.iterdir() if path.is_dir())
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}


def names() -> list[str]:
    """Returns the groups, then the settings that belong to no group."""
    return [*groups(), *_keys(CONF / "config.yaml")]


def fields(group: str) -> list[str]:
    """Returns the settings of ``group``: the keys of all its options."""
    return sorted({key for file in (CONF / group).glob("*.yaml") for key in _keys(file)})


def _keys(file: Path) -> list[str]:
    found = re.findall(r"^(\w+):", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [key for key in found if key not in NOT_SETTINGS]


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
