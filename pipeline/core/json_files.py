"""JSON files: written whole and flushed to the disk, strict, and sealed with a hash that detects damage.

{"counts": {"kept": 12}, "seal": "b8e44e9d7440"}

Strict means that NaN and infinity are errors: Python writes them, but they are not JSON, and other readers refuse them.

Of a name that an object has twice, parsers keep the last value without a word:

{"text": "a", "text": "b"}               ── repeated_names ──> ("text",)
{"text": "a", "meta": {"text": "b"}}     ── repeated_names ──> ()

json.loads(line, object_pairs_hook=each_once)      refuses them
read_objects(path, remedy)                         refuses them in files of JSON lines, in any compression
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.claim import temporary_path
from headrace.pipeline.core.errors import ArtifactError, TaskError
from headrace.pipeline.core.settings import digest, digest_of_json
from headrace.pipeline.core.text_files import read_lines


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` to ``path`` atomically: the whole file or nothing.

    Raises:
        TaskError: when it contains NaN or infinity.
    """
    text = json_text(value, path, indent=1, sort_keys=True) + "\n"
    make(path.parent)
    temporary = temporary_path(path)
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def without_nan(value: Any) -> Any:
    """Returns JSON values with null instead of NaN and infinity, which JSON has not."""
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, path: Path, **style: Any) -> str:
    """Returns ``value`` as JSON text, which the caller writes to ``path``.

    Raises:
        TaskError: when it contains NaN or infinity.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **style)
    except ValueError as error:
        raise TaskError(str(path), f"cannot be written as JSON ({error})", "look for the source of the NaN") from None


def read_json(path: Path) -> Any:
    """Reads JSON from ``path``.

    Raises:
        ArtifactError: when the file is not JSON in UTF-8, or too deeply nested.
    """
    return _parsed(path.read_bytes(), str(path))


def _parsed(content: bytes, where: str) -> Any:
    try:
        return json.loads(content.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(where, f"is not JSON ({error})", "remove it and run again") from None


def write_sealed(path: Path, values: Mapping[str, Any]) -> None:
    """Writes ``values`` as JSON with a ``seal``: a hash of the other values."""
    write_json(path, {**values, "seal": digest(values)})


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads a file of ``write_sealed``, and returns its values without the seal.

    Raises:
        ArtifactError: when the file is not JSON, or the seal does not match.
    """
    return unsealed(path.read_bytes(), str(path))


def unsealed(content: bytes, where: str) -> dict[str, Any]:
    """Returns the values of the ``content`` of a file of ``write_sealed`` without the seal; ``where`` names it.

    Raises:
        ArtifactError: when it is not JSON, or the seal does not match.
    """
    values = _parsed(content, where)
    if not isinstance(values, dict) or values.pop("seal", None) != digest_of_json(values):
        raise ArtifactError(where, "is damaged (its seal does not match)", "remove it and run again")
    return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


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


def object_in(line: bytes) -> dict[str, Any]:
    """Returns the object in a ``line`` of JSON.

    Raises:
        RepeatedNameError: when an object in it has a name twice.
        ValueError: when it is no object in JSON.
    """
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise ValueError("is no JSON object")
    if repeated := repeated_names(line, fields):
        raise RepeatedNameError(f"has the name {repeated[0]!r} twice")
    return fields


def read_objects(path: Path, remedy: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each line of ``path``, from 1 on, and the object in it. ``remedy`` says what to give.

    Raises:
        ArtifactError: naming the line that is no JSON object, or has a name twice; see also ``read_lines``.
    """
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield number, object_in(line)
        except RepeatedNameError as error:
            raise ArtifactError(f"{path}:{number}", str(error), "give each name once") from None
        except ValueError:
            raise ArtifactError(f"{path}:{number}", "is no JSON object", remedy) from None
