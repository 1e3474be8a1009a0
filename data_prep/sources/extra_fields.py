"""Fields that no setting names, as JSON values for the metadata ``extra``.

    1.5, "a", [1, null]                as they are
    NaN, Infinity                      null, because JSON has no such numbers
    123456789012345678901234567890     text, because 64 bits do not hold it
    Decimal("1.50"), a duration, …     text
    bytes                              text if they are UTF-8, else base64 (RFC 4648)

Null, empty objects, and values of more bytes than a limit are left out.

Fields in the names of folders, as Hive, Spark and pyarrow write partitioned tables:

    lang=en/year=2024/part-0.parquet      {"lang": "en", "year": 2024}

Their rules are those of ``pyarrow.dataset.partitioning(flavor="hive")``: values are percent-decoded, whole numbers of
32 bits are numbers, and ``__HIVE_DEFAULT_PARTITION__`` is null. pyarrow makes a column of texts if one file has another
value; here each file has the type of its own value, so a new file changes no document of another one.
"""

import base64
import functools
import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import orjson

from headrace.data_prep.sources.charset import sanitize

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"-?[0-9]+")
MAX_NESTING = 200
"""orjson writes 254 levels, those of the document around the value included. Deeper parts become JSON text."""
NUMBERS = (int, bool, float)
"""Types of numbers that JSON has. Some are written as text or null."""
LARGE = 2.0**63
"""Whole numbers from here on may not be in 64 bits. orjson then reads them as floats, which have 53 bits."""


def small_values(row: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Returns the fields of ``row`` whose JSON has at most ``max_bytes``, without null and empty objects."""
    values = {}
    for key, value in row.items() if max_bytes else ():
        if value is None:
            continue
        text = _written(value)
        if len(text) <= max_bytes and text != b"{}":
            values[key if key.isascii() else sanitize(key)] = value if _is_same(value, text) else orjson.loads(text)
    return values


def _is_same(value: object, text: bytes) -> bool:
    """Whether ``orjson.loads`` of ``text``, the JSON of ``value``, would give it again: a number or a text of ASCII."""
    return value.isascii() if isinstance(value, str) else type(value) in NUMBERS and text[0] not in b'"n'


def is_rounded(value: object) -> bool:
    """Whether ``value`` is or holds a float that may stand for a whole number of more than 64 bits."""
    if isinstance(value, float):
        return abs(value) >= LARGE and not math.isinf(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(is_rounded(value_inside) for value_inside in inner if type(value_inside) in (float, list, dict))


def _written(value: object) -> bytes:
    """Returns the JSON of ``value``."""
    try:
        text = orjson.dumps(value, _as_text, orjson.OPT_NON_STR_KEYS)
        if len(text) <= 2 * MAX_NESTING or text.count(b"[") + text.count(b"{") <= MAX_NESTING:
            return text
    except TypeError:  # more than 64 bits, a lone surrogate, too many levels
        pass
    return orjson.dumps(_writable(value), _as_text)


def _writable(value: object, levels: int = MAX_NESTING) -> object:
    """Returns ``value`` in a form that orjson can write."""
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -LARGE <= value < 2 * LARGE else str(value)
    if isinstance(value, (Mapping, list, tuple)) and not levels:
        return _flat(value)
    if isinstance(value, Mapping):
        return {sanitize(str(key)): _writable(inner, levels - 1) for key, inner in value.items()}
    return [_writable(item, levels - 1) for item in value] if isinstance(value, (list, tuple)) else value


def _flat(value: object) -> str:
    try:
        return sanitize(json.dumps(value, default=_as_text))
    except RecursionError:
        return "too many levels"


def _as_text(value: object) -> str:
    """Returns a value that JSON does not have as text."""
    if not isinstance(value, (bytes, memoryview)):
        return sanitize(str(value))
    data = bytes(value)
    try:
        return sanitize(data.decode("utf-8"))
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


@functools.lru_cache(maxsize=1024)
def folder_fields(name: str) -> dict[str, str | int | None]:
    """Returns the fields of the file ``name``, from the folders below the common folder of the source."""
    folders = (folder.partition("=") for folder in name.split("/")[:-1])
    return {unquote(key): _folder_value(unquote(value)) for key, equals, value in folders if key and equals}


def _folder_value(text: str) -> str | int | None:
    if WHOLE_NUMBER.fullmatch(text) and -(2**31) <= int(text) < 2**31:
        return int(text)
    return None if text == HIVE_NULL else text
