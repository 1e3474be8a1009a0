"""The composed configuration: from conf/ and overrides to plain values, of one run or of each run of a sweep.

``seed=7``, the seed of the run, takes the place of each other seed that no override sets:

shuffle.seed  packing.seed  training.seed  evaluation.benchmarks.NAME.seed  …  ->  7
finetune.seeds                                                                 ->  [7]
"""

import functools
import itertools
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from headrace.pipeline.configuration.merged_options import OptionFile, composing, merged, merged_files
from headrace.pipeline.configuration.option_values import replaced_lists
from headrace.pipeline.configuration.options import (
    EXPERIMENT,
    chosen_sizes,
    groups,
    installed_options,
    names,
    option_file,
    own_folder,
    setting_of,
)
from headrace.pipeline.configuration.overrides import (
    HYDRA,
    as_typed,
    each_of_sweep,
    parsed,
    readable_overrides,
    settable,
)
from headrace.pipeline.configuration.setting_names import FILTERS, dotted, names_filter, numbered, split_removals
from headrace.pipeline.core.errors import ConfigError

SEED = "seed"
"""The seed of the run, and the last part of the name of each other one."""


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """Composes the configuration, as plain values.

    Raises:
        ConfigError: when an override does not fit, naming the nearest that would, or holds a secret.
    """
    with composing(overrides):
        prepared, removed = _prepared(overrides)
        composed, choices = merged(prepared)
        announce(choices)
        return seeded(_plain(composed, removed), prepared)


def layers(overrides: Sequence[str]) -> tuple[list[OptionFile], list[tuple[str, Any, bool]], list[int]]:
    """Returns what ``compose`` merges: the files in their order, each as (dotted key of its values, group, option),
    then the overrides, each as (dotted key with numbers of filters, value, whether it removes the key); and the numbers
    of filters that it removes, in descending order.

    conf/config.yaml has no group.
    """
    with composing(overrides):
        prepared, removed = _prepared(overrides)
        known = {"", *groups()}
        typed = [(str(override.key_or_group), override.value(), override.is_delete()) for override in parsed(prepared)]
        return [file for file in merged_files(prepared) if file[1] in known], typed, removed


Combination = tuple[str, dict[str, Any], list[str]]
"""One run of a sweep: what it does not share with the others, its values, and its own overrides."""


def combinations(overrides: Sequence[str]) -> list[Combination]:
    """Composes each combination of the comma-separated values in ``overrides``; the last one changes first.

    Raises:
        ConfigError: as ``compose`` does.
    """
    with composing(overrides, is_sweep=True):
        prepared, removed = _prepared(overrides, is_sweep=True)
        choices = [each_of_sweep(override) for override in parsed(prepared)]
        swept = list[Combination]()
        for chosen in itertools.product(*choices):
            composed, options = merged(chosen)
            announce(options)
            own = [as_typed(override) for override in chosen]
            varied = " ".join(override for override, among in zip(own, choices, strict=True) if len(among) > 1)
            values = seeded(_plain(composed, removed), chosen)
            swept.append((varied, values, [*own, *(f"~{FILTERS}.{index}" for index in removed)]))
        return swept


def _prepared(overrides: Sequence[str], is_sweep: bool = False) -> tuple[list[str], list[int]]:
    """Returns ``overrides`` as Hydra takes them, and the numbers of filters to remove from what it composes.

    Raises:
        ConfigError: when one holds a secret, is none, sets something of Hydra's own, chooses no option of its group, or
            names an unknown filter.
    """
    readable = readable_overrides(chosen_sizes(_full_names(overrides)), is_sweep)
    numbers, removed = split_removals(with_numbers(readable))
    return [settable(override) for override in numbers], removed


def with_full_names(overrides: Sequence[str]) -> list[str]:
    """Returns ``overrides`` with the whole name of each setting that the last parts of its name alone mean:
    ``learning_rate=1e-3`` is ``optimizer.learning_rate=1e-3`` where no other setting ends so."""
    with composing(overrides, is_sweep=True):
        return _full_names(overrides)


def _full_names(overrides: Sequence[str]) -> list[str]:
    known = {*names(), HYDRA}
    short = [override for override in overrides if setting_of(override).partition("/")[0] not in known]
    if not any("=" in override for override in short):
        return list(overrides)
    others = [override for override in overrides if override not in short]
    chosen = [next(iter(each_of_sweep(override))) for override in parsed(_prepared(others, is_sweep=True)[0])]
    settings = set(dotted(_plain(merged(chosen)[0])))
    return [_full_name(override, settings) if override in short else override for override in overrides]


def _full_name(override: str, settings: Collection[str]) -> str:
    key, equals, value = override.partition("=")
    meant = [name for name in settings if name.endswith(f".{key}")]
    return f"{meant[0]}={value}" if equals and len(meant) == 1 else override


def chosen_options(overrides: Sequence[str]) -> Mapping[str, Any]:
    """Returns the option of each group that ``overrides`` lead to.

    Raises:
        ConfigError: as ``compose`` does.
    """
    with composing(overrides):
        return merged(_prepared(overrides)[0])[1]


def announce(choices: Mapping[str, Any]) -> None:
    """Prints which of the chosen options (group → option) are files of the user's folder."""
    if own := own_folder():
        for group, option in choices.items():
            if (file := option_file(group, str(option))).is_relative_to(own):
                replaces = option in installed_options().get(group, {})
                ours = ", in place of the file of that name in Headrace" * replaces
                _note(f"{group}={option} is {file}{ours}{replaced_lists(group, option)}")


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
    preset = [
        override
        for override in overrides
        if setting_of(override) in ("cleaning", EXPERIMENT) and not names_filter(override)
    ]
    if several := next((override for override in parsed(preset) if override.is_sweep_override()), None):
        problem = f"{several.input_line} is a sweep, and each of its presets has its own list of filters ({named})"
        raise ConfigError(FILTERS, problem, "choose one preset, and sweep a setting of its filters")
    filters = OmegaConf.to_container(merged(preset)[0].cleaning.filters)
    return [numbered(override, filters) for override in overrides]


def _plain(config: DictConfig, removed: Iterable[int] = ()) -> dict[str, Any]:
    """Returns the values of ``config``, without the filters with the numbers ``removed``, in descending order."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    for index in removed:
        del values["cleaning"]["filters"][index]
    if isinstance(values["root"], str):
        values["root"] = os.path.expanduser(values["root"])  # no shell replaces the ~ of root=~/runs
    return {str(key): value for key, value in values.items()}


def seeded(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Returns ``values`` with the seed of the run in place of each other seed that no override sets."""
    if values.get(SEED) is None:
        return values
    given = {str(override.key_or_group) for override in parsed(overrides)}
    return {key: with_seed(key, value, values[SEED], given) for key, value in values.items()}


def with_seed(path: str, value: Any, seed: Any, given: Collection[str]) -> Any:
    """Returns the ``value`` at ``path`` with ``seed`` for each seed in it, but those at the paths ``given``."""
    if path.endswith((f".{SEED}", f".{SEED}s")):
        return value if path in given else [seed] if isinstance(value, list) else seed
    if isinstance(value, dict):
        return {key: with_seed(f"{path}.{key}", inner, seed, given) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_seed(f"{path}.{index}", inner, seed, given) for index, inner in enumerate(value)]
    return value
