"""The source of each value of a composed configuration.

    conf/config.yaml            name: null           default
    conf/optimizer/adamw.yaml   learning_rate: …     optimizer=adamw
    conf/experiment/demo.yaml   learning_rate: …     experiment=demo
    ~/mine/cleaning/mine.yaml   filters: […]         cleaning=mine (~/mine/cleaning/mine.yaml)
    override                    optimizer.beta1=…    command line

Sources are merged as the values are: a later mapping is merged into an earlier one, a later list replaces it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.configuration.composition import SEED, compose, layers, with_seed
from headrace.pipeline.configuration.option_values import preset_values
from headrace.pipeline.configuration.options import CONF, NOT_SETTINGS, groups, option_file
from headrace.pipeline.configuration.setting_names import FILTERS

GROUP, NAME = FILTERS.split(".")
DEFAULT = "default"
COMMAND_LINE = "command line"


def sources_of(overrides: Sequence[str]) -> dict[str, Any]:
    """Returns the sources of the values that ``overrides`` lead to, in the shape of the values.

    A source that stands for a mapping or list is that of all values in it. A value without one has its class's default.
    """
    files, settings, removed = layers(overrides)
    sources: dict[str, Any] = {}
    for key, group, option in files:
        file = option_file(group, option) if group else CONF / "config.yaml"
        values = preset_values(file, option)
        labels = {name: labelled(value, _source(group, option)) for name, value in values.items()}
        for name in labels.keys() - NOT_SETTINGS:
            merge(sources, [*filter(None, key.split(".")), name], labels[name])
    for key, value, is_removed in settings:
        if is_removed:
            merge(sources, key.split("."), DEFAULT)
        else:
            _merge_override(sources, key, value)
    _remove_filters(sources, removed)
    if compose(overrides)[SEED] is not None:
        given = {key for key, _, _ in settings}
        sources = {key: with_seed(key, source, SEED, given) for key, source in sources.items()}
    return sources


def _merge_override(sources: dict[str, Any], key: str, value: Any) -> None:
    """Merges the source of an override. One of a group chooses a file, or sets the values of a mapping."""
    if key not in groups() or isinstance(value, Mapping):
        merge(sources, key.split("."), labelled(value, COMMAND_LINE))


def _remove_filters(sources: dict[str, Any], removed: Sequence[int]) -> None:
    """Removes the sources of the filters with the numbers ``removed``."""
    if removed and isinstance(filters := sources[GROUP][NAME], list):
        sources[GROUP][NAME] = [source for index, source in enumerate(filters) if index not in removed]


def _source(group: str, option: str) -> str:
    if not group:
        return DEFAULT
    file = option_file(group, option)
    return f"{group}={option}" + ("" if file.is_relative_to(CONF) else f" ({file})")


def labelled(value: Any, source: str) -> Any:
    """Returns the shape of ``value`` with each of its values replaced by ``source``."""
    if isinstance(value, dict) and value:
        return {str(key): labelled(item, source) for key, item in value.items()}
    if isinstance(value, list) and value:
        return [labelled(item, source) for item in value]
    return f"{source} ({value})" if isinstance(value, str) and "${" in value else source


def merge(tree: Any, path: Sequence[str], source: Any) -> None:
    """Merges ``source`` into the mappings and lists ``tree``, at ``path``."""
    first, *rest = path
    key: Any = int(first) if isinstance(tree, list) else first
    before = tree[key] if isinstance(tree, list) else tree.get(key)
    if rest:
        if not isinstance(before, (dict, list)):
            before = tree[key] = {}
        merge(before, rest, source)
    elif isinstance(before, dict) and isinstance(source, Mapping):
        for name, item in source.items():
            merge(before, [name], item)
    else:
        tree[key] = source


def source_at(sources: Any, key: str | int) -> Any:
    """Returns the sources of the value ``key`` of a mapping or list whose sources are ``sources``."""
    if isinstance(sources, dict):
        return sources.get(str(key), DEFAULT)
    if isinstance(sources, list):
        return sources[int(key)]
    return sources


def leaves(sources: Any) -> Iterator[str]:
    """Yields every source in ``sources``."""
    inner = sources.values() if isinstance(sources, dict) else sources if isinstance(sources, list) else []
    yield from [sources] if isinstance(sources, str) else (leaf for entry in inner for leaf in leaves(entry))
