"""Values of Parquet columns as Python values, the same in every environment.

    2^64 - 1, NaN, Decimal("1.50"), datetime, timedelta, bytes, lists, dictionaries     as pyarrow's ``as_py``
    a time with nanoseconds                                                             text
    a time outside Python's range                                                       its number and unit
    a time in an unknown zone                                                           the time in UTC
    text that is not UTF-8                                                              bytes
    an object with several fields of one name                                           list of pairs, as of a map

``as_py`` alone gives other values where pandas is installed, and cuts nanoseconds. Where it fails, for one item of a
list or one field of an object, the other items and fields are kept.
"""

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow
from pyarrow import types

FAILURES = (pyarrow.ArrowException, ValueError, OverflowError, KeyError)
"""The errors of ``as_py`` on values that Python does not have, and on text that is not UTF-8."""
NANOSECONDS = (pyarrow.timestamp("ns"), pyarrow.time64("ns"), pyarrow.duration("ns"))


def refuse_repeated(names: Sequence[str]) -> None:
    """Refuses a table with several columns of one name: nothing says which one is meant.

    Raises:
        pyarrow.ArrowInvalid: with the name.
    """
    if repeated := [name for name, number in Counter(names).items() if number > 1]:
        raise pyarrow.ArrowInvalid(f"several columns are named {repeated[0]!r}")


def dictionaries(batch: pyarrow.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yields the rows of ``batch``."""
    named = [
        (name, column, reader(column.type)) for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return ({key: value(column[i]) for key, column, value in named} for i in range(batch.num_rows))


def reader(kind: pyarrow.DataType) -> Callable[[Any], Any]:
    """Returns the function that converts values of this type."""
    return _exact if _has_nanoseconds(kind) else _value


def is_text(kind: pyarrow.DataType) -> bool:
    """Whether values of this type are texts or bytes of any length."""
    kinds = (types.is_string, types.is_large_string, types.is_string_view)
    return any(is_kind(kind) for is_kind in kinds) or is_binary(kind)


def is_binary(kind: pyarrow.DataType) -> bool:
    """Whether values of this type are bytes of any length."""
    return any(is_kind(kind) for is_kind in (types.is_binary, types.is_large_binary, types.is_binary_view))


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except FAILURES:
        return _exact(scalar)


def _exact(scalar: Any) -> Any:
    """Converts a value part by part."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_dictionary(kind) or isinstance(kind, pyarrow.BaseExtensionType):
        return _value_within(scalar)
    if types.is_map(kind):
        return [(_exact(pair[0]), _exact(pair[1])) for pair in scalar.values]
    if types.is_nested(kind) and not types.is_struct(kind):
        return [_exact(item) for item in scalar.values]
    if types.is_struct(kind):
        fields = [(field.name, _exact(scalar[number])) for number, field in enumerate(kind)]
        return fields if len(dict(fields)) < len(fields) else dict(fields)
    if _has_nanoseconds(kind):
        return _time(scalar)
    try:
        return scalar.as_py()
    except FAILURES:
        return _foreign(scalar)


def _value_within(scalar: Any) -> Any:
    """Converts a value of a dictionary, or of an extension type: as Python has it, else as it is stored."""
    if not _has_nanoseconds(scalar.type):
        try:
            return scalar.as_py()
        except FAILURES:
            pass
    return _exact(scalar.value)


def _time(scalar: Any) -> Any:
    """Converts a time in nanoseconds: to microseconds where nothing is lost, else to text."""
    kind, nanoseconds = scalar.type, scalar.value
    if types.is_duration(kind):
        whole = nanoseconds % 1000 == 0
        return datetime.timedelta(microseconds=nanoseconds // 1000) if whole else f"{nanoseconds} ns"
    if nanoseconds % 1000:
        return _arrows_text(scalar)
    coarse = pyarrow.timestamp("us", kind.tz) if types.is_timestamp(kind) else pyarrow.time64("us")
    return _exact(scalar.cast(coarse))


def _foreign(scalar: Any) -> Any:
    """Converts a value that Python does not have; None if Arrow cannot write it either.

    Of a time outside Python's range the stored number is kept: Arrow's text of it has another year.
    """
    kind = scalar.type
    if is_text(kind):
        return scalar.cast(pyarrow.binary()).as_py()
    try:
        if types.is_timestamp(kind):
            return scalar.cast(pyarrow.timestamp(kind.unit, kind.tz and "UTC")).as_py()
        return scalar.cast(pyarrow.string()).as_py()
    except FAILURES:
        return f"{scalar.value} {kind.unit}" if types.is_timestamp(kind) else None


def _arrows_text(scalar: Any) -> str:
    """Returns a time as text; in UTC if its zone is not known."""
    try:
        text: str = scalar.cast(pyarrow.string()).as_py()
    except FAILURES:
        return _arrows_text(scalar.cast(pyarrow.timestamp("ns", "UTC")))
    return text


def _has_nanoseconds(kind: pyarrow.DataType) -> bool:
    """Whether a type is one of NANOSECONDS, in any zone, or holds one."""
    if types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    if types.is_dictionary(kind):
        return _has_nanoseconds(kind.value_type)
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _has_nanoseconds(kind.storage_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return kind in NANOSECONDS or any(map(_has_nanoseconds, inner))
