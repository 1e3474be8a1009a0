"""Counts of documents by language: those that rules for English judged in another one, and the funnel of each language.

    foreign:gopher_quality.stop_words:de      documents in German that the rule judged with English stop words
    routed:de_Latn:kept                       documents that ``by_language`` judged with the values for German, and
    routed:de_Latn:gopher_quality.word_count  that were kept, or dropped by this rule

The language is the one that a filter identified, or that the source's documents name in their metadata.
"""

from collections.abc import Iterator, Sequence

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import ROUTE, Filter, GlobalFilter, is_within
from headrace.data_prep.filters.language.language_codes import first_code

ENGLISH = "en"
KEPT = "kept"
BY_LANGUAGE = "by_language"
"""The first part of the reasons of the filter that judges each language by its own values."""


def language_named(document: Document) -> str:
    """Returns the code of the language in the metadata of ``document``; an empty text without one."""
    code = document.metadata.get("language")
    return first_code(code) if isinstance(code, str) else ""


def foreign_counts(
    filters: Sequence[Filter | GlobalFilter], document: Document, before: str, drop: Drop | None
) -> Iterator[str]:
    """Yields the name of a count for each rule for English of ``filters`` that judged ``document`` in another language.

    Args:
        filters: the filters of a pass.
        document: the document after them.
        before: its language before them; empty when it was not known. A filter of theirs may have identified it.
        drop: the reason to drop it. Filters after the one that gave it have not judged the document.
    """
    language = language_named(document)
    if not language or language == ENGLISH:
        return
    is_known = before == language
    within = [number for number, own in enumerate(filters) if drop and is_within(own.base_reason, drop.rule)]
    for page_filter in filters[: within[-1] + 1] if within else filters:
        if is_known:
            yield from (f"foreign:{rule}:{language}" for rule in page_filter.english_rules(document))
        is_known = is_known or (isinstance(page_filter, Filter) and page_filter.identifies_language)


def routed_count(document: Document, drop: Drop | None) -> str:
    """Returns the name of the count of ``document``, kept or dropped, in the funnel of its language; else empty."""
    base, name, rule = [*drop.rule.split(".", 2), "", ""][:3] if drop else ("", "", "")
    if base == BY_LANGUAGE and rule:
        return f"routed:{name}:{rule}"
    entry = document.metadata.get(ROUTE)
    return f"routed:{entry}:{drop.rule if drop else KEPT}" if entry else ""
