"""Names of filters in overrides: ``cleaning.filters.c4_lines.min_sentences=5`` instead of ``cleaning.filters.2.…``.

A filter or rule is named by its type, a filter of one's own by its class. Numbers are possible, too.
"""

import re
from collections.abc import Sequence
from typing import Any

from headrace.pipeline.core.errors import ConfigError, suggestion

FILTERS = "cleaning.filters"
BELOW_FILTERS = re.compile(rf"([+~]*){re.escape(FILTERS)}\.([^=]+)(=.*)?", re.DOTALL)
"""An override of one filter, or of a field of it."""


def names_filter(override: str) -> bool:
    """Whether ``override`` changes or removes one filter."""
    return BELOW_FILTERS.fullmatch(override) is not None


def numbered(override: str, filters: Any) -> str:
    """Returns ``override`` with numbers instead of names, by the list ``filters`` of the chosen preset.

    Raises:
        ConfigError: when the list has no filter or rule of that name, or several.
    """
    if not (found := BELOW_FILTERS.fullmatch(override)):
        return override
    values, typed, numbers = filters, FILTERS, [found[1] + FILTERS]
    for part in found[2].split("."):
        if isinstance(values, list):
            index = _index_of(part, values, typed)
            numbers.append(str(index))
            values = values[index]
        else:
            numbers.append(part)
            values = values.get(part) if isinstance(values, dict) else None
        typed += f".{part}"
    return ".".join(numbers) + (found[3] or "")


def _index_of(part: str, entries: Sequence[Any], where: str) -> int:
    """Returns the index of the entry that ``part`` names: its number, its type, or the name of one's own class."""
    names = [{str(index), *_entry_names(entry)} for index, entry in enumerate(entries)]
    found = [index for index, known in enumerate(names) if part in known]
    if not found:
        known = [name for some in names for name in some if not name.isdigit()]
        raise ConfigError(where, f"has no entry {part!r}", suggestion(part, known))
    if len(found) > 1:
        remedy = f"give the number of one of them: {where}.{found[0]}"
        raise ConfigError(where, f"has {len(found)} entries {part!r} ({', '.join(map(str, found))})", remedy)
    return found[0]


def _entry_names(entry: Any) -> set[str]:
    """Returns the type of a filter or rule, and for a filter of type ``python`` the name of its class."""
    if not isinstance(entry, dict) or "type" not in entry:
        return set()
    is_own = entry["type"] == "python"
    return {str(entry["type"])} | ({str(entry.get("path")).rpartition(":")[2]} if is_own else set())


def split_removals(overrides: Sequence[str]) -> tuple[list[str], list[int]]:
    """Returns the ``overrides`` for Hydra, which removes no entry of a list, and the numbers of filters to remove, in
    descending order.
    """
    found = {one: re.fullmatch(rf"~{re.escape(FILTERS)}\.(\d+)", one) for one in overrides}
    removed = {int(match[1]) for match in found.values() if match}
    return [one for one in overrides if not found[one]], sorted(removed, reverse=True)
