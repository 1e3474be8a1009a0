"""Codes and English names of languages, and the counts of documents by language.

english, eng, EN, en-US ──> English ──> en (langdetect, lid.176), eng_Latn (a model that distinguishes scripts)

A row of languages.txt has the codes of a language, then its names: the ISO 639-1 code if there is one, the ISO 639-3
code, then codes that are used for it or for its main variety (ISO 639-2/B, members of a macrolanguage, Wikipedia's).
Codes of a setting are checked against those that an identifier can answer.

    foreign:gopher_quality.stop_words:de      documents in German that the rule judged with English stop words
    routed:de_Latn:kept                       documents that ``by_language`` judged with the values for German, and
    routed:de_Latn:gopher_quality.word_count  that were kept, or dropped by this rule

The language of a document is the one that a filter identified, or that the source names in its metadata.
"""

import difflib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import ROUTE, Filter, GlobalFilter, is_within
from headrace.pipeline.core.errors import ConfigError, suggestion

ENGLISH = "en"
KEPT = "kept"
BY_LANGUAGE = "by_language"
"""The first part of the reasons of the filter that judges each language by its own values."""
CODE_CHARACTERS = 3
"""Longer texts are names."""
LANGUAGES = Path(__file__).with_name("languages.txt")


@functools.cache
def _first_codes() -> Mapping[str, str]:
    """Returns the first code of its row for each code and each name, in lower case."""
    codes_of_spellings: dict[str, str] = {}
    for row in LANGUAGES.read_text(encoding="utf-8").lower().splitlines():
        codes, _, names = row.partition(":")
        first, *others = codes.split()
        codes_of_spellings |= dict.fromkeys([first, *others, *map(str.strip, names.split(","))], first)
    return codes_of_spellings


def first_code(code: str) -> str:
    """Returns the language of ``code`` by its ISO 639-1 code, if there is one: ``de`` for ``deu_Latn``."""
    return _first_codes().get(_parts(code)[0], _parts(code)[0])


def meant_codes(typed: str, known: Collection[str]) -> list[str]:
    """Returns the codes among ``known`` that stand for the language that ``typed`` names, sorted.

    ``typed`` is a name, a code, or a code with a script or country, in any case (``english``, ``eng``, ``en_US``). A
    name may have a typing error. Known codes may have a script or country, too (``eng_Latn``, ``zh-cn``).
    """
    language = _named(typed) or _parts(typed)[0]
    same = sorted(code for code in known if first_code(code) == language)
    return [code for code in same if _parts(code)[1:] == _parts(typed)[1:]] or same


def _named(typed: str) -> str | None:
    """Returns the first code of the language that ``typed`` names, or None."""
    first_codes, name = _first_codes(), typed.strip().lower()
    names = [code for code in first_codes if len(code) > CODE_CHARACTERS]
    near = difflib.get_close_matches(name, names, n=1) if len(_parts(name)[0]) > CODE_CHARACTERS else []
    codes = (first_codes.get(spelling) for spelling in (name, _parts(name)[0], *near))
    return next(filter(None, codes), None)


def _parts(code: str) -> list[str]:
    """Returns the language of ``code`` and what follows it, in lower case: ``eng_Latn`` is of eng, latn."""
    return code.strip().lower().replace("_", "-").split("-")


def remedy(typed: str, known: Collection[str]) -> str:
    """Returns the remedy for the unknown code ``typed``: the ``known`` codes of its language, a similar one, or all."""
    if meant := meant_codes(typed, known):
        return f"did you mean {' or '.join(map(repr, meant))}?"
    return suggestion(typed, known) if _named(typed) is None else f"known: {', '.join(sorted(known))}"


def check_codes(where: str, owner: str, typed: Iterable[str], known: Collection[str]) -> None:
    """Checks that each of the ``typed`` codes is one of the ``known``, which are those of ``owner``.

    Raises:
        ConfigError: for the setting ``where``, with the code that is probably meant.
    """
    for code in typed:
        if code not in known:
            raise ConfigError(where, f"{owner} has no language {code!r}", remedy(code, known))


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
