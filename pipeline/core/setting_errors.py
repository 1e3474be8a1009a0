"""Turns the errors of pydantic into messages about settings.

("optimizer", "adamw", "learning_rate"), greater_than 0, -1
    ──> optimizer.learning_rate: must be above 0 (got -1); correct the value
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.setting_classes import settings_at

LIMITS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of at most 64 bits",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping {{name: value}}",
    "mapping_type": "must be a mapping {{name: value}}",
    "dataclass_type": "must be settings {{name: value, …}}",
    "model_attributes_type": "must be settings {{type: name, …}}",
}
"""pydantic's name of an error → the message about a value out of bounds."""

TEXTS = "must be a text, or a list of texts"
"""Said of a number in a file, whose characters are not known any more."""

KeyRemedy = Callable[[str, Sequence[str]], str]
"""Returns the remedy for an unknown key: its dotted path and the names of the fields in its place are given."""


def nearest_field(path: str, fields: Sequence[str]) -> str:
    """Returns the nearest of ``fields`` as the remedy for the unknown key ``path``."""
    return suggestion(path.rpartition(".")[2], fields)


def config_error(cls: type, error: ValidationError, where: str, key_remedy: KeyRemedy) -> ConfigError:
    """Returns the first ``error`` of pydantic about settings of ``cls``; an unknown key comes before all others."""
    errors = error.errors()  # a missing value is often present, but with a misspelled name
    first = next((detail for detail in errors if detail["type"] == "unexpected_keyword_argument"), errors[0])
    location = first["loc"]
    parent, tags = settings_at(cls, location)
    path = ".".join(str(part) for i, part in enumerate(location) if i not in tags)
    if first["type"] == "unexpected_keyword_argument":
        known = [f.name for f in dataclasses.fields(parent)]
        return ConfigError(path, f"unknown key {location[-1]!r}", key_remedy(path, known))
    if first["type"] == "missing":
        return ConfigError(path, "is missing", "give it a value")
    if first["type"] == "union_tag_not_found":
        return ConfigError(f"{path}.{first['ctx']['discriminator'].strip(chr(39))}", "is missing", "give it a value")
    if first["type"] == "union_tag_invalid":
        known = [tag.strip(" '") for tag in first["ctx"]["expected_tags"].split(",")]
        return ConfigError(path, f"unknown type {first['ctx']['tag']!r}", suggestion(str(first["ctx"]["tag"]), known))
    return ConfigError(path or where, *problem(first))


def problem(details: ErrorDetails) -> tuple[str, str]:
    """Returns what is wrong with a value, and what to do."""
    limit = LIMITS.get(details["type"])
    bounds = {
        name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in details.get("ctx", {}).items()
    }
    reason = limit.format(**bounds) if limit else details["msg"].removeprefix("Value error, ")
    is_number = isinstance(details["input"], int | float) and (details["type"] == "string_type" or reason == TEXTS)
    remedy = f"put it in quotes: \"'{shown(details['input'])}'\"" if is_number else "correct the value"
    return f"{reason} (got {shown(details['input'])})", remedy


def shown(value: Any) -> str:
    """Returns ``value`` as in YAML when it is null, true or false, else as Python prints it."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
