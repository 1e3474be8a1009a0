"""Explains each rule, and the value of each drop, in plain words with the numbers of the settings.

    c4_lines.sentences, "0"  ──>  "Drops pages with fewer than 3 sentences left."    "0 sentences left, 3 needed"

A template may name settings of the rule, else of its filter. Fractions become percentages. In the second template
``{value}`` is the value as stored, ``{share}`` the same as a percentage, ``{number}`` with thousands separators;
``{survivor}`` is that of a near duplicate, with the similarity.
"""

import dataclasses
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.data_prep.filters.filter import FAILED, Filter, GlobalFilter, deciding, routed
from headrace.data_prep.filters.python_filter import PythonFilter

Templates = tuple[str, str]
"""The sentence about the rule, and the meaning of a value."""

AS_STORED = "{value}"
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
FILTERS: Mapping[str, Templates] = {
    "page_length": (
        "Drops pages of more than {max_characters} characters.",
        "{number} characters, at most {max_characters} allowed",
    ),
    "one_page_per_url": ("Keeps only the newest page of each URL.", "the URL {value} has a newer page"),
    "allowed_domains": ("Drops pages of sites that are not in the list.", "{value} is not in the list"),
    "allowed_domains.domain": ("Drops pages of sites that are not in the list.", "{value} is not in the list"),
    "allowed_domains.subdomain": (
        "Drops pages of listed sites whose subdomain is not in the list.",
        "the subdomain of {value} is not in the list",
    ),
    "allowed_urls": ("Drops pages whose URL is not in the list.", "{value} is not in the list"),
    "allowed_urls.site": ("Drops listed pages of excluded sites.", "{value} is excluded"),
    "blocked_domains.domain": ("Drops pages of listed sites.", "{value} is in the list"),
    "blocked_domains.strict_word": ("Drops pages with a listed word anywhere in the URL.", "the URL has “{value}”"),
    "blocked_domains.hard_word": (
        "Drops pages with a listed word as a word of the URL.",
        "the URL has “{value}”",
    ),
    "blocked_domains.soft_words": (
        "Drops pages with {min_soft_words} or more listed words in the URL.",
        "the URL has “{value}”",
    ),
    "long_lines": (
        "Drops pages with fewer than {min_lines} lines of at least {min_characters} characters.",
        "{number} long lines, {min_lines} needed",
    ),
    "c4_lines.sentences": (
        "Drops pages with fewer than {min_sentences} sentences left.",
        "{number} sentences left, {min_sentences} needed",
    ),
    "c4_split": ("Keeps the pages of C4's split {split}.", "the page belongs to the split {value}"),
    "unique_lines": ("Removes lines that another page has.", AS_STORED),
    "unique_lines.empty": ("Drops pages whose lines are all on other pages.", AS_STORED),
    "unique_lines.sentences": (
        "Drops pages with fewer than {min_sentences} sentences after lines of other pages are removed.",
        "{value}, and fewer than {min_sentences} sentences are left",
    ),
    "unique_spans": ("Removes runs of {sentences} sentences that another page has.", AS_STORED),
    "unique_spans.sentences": (
        "Drops pages with fewer than {min_sentences} sentences after repeated ones are removed.",
        "{number} sentences left, {min_sentences} needed",
    ),
    "unique_paragraphs": ("Removes paragraphs of at least {min_words} words that another page has.", AS_STORED),
    "unique_paragraphs.empty": ("Drops pages whose paragraphs are all on other pages.", AS_STORED),
    "bad_words": ("Drops pages with a word of the list of bad words.", "the page has “{value}”"),
    "language": (
        "Drops pages whose language is not {languages} with a probability of at least {min_score}.",
        "identified as {value}; needed: {languages}, {min_score}",
    ),
    "language_fasttext": (
        "Drops pages whose language is not {languages} with a probability of at least {min_score}.",
        "identified as {value}; needed: {languages}, {min_score}",
    ),
    "by_language.unlisted": ("Drops pages of languages without values.", "language and script of the page: {value}"),
    "fasttext_classifier": (
        "Drops pages with a probability of the label {label} below {min_score}.",
        "probability {value}, at least {min_score} needed",
    ),
    "linear_classifier": (
        "Drops pages with a probability of the label {label} below {min_score}.",
        "probability {value}, at least {min_score} needed",
    ),
    "robots": ("Drops pages that their owners reserve.", "the page says {value}"),
    "licence": ("Drops pages that do not name one of the licences {licences}.", "named: {value}"),
    "without_addresses": ("Drops pages that hold only web addresses.", "nothing else is on the page"),
    "line_corrections.removed_words": (
        "Drops pages that lose more than {max_removed_fraction} of their words.",
        "{share} of the words removed, at most {max_removed_fraction} allowed",
    ),
}
LINE_RULES: Mapping[str, Templates] = {
    "long_word": ("Removes lines with a word of more than {max_word_characters} characters.", AS_STORED),
    "citations": ("Cuts the marks of citations out of lines.", AS_STORED),
    "end_mark": ("Removes lines that do not end in one of {marks}", AS_STORED),
    "ellipsis": ("Removes lines that end in three dots.", AS_STORED),
    "few_words": ("Removes lines of fewer than {min_words} words.", AS_STORED),
    "lorem_ipsum": ("Drops pages with the placeholder text “lorem ipsum”.", "in the line: {value}"),
    "javascript": ("Removes lines with the word “javascript”.", AS_STORED),
    "curly_bracket": ("Drops pages with a curly bracket, which are often code.", "in the line: {value}"),
    "policy": ("Removes lines about terms of use, privacy and cookies.", AS_STORED),
    "uppercase_line": ("Removes lines with more than {max_fraction} capitals.", AS_STORED),
    "numeric_line": ("Removes lines of digits.", AS_STORED),
    "counter_line": ("Removes lines that are only a counter, such as “3 likes”.", AS_STORED),
    "cut_phrase": ("Removes lines that consist of the remains of a menu or button.", AS_STORED),
}
PAGE_RULES: Mapping[str, Templates] = {
    "word_count": (
        "Drops pages with fewer than {min_words} or more than {max_words} words.",
        "{number} words, {min_words} to {max_words} allowed",
    ),
    "word_length": (
        "Drops pages whose words have a mean length below {min_characters} or above {max_characters} characters.",
        "{value} characters per word, {min_characters} to {max_characters} allowed",
    ),
    "symbols": (
        "Drops pages with more than {max_fraction} hash signs or ellipses per word.",
        "{share} symbols per word, at most {max_fraction} allowed",
    ),
    "bullet_lines": (
        "Drops pages with more than {max_fraction} lines that begin with a bullet.",
        "{share} of the lines begin with a bullet, at most {max_fraction} allowed",
    ),
    "ellipsis_lines": (
        "Drops pages with more than {max_fraction} lines that end in an ellipsis.",
        "{share} of the lines end in an ellipsis, at most {max_fraction} allowed",
    ),
    "alphabetic_words": (
        "Drops pages in which fewer than {min_fraction} of the words have a letter.",
        "{share} of the words have a letter, {min_fraction} needed",
    ),
    "stop_words": (
        "Drops pages with fewer than {min_words} of the words {words}.",
        "{number} of these words, {min_words} needed",
    ),
    "duplicate_parts": (
        "Drops pages with too many repeated {part}: more than {max_fraction}, or {max_character_fraction} of the text.",
        "{share} repeated",
    ),
    "top_ngram": (
        "Drops pages where the most frequent run of {words} words has more than {max_fraction} of the text.",
        "{share} of the text, at most {max_fraction} allowed",
    ),
    "duplicate_ngrams": (
        "Drops pages where repeated runs of {words} words have more than {max_fraction} of the text.",
        "{share} of the text, at most {max_fraction} allowed",
    ),
    "line_punctuation": (
        "Drops pages in which fewer than {min_fraction} of the lines end in a punctuation mark.",
        "{share} of the lines end in a mark, {min_fraction} needed",
    ),
    "short_lines": (
        "Drops pages in which more than {max_fraction} of the lines have {max_characters} characters or fewer.",
        "{share} of the lines are short, at most {max_fraction} allowed",
    ),
    "duplicate_lines": (
        "Drops pages with more than {max_character_fraction} of the text in repeated lines.",
        "{share} of the text is in repeated lines, at most {max_character_fraction} allowed",
    ),
    "line_breaks": (
        "Drops pages with more than {max_per_word} line breaks per word, which are lists.",
        "{value} line breaks per word, at most {max_per_word} allowed",
    ),
}
OF_OTHERS: Mapping[str, Templates] = {
    "python": ("{explained}", AS_STORED),
    "datatrove": ("Drops the pages that {path} drops.", AS_STORED),
}
AT_FAILURE: Templates = ("Drops pages at which {path} fails.", AS_STORED)
UNKNOWN: Templates = ("", AS_STORED)
LATER: Mapping[str, Templates] = {
    "exact_duplicate": ("Drops documents whose text equals that of another one.", "equals {value}"),
    "near_duplicate": ("Drops documents that are almost equal to another one.", "similar to {survivor}"),
    "contained": ("Drops documents of which another one holds almost all.", "within {survivor}"),
    "repeated_text": (
        "Drops documents of which too few words are left without the text that other documents have.",
        "{value} words left",
    ),
    "contaminated": ("Drops documents that hold items of the benchmarks.", "holds {value}"),
}
WHOLE = {**READING, **FILTERS, **LATER, **OF_OTHERS}
"""Templates by the whole reason, or by the type of the filter."""
RULES = {**LINE_RULES, **PAGE_RULES}
"""Templates by the part of the reason after the name of the filter."""


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A rule in words."""

    sentence: str
    """The effect of the rule."""
    value_template: str
    settings: Mapping[str, str]

    def of_value(self, value: str) -> str:
        """Returns the meaning of the ``value`` of a drop."""
        survivor = value.replace(" jaccard=", ", Jaccard similarity ").replace(" containment=", ", containment ")
        forms = {"value": value, "share": _percent(value), "number": _number(value), "survivor": survivor}
        text = _filled(self.value_template, {**self.settings, **forms}) if value else ""
        text = re.sub(r"^1 ((?:long )?\w+)s are\b", r"1 \1 is", text)
        return re.sub(r"^1 ((?:long )?\w+)s\b", r"1 \1", text)


def explained(reason: str, filters: Sequence[Filter | GlobalFilter]) -> Explanation:
    """Returns the explanation of a rule of ``filters``, of reading or of deduplication.

    A filter of your own is explained by its setting ``sentence``, else by the first line of its class's docstring.
    """
    reason, filters = routed(reason, filters)
    name, _, part = reason.partition(".")
    deciders = deciding(reason, filters)
    with_rule = (
        (decider, rule) for decider in deciders for rule in getattr(decider, "rules", ()) if part in names_of(rule)
    )
    owner, rule = next(with_rule, (deciders[0] if deciders else None, None))
    values = {field: _text(field, value) for settings in (owner, rule) for field, value in _fields(settings)}
    by_reason = WHOLE.get(reason) or RULES.get(part if rule is None else rule.type)
    is_failure = any(reason == f"{decider.base_reason}.{FAILED}" for decider in deciders)
    by_origin = AT_FAILURE if is_failure else WHOLE.get(name, UNKNOWN)
    sentence, value = by_reason or by_origin
    return Explanation(_filled(sentence, values), value, values)


def names_of(rule: Any) -> set[str]:
    """Returns the names by which reasons may name ``rule``: its type, with what it counts if it has several forms."""
    return {rule.type, *(f"{rule.type}_{getattr(rule, name)}" for name in ("part", "words") if hasattr(rule, name))}


def _fields(settings: Any) -> list[tuple[str, Any]]:
    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    own = [("explained", settings.explained)] if isinstance(settings, PythonFilter) else []
    return [*((field.name, getattr(settings, field.name)) for field in fields), *own]


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


def _number(value: str) -> str:
    return f"{int(value):,}" if re.fullmatch("[0-9]{1,18}", value) else value


def _percent(value: str) -> str:
    return f"{100 * float(value):.1f} %" if re.fullmatch(r"[0-9]+\.[0-9]+", value) else value
