"""Filter that judges each document by rules with the values of its own language.

    document ── language (metadata), script of most letters ──> de_Latn ──> filters with German values ──> kept, dropped
                                                           └──> no entry ──> default, or dropped as unlisted

A filter before it identifies the language, or the source's documents name it in their metadata. Source of the method:
Penedo et al. 2025, "FineWeb2: One Pipeline to Scale Them All" (one list of rules, thresholds and stop words of each
language).
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters import FILTERS
from headrace.data_prep.filters.filter import (
    ROUTE,
    Explanations,
    Filter,
    Routing,
    filter_settings,
    require_file,
    user_file,
)
from headrace.data_prep.filters.language.language_codes import check_codes
from headrace.data_prep.filters.language.language_values import (
    VALUES,
    LanguageValues,
    RuleValues,
    adapted,
    cached_values,
    check_rules,
    language_of,
)
from headrace.data_prep.text.scripts import main_script
from headrace.pipeline.core.settings import FilePath
from headrace.pipeline.core.stage import RawFile

DEFAULT = "default"
"""The entry for languages without values."""
ROUTED = FILTERS.only(
    "long_lines", "c4_lines", "gopher_quality", "gopher_repetition", "fineweb_quality", "line_corrections"
)
AnyRoutedFilter = Annotated[Filter, ROUTED]
"""Filters whose rules depend on the language. Others stand before or after ``by_language``."""


@filter_settings
class ByLanguage(Routing):
    """Judges each page by ``filters`` with the values of its language and script.

    A page of another language is judged by the entry ``default`` of ``languages``, else dropped. Stores the entry of a
    kept page as ``language_values`` in the metadata.
    """

    explanations: ClassVar[Explanations] = {
        "unlisted": ("Drops pages of languages without values.", "language and script of the page: {value}"),
    }
    type: Literal["by_language"] = "by_language"
    filters: tuple[AnyRoutedFilter, ...]
    """The filters with their values for English."""
    languages: dict[str, RuleValues] = dataclasses.field(default_factory=dict)
    """Values of your own, which replace those of the file, rule by rule: ``{de_Latn: {word_count: {min_words: 30}}}``.
    The entry ``default`` is for languages without values."""
    path: FilePath | None = None
    """A file of your own with values by language, such as ``headrace thresholds by_language`` writes; None: the
    project's language_values.json."""

    def __post_init__(self) -> None:
        if self.path is not None:
            require_file("by_language.path", self.path, "a JSON file of values by language")
        known = {*cached_values(self.path), DEFAULT}
        check_codes("by_language.languages", "the file of values", self.languages, known)
        for language, rules in self.languages.items():
            check_rules(f"by_language.languages.{language}", rules, self.filters)
            self.route(language)

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the file of values, also the project's own, whose content decides the result as well."""
        own = user_file(str(self.path or VALUES))
        return (own, *(file for page_filter in self.filters for file in page_filter.raw_files()))

    def check(self) -> None:
        """Refuses what the filters refuse, and values of the file that are out of the bounds of their rules."""
        for language in cached_values(self.path):
            self.route(language)
        for page_filter in self.filters:
            page_filter.check()

    def english_rules(self, document: Document) -> tuple[str, ...]:
        name = document.metadata.get(ROUTE) or self._entry(document)
        return tuple(f"{self.type}.{name}.{rule}" for own in self.route(name) for rule in own.english_rules(document))

    def judge(self, document: Document) -> Drop | None:
        name = self._entry(document)
        if name not in self._values:
            code = document.metadata.get("language") or "unknown"
            return Drop(f"{self.type}.unlisted", f"{code} {main_script(document.text)}")
        text, metadata = document.text, document.metadata
        document.metadata = {key: dict(value) if isinstance(value, dict) else value for key, value in metadata.items()}
        drop = next((drop for rule in self.route(name) if (drop := rule.judge(document))), None)
        if drop is not None:
            document.text, document.metadata = text, metadata
            return Drop(f"{self.type}.{name}.{drop.rule}", drop.value)
        document.metadata[ROUTE] = name
        return None

    def _entry(self, document: Document) -> str:
        """Returns the entry of the values for ``document``; ``default`` when there is none."""
        return language_of(document.metadata.get("language"), document.text, self._values) or DEFAULT

    def route(self, name: str) -> "tuple[Filter, ...]":
        """Returns the filters for the entry ``name`` of the values; none when there is no such entry."""
        if name not in self._values:
            return ()
        routes = self.__dict__.setdefault("_routes", {})
        if name not in routes:
            routes[name] = tuple(adapted(page_filter, self._values[name]) for page_filter in self.filters)
        return tuple(routes[name])

    @functools.cached_property
    def _values(self) -> Mapping[str, LanguageValues]:
        """The values of the file with those of ``languages``."""
        values = dict(cached_values(self.path))
        for language, rules in self.languages.items():
            before = values.get(language, LanguageValues())
            values[language] = dataclasses.replace(before, rules=merged(before.rules, rules))
        return values


def merged(before: RuleValues, rules: RuleValues) -> RuleValues:
    """Returns the values ``before``, in which ``rules`` replace single settings. Null replaces a rule."""
    both = {name: {**(before.get(name) or {}), **own} for name, own in rules.items() if own is not None}
    return {**before, **both, **{name: None for name, own in rules.items() if own is None}}
