"""Base class of sources whose records have named fields (JSON objects, Parquet rows).

    {"content": {"body": "…"}, "meta": {"url": "…", "author": "Ann"}}      text_field=content.body, url_field=meta.url
      -> Document("…", metadata={"url": "…", "extra": {"meta": {"author": "Ann"}}})

A name with dots names a field of an object, unless the record has a field of exactly that name. Fields that no setting
names are kept in ``metadata["extra"]`` as JSON values, but null, empty objects, and values of more bytes than a limit:

    1.5, "a", [1, null]                as they are
    NaN, Infinity                      null, because JSON has no such numbers
    123456789012345678901234567890     text, because 64 bits do not hold it
    Decimal("1.50"), a duration, …     text
    bytes                              text if they are UTF-8, else base64 (RFC 4648)

Names of folders add fields, as Hive, Spark and pyarrow write partitioned tables:

    lang=en/year=2024/part-0.parquet      {"lang": "en", "year": 2024}

Their rules are those of ``pyarrow.dataset.partitioning(flavor="hive")``: values are percent-decoded, whole numbers of
32 bits are numbers, and ``__HIVE_DEFAULT_PARTITION__`` is null. pyarrow makes a column of texts if one file has another
value; here each file has the type of its own value, so a new file changes no document of another one.
"""

import base64
import dataclasses
import difflib
import functools
import itertools
import json
import math
import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

import orjson
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.html import HtmlExtraction
from headrace.data_prep.sources.page_bytes import sanitize, utf8
from headrace.data_prep.sources.source import CHECKED_RECORDS, ListedFile, Record, few_of
from headrace.pipeline.core.compression import bare_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Natural, Positive
from headrace.pipeline.core.stage import RawFile

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


