"""The one reader of YAML for settings, and the form in which they are written: that of OmegaConf, by which Hydra reads.

    no, on -> False, True      1e-3 -> 0.001      12:30 -> 750      2024-06-01 -> "2024-06-01"      017 -> 15

YAML 1.1, but for numbers like 1e-3 and for dates, which are texts. A text that looks like a number needs quotes. A key
that a mapping has twice is refused: other readers keep the last value, and Hydra that of keys that are no texts.
"""

import copy
import functools
from collections.abc import Hashable, Iterator
from typing import Any

import yaml
from omegaconf._utils import get_yaml_loader

MERGE = "tag:yaml.org,2002:merge"
"""The tag of ``<<``, which a mapping may have several times."""
OmegaConfLoader: Any = get_yaml_loader()


class Dumper(yaml.SafeDumper):
    """Writes texts that the reader would take for numbers in quotes."""


Dumper.yaml_implicit_resolvers = {
    first: [*resolvers, *OmegaConfLoader.yaml_implicit_resolvers.get(first, [])]
    for first, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
}


def yaml_values(text: str) -> Any:
    """Returns the values of ``text``, which is YAML: a new copy in each call.

    Raises:
        yaml.YAMLError: when it is not YAML, or a mapping has a key twice; its problem names the line of the first.
    """
    return copy.deepcopy(_parsed(text))


@functools.cache
def _parsed(text: str) -> Any:
    """Parses ``text`` once in this process: help reads every file of a group for each of its settings."""
    loader = OmegaConfLoader(text)
    try:
        document = loader.get_single_node()
        for mapping in _mappings(document):
            _refuse_repeated(loader, mapping)
        return None if document is None else loader.construct_document(document)
    finally:
        loader.dispose()


def _mappings(document: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Yields each mapping of ``document`` once, however many aliases lead to it."""
    waiting, seen = [document], set[int]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield node
            waiting += [value for _, value in node.value]
        else:
            waiting += node.value


def _refuse_repeated(loader: Any, mapping: yaml.MappingNode) -> None:
    first: dict[Hashable, yaml.Node] = {}
    for node, _ in mapping.value:
        if isinstance(node, yaml.ScalarNode) and node.tag != MERGE:
            before = first.setdefault(loader.construct_object(node), node)
            if before is not node:
                problem = f"the key {node.value!r} is also in line {before.start_mark.line + 1}"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def yaml_text(value: Any, **options: Any) -> str:
    """Returns ``value`` as YAML in which ``yaml_values`` finds it again."""
    return str(yaml.dump(value, Dumper=Dumper, allow_unicode=True, width=10**6, **options))
