"""Values of rules for each language, estimated from the documents of a finished ``clean`` that have a language.

kept and dropped documents ──> by language and script ── value_estimation ──> {"ha_Latn": {"rules": {…}}}

Documents that ``by_language`` drops for want of values have a language, too. So a first run with ``cleaning=
multilingual`` gives the values of new languages, which a second one reads by its setting ``path``.
"""

from collections.abc import Iterable
from typing import Any

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.language.by_language import ByLanguage
from headrace.data_prep.filters.language.foreign import language_named
from headrace.data_prep.filters.language.language_values import cached_values
from headrace.data_prep.filters.language.value_estimation import FEWEST_PAGES, estimated
from headrace.data_prep.text.scripts import main_script
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import plain

REFERENCE = "en_Latn"
"""The language of the limits of a list of filters."""
MOST_PAGES = 2_000
"""Pages of a language that are measured: its first ones."""


def language_estimates(cleaning: Cleaning, documents: Iterable[Document]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values that ``by_language`` reads, and those of each language with enough ``documents``.

    Both have the form of language_values.json.

    The limits of the filters of ``by_language`` in ``cleaning`` are those for English.

    Raises:
        ConfigError: when ``cleaning`` has no ``by_language``, or there are too few documents in English.
    """
    router = next((own for own in cleaning.filters if isinstance(own, ByLanguage)), None)
    if router is None:
        raise ConfigError("RULE", "the run has no filter by_language", "give a run with cleaning=multilingual")
    pages: dict[str, list[str]] = {}
    for document in documents:
        if language := language_named(document):
            texts = pages.setdefault(f"{language}_{main_script(document.text)}", [])
            if len(texts) < MOST_PAGES:
                texts.append(document.text)
    if len(english := pages.get(REFERENCE, [])) < FEWEST_PAGES:
        problem = f"{len(english)} documents in English, whose limits are known; {FEWEST_PAGES} are needed"
        raise ConfigError("--to", problem, "add English documents to the source")
    values = cached_values(router.path)
    per_word = {name: own.characters_per_word for name, own in values.items()}
    return plain(dict(values)), estimated(pages, router.filters, REFERENCE, per_word)
