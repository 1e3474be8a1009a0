"""Filter that judges each document by rules with the values of its own language, and these values.

    document ── language (metadata), script of most letters ──> de_Latn ──> filters with German values ──> kept, dropped
                                                           └──> no entry ──> default, or dropped as unlisted

    {"de_Latn": {"rules": {"stop_words": {"words": ["der", "die", …]}, "word_length": {"max_characters": 12.4}}}}

A filter before it identifies the language, or the source's documents name it in their metadata. Source of the method:
Penedo et al. 2025, "FineWeb2: One Pipeline to Scale Them All" (one list of rules, thresholds and stop words of each
language).

A language has an ISO 639-1 code, or that of ISO 639-3, and a script of ISO 15924. ``rules`` maps the type of a rule or
filter, or the reason of one of several rules of that type (``top_ngram_2``), to the settings that differ; null leaves
the rule out. language_values.json has the languages of this project; its README.md names the origin of each value.
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import orjson
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
from headrace.data_prep.filters.language.language_codes import check_codes, first_code
from headrace.data_prep.filters.page_filter import PageRule
from headrace.data_prep.filters.quality_rules import (
    AlphabeticWords,
    DuplicateNgrams,
    LineBreaks,
    Symbols,
    TopNgram,
    WordCount,
    WordLength,
)
from headrace.data_prep.text.scripts import SCRIPTS, main_script
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.settings import FilePath, PositiveNumber, decode_within, plain, settings
from headrace.pipeline.core.stage import RawFile

VALUES = Path(__file__).parent / "language_values.json"
RuleValues = dict[str, dict[str, Any] | None]
"""Rule or filter → settings that differ from those of the English rule, or null."""
HAN_ONLY = {"Jpan": "Hani"}
"""A text in Han characters alone may be of a language whose script has others, too."""

F = TypeVar("F", bound=Filter)


@settings
class LanguageValues:
    """The values of one language."""

    rules: RuleValues = dataclasses.field(default_factory=dict)
    """The settings of rules that differ from those of the list of filters."""
    characters_per_word: PositiveNumber = 1.0
    """Letters of a word, for scripts without spaces: what ``counting: scripts`` counts is divided by it."""


@functools.cache
def read_values(path: str | None) -> Mapping[str, LanguageValues]:
    """Returns the values of each language from the JSON file ``path``, once per process; None: ours.

    Raises:
        ArtifactError: when the file is not JSON.
        ConfigError: when its content is not of this form.
    """
    file = VALUES if path is None else Path(path)
    try:
        content = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ArtifactError(str(file), f"is not a JSON file ({error})", "give a file of values by language") from None
    if not isinstance(content, dict) or not all(isinstance(value, dict) for value in content.values()):
        raise ConfigError(str(file), "is no object of languages", 'write {"de_Latn": {"rules": {…}}}')
    for language in content:
        check_entry(file.name, language)
    return {
        language: decode_within(LanguageValues, value, f"{file.name}.{language}") for language, value in content.items()
    }


def check_entry(where: str, entry: str) -> None:
    """Checks that ``entry`` has the form that ``language_of`` looks for.

    Raises:
        ConfigError: when it is no language and script, or the language has a shorter code.
    """
    language, _, script = entry.partition("_")
    short = f"{first_code(language)}_{script}"
    if script not in SCRIPTS.values() or not language:
        raise ConfigError(where, f"{entry!r} is no language and script", "write an ISO 639 and a script, as de_Latn")
    if entry != short:
        raise ConfigError(where, f"{entry!r} is not the shortest code", f"write {short!r}")


def language_of(code: object, text: str, known: Mapping[str, object]) -> str | None:
    """Returns the entry of ``known`` for a text in the language ``code`` and the script of most of its letters.

    ``code`` is that of an identifier: ``zh-cn``, ``eng_Latn``. None: there is no entry.
    """
    language, script = first_code(str(code)), main_script(text)
    candidates = (f"{language}_{script}", *(f"{language}_{name}" for name, han in HAN_ONLY.items() if han == script))
    return next((entry for entry in candidates if entry in known), None)


def adapted(template: F, values: LanguageValues) -> F:
    """Returns the filter ``template`` with ``values``.

    Raises:
        ConfigError: when a value is not one of the rule, or out of its bounds.
    """
    changes = dict(values.rules.get(template.type) or {})
    rules = getattr(template, "rules", None)
    if rules is not None and "rules" not in changes:
        per_word = values.characters_per_word if getattr(template, "counting", "") == "scripts" else 1.0
        changes["rules"] = [plain(in_letters(rule, per_word)) for rule in adapted_rules(rules, values.rules)]
    return decode_within(type(template), plain(template) | changes, template.type)


def adapted_rules(rules: "tuple[Any, ...]", values: RuleValues) -> list[Any]:
    """Returns ``rules`` with ``values``, without those whose value is null."""
    kept = []
    for rule in rules:
        name = getattr(rule, "reason", rule.type)
        changes = values.get(name, values.get(rule.type, {}))
        if changes is not None:
            kept.append(decode_within(type(rule), plain(rule) | changes, name) if changes else rule)
    return kept


def in_letters(rule: Any, per_word: float) -> Any:
    """Returns ``rule`` for text whose letters count as words, of which a word has ``per_word``.

    Numbers of words are multiplied by it, and numbers per word divided. Of n words a fraction a with letters becomes
    an·k : (an·k + (1 - a)n), because marks stay single. A mean length of letters says nothing, so its bounds are open.
    """
    match rule:
        case _ if per_word == 1:
            return rule
        case WordCount():
            fewest, most = (round(number * per_word) for number in (rule.min_words, rule.max_words))
            return dataclasses.replace(rule, min_words=fewest, max_words=most)
        case WordLength():
            return dataclasses.replace(rule, min_characters=0.0, max_characters=1e9)
        case TopNgram() | DuplicateNgrams():
            return dataclasses.replace(rule, words=max(1, round(rule.words * per_word)))
        case AlphabeticWords():
            letters = rule.min_fraction * per_word
            return dataclasses.replace(rule, min_fraction=letters / (letters + 1 - rule.min_fraction))
        case Symbols():
            return dataclasses.replace(rule, max_fraction=rule.max_fraction / per_word)
        case LineBreaks():
            return dataclasses.replace(rule, max_per_word=rule.max_per_word / per_word)
    return rule


def check_rules(where: str, values: RuleValues, filters: "tuple[Filter, ...]") -> None:
    """Checks that each entry of ``values`` is a rule of ``filters`` or one of these.

    Raises:
        ConfigError: with the nearest name.
    """
    rules: list[PageRule] = [rule for page_filter in filters for rule in getattr(page_filter, "rules", ())]
    known = {page_filter.type for page_filter in filters} | {rule.type for rule in rules}
    known |= {getattr(rule, "reason", rule.type) for rule in rules}
    for name in values:
        if name not in known:
            raise ConfigError(f"{where}.{name}", f"no rule of the filters is {name!r}", suggestion(name, known))


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
    """A file of your own with values by language, such as ``benchmarks/data/language_estimation.py`` writes; None: the
    project's language_values.json."""

    def __post_init__(self) -> None:
        if self.path is not None:
            require_file("by_language.path", self.path, "a JSON file of values by language")
        known = {*read_values(self.path), DEFAULT}
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
        for language in read_values(self.path):
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
        values = dict(read_values(self.path))
        for language, rules in self.languages.items():
            before = values.get(language, LanguageValues())
            values[language] = dataclasses.replace(before, rules=merged(before.rules, rules))
        return values


def merged(before: RuleValues, rules: RuleValues) -> RuleValues:
    """Returns the values ``before``, in which ``rules`` replace single settings. Null replaces a rule."""
    both = {name: {**(before.get(name) or {}), **own} for name, own in rules.items() if own is not None}
    return {**before, **both, **{name: None for name, own in rules.items() if own is None}}