MAX_SECTIONS = 65_536
"""The most sections of one file: a file of 4 TB has this number with the default section_bytes."""
MAX_DEPTH = 5
"""The depth of objects whose fields are listed in messages."""
NAMES_SHOWN = 20
TYPES: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}
"""The types of values of JSON, in words."""
METADATA = {"url": "url_field", "date": "date_field", "source_id": "id_field"}
"""Metadata of a document → the setting with the name of its field."""
FASTTEXT = "__label__"
"""The beginning of a label in a line of text, and the field of the document that has it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldSource(HtmlExtraction, FileSource):
    """A source of rows. Its settings name the fields that become the document: ``text``, or ``content.body``."""

    own_revision: ClassVar[int] = 2
    """In revision 1, null was called absent, and lines of JSON that are no objects or not UTF-8 were ``not_json``; in
    revision 0, values that JSON does not have were left out of ``extra``, and so were fields of folders."""
    text_field: str = "text"
    """Field with the text. It is not read if ``html_field`` is set."""
    html_field: str | None = None
    """Field with HTML from which the text is extracted; None: ``text_field`` is read."""
    url_field: str = "url"
    """Field with the URL. It may be absent."""
    id_field: str = "id"
    """Field that is stored as metadata ``source_id``. It may be absent. The document's id is ``<file>:<record>``."""
    date_field: str = "date"
    """Field with the date. It may be absent."""
    extra_field_bytes: Natural = 1_000
    """Largest value, in bytes of JSON, of a field that no setting names. The metadata ``extra`` keeps such fields.
    Larger ones are left out. 0: none is kept."""
    record_bytes: Positive = 20_000_000
    """Rows with more text or HTML than this are dropped."""
    section_bytes: Positive = 64_000_000
    """Size of a section, less for small inputs (``piece_bytes``). A file is read in sections of at least this size,
    each a task of its own."""

    def __post_init__(self) -> None:
        if self.html_field is not None:
            self.require_extractor()

    @property
    def extracts(self) -> bool:
        return self.html_field is not None

    def sections(self, file: ListedFile | RawFile, most_bytes: int) -> int:
        """Returns the number of sections of ``file``: 1 if its name shows that it is compressed.

        Raises:
            ConfigError: when there would be more than ``MAX_SECTIONS``.
        """
        is_compressed = bare_name(file.name) != file.name
        sections = 1 if is_compressed else max(1, file.bytes // min(self.section_bytes, most_bytes))
        if sections > MAX_SECTIONS:
            problem = f"{self.section_bytes:,} cuts {self.location(file.name)!r} into {sections:,} tasks"
            least = file.bytes // MAX_SECTIONS + 1
            raise ConfigError("source.section_bytes", problem, f"give at least {least:,}")
        return sections

    @abstractmethod
    def first_rows(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of the file ``name`` with all their fields, without those that cannot be read."""

    @property
    def read_field(self) -> str:
        """The field that the text comes from."""
        return self.html_field or self.text_field

    @functools.cached_property
    def named_fields(self) -> set[str]:
        """The fields that settings name."""
        return {self.text_field, self.read_field, *self.metadata_fields.values()}

    @functools.cached_property
    def metadata_fields(self) -> dict[str, str]:
        """The fields that become metadata, by its names."""
        return {key: getattr(self, setting) for key, setting in METADATA.items()}

    def check(self, names: Sequence[str]) -> None:
        """Refuses settings with which most of the first records of the files ``names`` have no text, or bad metadata.

        Prints the field that probably has the URL, if none has the name ``url_field``.

        Raises:
            ConfigError: with the fields that the records have and the name that is probably meant.
        """
        super().check(names)
        rows = [
            {**folder_fields(name), **row}
            for name in few_of(names)
            for row in itertools.islice(self.first_rows(name), CHECKED_RECORDS)
        ]
        without_text = [row for row in rows if not isinstance(value_at(row, self.read_field), (str, bytes))]
        if 2 * len(without_text) > len(rows):
            setting = "source.text_field" if self.html_field is None else "source.html_field"
            problem = f"{len(without_text)} of the first {len(rows)} records have no text in {self.read_field!r}"
            fields = list(dict.fromkeys(itertools.chain.from_iterable(map(field_names, rows))))
            shown = ", ".join(fields[:NAMES_SHOWN]) + (", …" if len(fields) > NAMES_SHOWN else "")
            near = nearest_field(self.read_field, rows)
            meant = "source.html_field" if near and all(is_html(value_at(row, near)) for row in rows) else setting
            remedy = f"did you mean {meant}={near}?" if near else f"name the field with the text: {setting}=…"
            raise ConfigError(setting, f"{problem} (their fields: {shown or 'none'})", remedy)
        self._check_metadata(rows)
        near = nearest_field(self.url_field, rows, ("http://", "https://"))
        if near and all(value_at(row, self.url_field) is None for row in rows):
            problem_of_url = f"source.url_field: the first {len(rows)} records have no field {self.url_field!r}"
            print(f"{problem_of_url}; to use {near!r}, give source.url_field={near}", file=sys.stderr)

    def _check_metadata(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Refuses a field for metadata that is not UTF-8 in most of ``rows``: they would all be dropped."""
        for key, field in self.metadata_fields.items():
            binary = sum(1 for row in rows if not is_utf8(value_at(row, field)))
            if 2 * binary > len(rows):
                problem = f"{binary} of the first {len(rows)} records have bytes in {field!r} that are not UTF-8"
                setting = f"source.{METADATA[key]}"
                raise ConfigError(setting, problem, f"name another field, or one that does not exist: {setting}=…")

    def document(self, identity: str, row: Mapping[str, Any]) -> Record:
        """Makes the document of ``row``. It is dropped as ``no_text`` if the field is absent, null, empty or no string,
        and as ``not_utf8`` if its URL, date or id is bytes that are not UTF-8."""
        if fields := folder_fields(identity.rpartition(":")[0]):
            row = {**fields, **row}
        metadata: dict[str, Any] = {"url": ""}
        for key, field in self.metadata_fields.items():
            if (value := value_at(row, field)) is not None:
                try:
                    metadata[key] = _string(value)
                except UnicodeDecodeError as error:
                    position = f"field {field!r}, byte {error.start}"
                    return Document("", identity, metadata=metadata), Drop("not_utf8", position)
        if extra := small_values(without(row, self.named_fields), self.extra_field_bytes):
            metadata["extra"] = extra
        value = value_at(row, self.read_field)
        text: str | Drop = ""
        if isinstance(value, bytes):
            value = utf8(value).decode()
        if isinstance(value, str):
            if len(value) > self.record_bytes:
                return Document("", identity, metadata=metadata), Drop("record_too_large", str(len(value)))
            text = sanitize(value)
            if self.html_field is not None:
                extracted = self.extracted(text)
                text, metadata = extracted.text, metadata | extracted.metadata()
        if isinstance(text, Drop):
            return Document("", identity, metadata=metadata), text
        if not text.strip():
            state = _state(value) if is_in(row, self.read_field) else "absent"
            return Document("", identity, metadata=metadata), Drop("no_text", f"field {self.read_field!r} is {state}")
        return Document(text, identity, metadata=metadata), None


def value_at(row: Mapping[str, Any], field: str) -> Any:
    """Returns the value of ``field``: of this name, or of the object that the part before a dot names; else None."""
    if field in row or "." not in field:
        return row.get(field)
    outer, _, inner = field.partition(".")
    return value_at(row[outer], inner) if isinstance(row.get(outer), Mapping) else None


def is_in(row: Mapping[str, Any], field: str) -> bool:
    """Whether ``row`` has ``field``, as ``value_at`` finds it; its value may be null."""
    outer, dot, inner = field.partition(".")
    return field in row or (bool(dot) and isinstance(row.get(outer), Mapping) and is_in(row[outer], inner))


def without(row: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Returns ``row`` without ``fields``, also those inside objects."""
    if not any("." in field for field in fields):
        return {key: value for key, value in row.items() if key not in fields}
    rest = {}
    for key, value in row.items():
        inner = {field.removeprefix(f"{key}.") for field in fields if field.startswith(f"{key}.")}
        if key not in fields:
            rest[key] = without(value, inner) if inner and isinstance(value, Mapping) else value
    return rest


def field_names(row: Mapping[str, Any], prefix: str = "", depth: int = 1) -> Iterator[str]:
    """Yields the names of the fields of ``row`` and of the objects in it."""
    for key, value in row.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            yield from field_names(value, f"{prefix}{key}.", depth + 1)


def nearest_field(name: str, rows: Sequence[Mapping[str, Any]], beginnings: tuple[str, ...] = ("",)) -> str | None:
    """Returns the field with the name nearest to ``name``, else the one with the longest texts; None if none has texts.

    Only texts that begin with one of ``beginnings`` count.
    """
    lengths: Counter[str] = Counter()
    for row in rows:
        for field in field_names(row):
            value = value_at(row, field)
            if isinstance(value, str) and value.startswith(beginnings):
                lengths[field] += len(value)
    last = {field: field.rpartition(".")[2] for field in lengths}
    near = difflib.get_close_matches(name.rpartition(".")[2], last.values(), n=1)
    same = [field for field, part in last.items() if part in near]
    return max(same or lengths, key=lengths.__getitem__, default=None)


def is_utf8(value: object) -> bool:
    """Whether ``_string`` can read ``value``."""
    try:
        _string(value)
    except UnicodeDecodeError:
        return False
    return True


def is_html(value: object) -> bool:
    """Whether ``value`` is a text that begins as HTML does."""
    return isinstance(value, str) and value.lstrip().startswith("<")


def _state(value: object) -> str:
    """Returns what a ``value`` without text is, in words."""
    if value is None or isinstance(value, str):
        return "null" if value is None else "without text" if value else "empty"
    return f"{TYPES.get(type(value), f'of the type {type(value).__name__}')}, no text"


def _string(value: object) -> str:
    """Returns ``value`` as text; empty for lists and objects, which may nest deeper than ``str`` can print.

    Raises:
        UnicodeDecodeError: when it is bytes that are not UTF-8.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8")
    return "" if isinstance(value, (dict, list)) else sanitize(str(value))
