"""Names that an object of JSON has twice. Parsers keep the last value without a word.

{"text": "a", "text": "b"}               ── repeated_names ──> ("text",)
{"text": "a", "meta": {"text": "b"}}     ── repeated_names ──> ()

json.loads(line, object_pairs_hook=each_once)      refuses them
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

NAME_END = re.compile(rb'"[ \t\r\n]*:')
"""The end of a name, which may also stand in texts."""
IN_TEXT = re.compile(rb'\\"[ \t\r\n]*:')
"""The same in a text, unless it follows an escaped backslash."""
ESCAPED = b'\\\\"'
Members = Sequence[tuple[str, Any]]
"""The names and values of an object."""


class RepeatedNameError(ValueError):
    """An object of JSON has a name twice."""


def each_once(members: Members) -> dict[str, Any]:
    """Returns the object of ``members``, for ``object_pairs_hook`` of ``json.loads``.

    Raises:
        RepeatedNameError: when two of them have one name.
    """
    if repeated := _repeated(members):
        raise RepeatedNameError(f"an object has the name {repeated[0]!r} twice")
    return dict(members)


def repeated_names(text: bytes, value: Any) -> tuple[str, ...]:
    """Returns the names that an object in ``text`` has twice, at any depth; ``value`` is what was parsed.

    A text that has no more ends of names than ``value`` has names is not parsed again.
    """
    ends = len(NAME_END.findall(text))
    if isinstance(value, dict) and ends == len(value):
        return ()
    names = _number_of_names(value)
    if ends == names or (ESCAPED not in text and ends - len(IN_TEXT.findall(text)) == names):
        return ()
    repeated = dict[str, None]()

    def note(members: Members) -> None:
        repeated.update(dict.fromkeys(_repeated(members)))

    try:
        json.loads(text, object_pairs_hook=note, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):  # more levels than Python's parser reads
        return ()
    return tuple(repeated)


def _repeated(members: Members) -> list[str]:
    names = [name for name, _ in members]
    return [name for name, number in Counter(names).items() if number > 1] if len(set(names)) < len(names) else []


def _number_of_names(value: Any) -> int:
    """Returns the number of names in all objects of ``value``."""
    number, waiting = 0, [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            number += len(inner)
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += [item for item in inner if isinstance(item, dict | list)]
    return number
