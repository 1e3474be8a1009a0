"""Rules of cleaning, presets and rules by their names in conf/cleaning, on texts, as the stage ``clean`` has them."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning, judge_together
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.filters.filter import Filter, GlobalFilter
from headrace.data_prep.filters.language.identification import Language, LanguageFasttext, LanguageFilter
from headrace.data_prep.filters.pii import MaskPii
from headrace.pipeline.api.verdict import Verdict, text_of_caller, texts_of_caller, verdict_on
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import groups, unknown_option
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import decode, decode_within

GROUP = "cleaning"
IDENTIFIERS: Mapping[str, type[LanguageFilter]] = {"langdetect": Language, "fasttext": LanguageFasttext}
PII = ("email", "ip_address", "card_number", "phone_number")

Rule = str | Mapping[str, Any] | Filter | GlobalFilter


class Cleaner:
    """Applies rules of cleaning to texts.

        cleaner = headrace.Cleaner("c4")
        verdict = cleaner(text, url)               a Verdict, of all rules but ``global_rules``
        verdicts = map(cleaner, texts, urls)       one after the other
        verdicts = cleaner.all(texts, urls)        also of the rules that compare texts with each other

    It takes a preset by its name (``c4``, ``fineweb``, ``gopher``, ``multilingual``; ``mine`` of conf/cleaning in the
    current folder), or a list of rules. A rule is a name (``bad_words``, with its defaults), a dict as in conf/cleaning
    (``{"type": "page_length", "max_characters": 5000}``), a class of your own as ``{"type": "my_filters:TooShouty"}``,
    or an object that is a ``Filter``. A text has a ``url`` for rules of URLs, ``metadata`` for those that ask for
    ``page`` (see ``headrace.page``), ``language``, …

    Tuples of names, in order: ``rules``; ``global_rules``, which compare texts with each other; ``english_rules``,
    which are for English, whatever the language of a text is. Threads may share it. Its pickle is its rules, before and
    after use.
    """

    def __init__(self, rules: str | Sequence[Rule] = "c4") -> None:
        if isinstance(rules, str):
            if rules not in groups()[GROUP]:
                raise unknown_option(GROUP, rules)
            rules = option_values(GROUP, rules)["filters"]
        if not isinstance(rules, Sequence):
            problem = f"needs the name of a preset, or a list of rules (got {type(rules).__name__})"
            raise ConfigError("Cleaner", problem, "give headrace.Cleaner('c4'), or a list")
        self.__setstate__((list(rules), os.getcwd()))

    def __getstate__(self) -> tuple[Sequence[Rule], str]:
        """Leaves out what the rules have loaded."""
        return self._state

    def __setstate__(self, state: tuple[Sequence[Rule], str]) -> None:
        self._state = state
        filters = self._filters = tuple(_filter(number, rule, state[1]) for number, rule in enumerate(state[0]))
        self._single = tuple(rule for rule in filters if isinstance(rule, Filter))
        self._explained = functools.cache(functools.partial(explained, filters=filters))
        self.rules = tuple(rule.base_reason for rule in filters)
        self.global_rules = tuple(rule.base_reason for rule in filters if isinstance(rule, GlobalFilter))
        self.english_rules = tuple(name for rule in filters for name in rule.english_rules(Document("", "")))

    def __call__(self, text: str, url: str = "", metadata: Mapping[str, Any] | None = None) -> Verdict:
        return self._judged([_document(text_of_caller("Cleaner", text), url, metadata)])[0]

    def all(
        self, texts: Iterable[str], urls: Iterable[str] = (), metadata: Iterable[Mapping[str, Any]] = ()
    ) -> list[Verdict]:
        """Returns the verdict of all rules on each of ``texts``. ``global_rules`` compare these texts, in memory; the
        URLs, without them the texts, decide which text keeps a line that others have, too."""
        held = texts_of_caller("Cleaner.all", texts)
        given: dict[str, list[Any]] = {"urls": [*urls], "metadata": [*metadata]}
        for name, values in given.items():
            if len(values) not in (0, len(held)):
                problem = f"{len(held):,} texts, and {len(values):,} {name}"
                raise ConfigError("Cleaner.all", problem, "give as many of both, or none")
        url, facts = (values or [None] * len(held) for values in given.values())
        return self._judged([*map(_document, held, url, facts)], self._filters)

    def _judged(self, documents: Sequence[Document], filters: tuple[Filter | GlobalFilter, ...] = ()) -> list[Verdict]:
        """Returns the verdicts of ``filters`` on ``documents``, which change; without ``filters``, of those for one."""
        drops = judge_together(filters or self._single, documents)
        return [verdict_on(document, drop, self._explained) for document, drop in zip(documents, drops, strict=True)]


def _document(text: str, url: str | None, metadata: Mapping[str, Any] | None) -> Document:
    """Returns a document whose id, by which rules sample documents without URL, is its text."""
    return Document(text, text, metadata={**(metadata or {}), **({"url": url} if url else {})})


def language(text: str, model: str = "langdetect") -> tuple[str, float]:
    """Returns the most probable language of ``text`` and its probability: ``("en", 0.99999)``; without letters
    ``("unknown", 0.0)``.

    ``model`` is ``langdetect`` (its answers with seed 0; codes of ISO 639-1, ``zh-cn`` and ``zh-tw``), or ``fasttext``
    (lid.176).
    """
    return _identifier(model).identified(text_of_caller("language", text)) or ("unknown", 0.0)


def mask_pii(text: str, kinds: Sequence[str] = PII, *, regions: Sequence[str] = ("US",)) -> str:
    """Returns ``text`` with personal data of ``kinds`` masked, in their order: ``write to <email>``.

    ``regions`` are the countries (ISO 3166-1) whose phone numbers are found without ``+`` and country code.
    ``Cleaner("pii")`` counts, too; ``Cleaner([{"type": "pii", "kinds": […]}])`` takes other replacements.
    """
    document = Document(text_of_caller("mask_pii", text), "")
    _pii(tuple(kinds), tuple(regions)).judge(document)
    return str(document.text)


@functools.cache
def _identifier(model: str) -> LanguageFilter:
    if model not in IDENTIFIERS:
        raise ConfigError("language", f"unknown model {model!r}", suggestion(model, IDENTIFIERS))
    return decode_within(IDENTIFIERS[model], {"languages": None, "min_score": 0.0}, "language")


@functools.cache
def _pii(kinds: tuple[str, ...], regions: tuple[str, ...]) -> MaskPii:
    values = [{"type": kind} | ({"regions": regions} if kind == "phone_number" else {}) for kind in kinds]
    return decode_within(MaskPii, {"kinds": values}, "mask_pii")


def _filter(number: int, rule: Rule, folder: str) -> Filter | GlobalFilter:
    """Returns ``rule`` as a filter that is ready to judge. ``folder`` is that of classes of the user."""
    if isinstance(rule, Filter | GlobalFilter):
        return rule
    where, values = f"Cleaner, rule {number}", {"type": rule} if isinstance(rule, str) else rule
    try:
        (made,) = decode(Cleaning, {"filters": [values]}, "Cleaner", folder, runs_code=True).filters
    except ConfigError as error:
        raise ConfigError(error.where.replace("filters.0", where), error.problem, error.remedy) from None
    if isinstance(made, Filter):
        if made.inputs:
            problem = f"{made.type} reads the stage {made.inputs[0]!r} of a run"
            raise ConfigError(where, problem, "name the file of a trained model (path)")
        made.check()
    return made
