"""Explains each rule, and the value of each drop, in plain words with the numbers of the settings.

    c4_lines.sentences, "0"  ──>  "Drops pages with fewer than 3 sentences left."    "0 sentences left, 3 needed"

The sentence about a rule in a list is the first line of its class's docstring, the template of its values is
``meaning``; filters have both in ``explanations``, by reason; those of reading and deduplication are here. They may
name settings of the rule, else of its filter. Fractions become percentages. Of a value, ``{value}`` is as stored,
``{share}`` a percentage, ``{number}`` has thousands separators; ``{survivor}`` is that of a near duplicate, with the
similarity.
"""

import dataclasses
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.data_prep.filters.filter import AS_STORED, FAILED, Filter, GlobalFilter, Templates, deciding, routed
from headrace.data_prep.filters.python_filter import PythonFilter

LISTED = 8
"""The number of entries that are shown of a setting that is a list."""

READING: Mapping[str, Templates] = {
    "not_json": ("Drops lines that are not JSON.", AS_STORED),
    "not_an_object": ("Drops lines of JSON that are no object with fields, such as a list.", AS_STORED),
    "broken_file": ("Drops what a damaged file holds.", AS_STORED),
    "broken_record": ("Drops records that are damaged.", AS_STORED),
    "broken_compression": ("Drops what cannot be decompressed.", AS_STORED),
    "truncated_record": ("Drops records whose end is missing.", "{number} bytes are there"),
    "wrong_length": ("Drops records whose length is not the one in their header.", "{number} bytes"),
    "content_encoding": ("Drops pages in a content encoding that is unknown or damaged.", AS_STORED),
    "missing_file": ("Drops documents whose file does not exist.", AS_STORED),
    "record_too_large": ("Drops records with more bytes than source.record_bytes.", "{number} bytes"),
    "not_a_page": ("Drops WARC records that are not pages.", "type of the record: {value}"),
    "http_status": ("Drops answers of web servers with another status than 200.", "status {value}"),
    "not_html": ("Drops pages that are not HTML.", "content type {value}"),
    "binary": ("Drops bodies of other formats that are labelled as HTML.", AS_STORED),
    "undecodable": ("Drops pages in another character set than they declare.", AS_STORED),
    "too_nested": ("Drops HTML that is nested too deeply.", "{value} open elements"),
    "too_many_blocks": ("Drops HTML that consists of too many pieces.", "{value}"),
    "too_slow": ("Drops pages that need too much time.", AS_STORED),
    "too_much_memory": ("Drops pages that need too much memory for extraction.", AS_STORED),
    "crashed": ("Drops pages at which the extractor crashed.", "signal {value}"),
    "no_text": ("Drops records without text.", AS_STORED),
    "not_utf8": ("Drops records with bytes that are not UTF-8, such as Latin-1.", AS_STORED),
    "not_unicode": ("Drops texts that are not Unicode.", "at {value}"),
}
AT_FAILURE: Templates = ("Drops pages at which {path} fails.", AS_STORED)
UNKNOWN: Templates = ("", AS_STORED)
LATER: Mapping[str, Templates] = {
    "exact_duplicate": ("Drops documents whose text equals that of another one.", "equals {value}"),
    "near_duplicate": ("Drops documents that are almost equal to another one.", "similar to {survivor}"),
    "repeated_text": (
        "Drops documents of which too few words are left without the text that other documents have.",
        "{value} words left",
    ),
    "contaminated": ("Drops documents that hold items of the benchmarks.", "holds {value}"),
}
OF_STAGES = {**READING, **LATER}
"""Templates of the reasons that no filter writes."""


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A rule in words."""

    sentence: str
    """The effect of the rule."""
    value_template: str
    settings: Mapping[str, str]

    def of_value(self, value: str) -> str:
        """Returns the meaning of the ``value`` of a drop."""
        survivor = value.replace(" jaccard=", ", Jaccard similarity ")
        share = f"{100 * float(value):.1f} %" if re.fullmatch(r"[0-9]+\.[0-9]+", value) else value
        number = f"{int(value):,}" if re.fullmatch("[0-9]{1,18}", value) else value
        forms = {"value": value, "share": share, "number": number, "survivor": survivor}
        text = _filled(self.value_template, {**self.settings, **forms}) if value else ""
        return re.sub(r"^1 ((?:long )?\w+)s( are)?\b", lambda match: f"1 {match[1]}" + " is" * bool(match[2]), text)


def explained(reason: str, filters: Sequence[Filter | GlobalFilter]) -> Explanation:
    """Returns the explanation of a rule of ``filters``, of reading or of deduplication.

    A rule in a list, and a filter without ``explanations``, is explained by the first line of its class's docstring; a
    class of the user's own by its setting ``sentence``, if it is given.
    """
    reason, filters = routed(reason, filters)
    part = reason.partition(".")[2]
    deciders = deciding(reason, filters)
    rules = ((own, rule) for own in deciders for rule in getattr(own, "rules", ()) if part in names_of(rule))
    owner, rule = next(rules, (deciders[0] if deciders else None, None))
    values = {field: _text(field, value) for settings in (owner, rule) for field, value in _fields(settings)}
    templates = None if owner is None else owner.explanations.get(part) or owner.explanations.get("")
    if any(reason == f"{own.base_reason}.{FAILED}" for own in deciders):
        templates = AT_FAILURE
    if rule is not None or (owner is not None and templates is None):
        return Explanation(_of_class(type(rule or owner), values), getattr(rule, "meaning", AS_STORED), values)
    sentence, meaning = templates or OF_STAGES.get(reason, UNKNOWN)
    return Explanation(_filled(sentence, values), meaning, values)


def _of_class(cls: type, values: Mapping[str, str]) -> str:
    """Returns the first line of the docstring of ``cls``, in which the names of settings are their ``values``."""
    text = (cls.__doc__ or "").partition("\n")[0]
    is_written = not text.startswith(f"{cls.__name__}(")  # a dataclass without one has its signature
    return re.sub(r"``(\w+)``", lambda name: values.get(name[1], name[0]), text) if is_written else ""


def names_of(rule: Any) -> set[str]:
    """Returns the names by which reasons may name ``rule``: its type, with what it counts if it has several forms."""
    return {rule.type, getattr(rule, "reason", rule.type)}


def _fields(settings: Any) -> list[tuple[str, Any]]:
    """Returns the settings by name, without lists of rules and kinds."""
    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    values = [(field.name, getattr(settings, field.name)) for field in fields]
    plain = [(name, value) for name, value in values if not (isinstance(value, tuple) and _is_nested(value))]
    return [*plain, ("explained", settings.explained)] if isinstance(settings, PythonFilter) else plain


def _is_nested(values: Sequence[Any]) -> bool:
    return any(map(dataclasses.is_dataclass, values))


def _text(name: str, value: Any) -> str:
    if isinstance(value, float) and name.endswith("fraction"):
        return f"{100 * value:g} %"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value[:LISTED])) + " …" * (len(value) > LISTED)
    return "any language" if value is None and name == "languages" else str(value)


def _filled(template: str, values: Mapping[str, str]) -> str:
    names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    return template.format_map({name: values.get(name, "?") for name in names})
