"""The values of rules for each language, and filters that have them.

    {"de_Latn": {"rules": {"stop_words": {"words": ["der", "die", …]}, "word_length": {"max_characters": 12.4}}}}

    gopher_quality with English values ── values of de_Latn ──> gopher_quality with German values

A language has an ISO 639-1 code, or that of ISO 639-3, and a script of ISO 15924. ``rules`` maps the type of a rule or
filter, or the reason of one of several rules of that type (``top_ngram_2``), to the settings that differ; null leaves
the rule out. language_values.json has the languages of this project; its README.md names the origin of each value.
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson

from headrace.data_prep.filters.filter import Filter
from headrace.data_prep.filters.fineweb_quality import LineBreaks
from headrace.data_prep.filters.gopher.quality import AlphabeticWords, Symbols, WordCount, WordLength
from headrace.data_prep.filters.gopher.repetition import DuplicateNgrams, TopNgram
from headrace.data_prep.filters.language.language_codes import first_code
from headrace.data_prep.filters.page_rules import PageRule
from headrace.data_prep.text.scripts import SCRIPTS, main_script
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.settings import PositiveNumber, decode, plain, settings

VALUES = Path(__file__).parent / "language_values.json"
RuleValues = dict[str, dict[str, Any] | None]
"""Rule or filter → settings that differ from those of the English rule, or null."""
HAN_ONLY = {"Jpan": "Hani"}
"""A text in Han characters alone may be of a language whose script has others, too."""

F = TypeVar("F", bound=Filter)
T = TypeVar("T")


@settings
class LanguageValues:
    """The values of one language."""

    rules: RuleValues = dataclasses.field(default_factory=dict)
    """The settings of rules that differ from those of the list of filters."""
    characters_per_word: PositiveNumber = 1.0
    """Letters of a word, for scripts without spaces: what ``counting: scripts`` counts is divided by it."""


def read_values(path: str | None) -> Mapping[str, LanguageValues]:
    """Returns the values of each language from the JSON file ``path``; None: those of the project.

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
    return {language: decoded(LanguageValues, value, f"{file.name}.{language}") for language, value in content.items()}


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


def decoded(cls: type[T], values: Mapping[str, Any], where: str) -> T:
    """Returns ``values`` as settings of the class ``cls``. An error names the place after ``where``."""
    try:
        return decode(cls, values)
    except ConfigError as error:
        place, problem, remedy = error.args
        raise ConfigError(f"{where}.{place}", problem, remedy) from None


@functools.cache
def cached_values(path: str | None) -> Mapping[str, LanguageValues]:
    """Returns ``read_values``, once per process."""
    return read_values(path)


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
    return decoded(type(template), plain(template) | changes, template.type)


def adapted_rules(rules: "tuple[Any, ...]", values: RuleValues) -> list[Any]:
    """Returns ``rules`` with ``values``, without those whose value is null."""
    kept = []
    for rule in rules:
        name = getattr(rule, "reason", rule.type)
        changes = values.get(name, values.get(rule.type, {}))
        if changes is not None:
            kept.append(decoded(type(rule), plain(rule) | changes, name) if changes else rule)
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
