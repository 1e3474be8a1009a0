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
    or an object that is a ``Filter``. An unknown one is a ConfigError.

    Its attributes are tuples of names of rules, in order: ``rules``, all of them; ``global_rules``, which compare texts
    with each other; ``english_rules``, which are for English, whatever the language of a text is.

    A call takes a text, its ``url`` for rules of URLs, and ``metadata`` for rules that ask for ``page`` (see
    ``headrace.page``), ``language``, … It can be used in several threads, and pickled: its pickle is its rules, before
    and after use.
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
        return self._judged(self._single, [text_of_caller("Cleaner", text)], [url], [metadata or {}])[0]

    def all(
        self, texts: Iterable[str], urls: Iterable[str] = (), metadata: Iterable[Mapping[str, Any]] = ()
    ) -> list[Verdict]:
        """Returns the verdict of all rules on each of ``texts``. ``global_rules`` compare these texts, in memory.

        Args:
            texts: the texts.
            urls: their URLs, which decide which page keeps a repeated line; without them, the positions do.
            metadata: what else rules may ask for, of each text.

        Raises:
            ConfigError: when the arguments differ in length, or an entry of ``texts`` is no str.
        """
        held = texts_of_caller("Cleaner.all", texts)
        columns = {"urls": [*urls] or [""] * len(held), "metadata": [*metadata] or [{}] * len(held)}
        for name, values in columns.items():
            if len(values) != len(held):
                problem = f"{len(held):,} texts, and {len(values):,} {name}"
                raise ConfigError("Cleaner.all", problem, "give as many of both")
        return self._judged(self._filters, held, *columns.values())

    def _judged(
        self,
        filters: tuple[Filter | GlobalFilter, ...],
        texts: Sequence[str],
        urls: Sequence[Any],
        metadata: Sequence[Any],
    ) -> list[Verdict]:
        documents = [
            Document(text, str(number), metadata={**facts, "url": url} if url else dict(facts))
            for number, (text, url, facts) in enumerate(zip(texts, urls, metadata, strict=True))
        ]
        drops = judge_together(filters, documents)
        return [verdict_on(document, drop, self._explained) for document, drop in zip(documents, drops, strict=True)]


def language(text: str, model: str = "langdetect") -> tuple[str, float]:
    """Returns the most probable language of ``text`` and its probability: ``("en", 0.99999)``.

    A text without letters has ``("unknown", 0.0)``.

    Args:
        text: the text.
        model: ``langdetect`` (its answers with seed 0; codes of ISO 639-1, ``zh-cn`` and ``zh-tw``), or ``fasttext``
            (lid.176).

    Raises:
        ConfigError: when ``text`` is no str, or there is no such model.
    """
    return _identifier(model).identified(text_of_caller("language", text)) or ("unknown", 0.0)


def mask_pii(text: str, kinds: Sequence[str] = PII, *, regions: Sequence[str] = ("US",)) -> str:
    """Returns ``text`` with personal data masked: ``write to <email>``.

    ``Cleaner("pii")`` counts them, too; ``Cleaner([{"type": "pii", "kinds": […]}])`` takes other replacements.

    Args:
        text: the text.
        kinds: any of ``email``, ``ip_address``, ``card_number``, ``phone_number``, in the order in which they apply.
        regions: the countries (ISO 3166-1) whose phone numbers are found without ``+`` and country code.

    Raises:
        ConfigError: when an argument is not valid.
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
    """Returns ``rule`` as a filter that is ready to judge. ``folder`` is that of classes of the user.

    Raises:
        ConfigError: when it is not valid, or needs another stage of a run.
    """
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
