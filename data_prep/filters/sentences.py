"""Sentence splitting and counting, exactly as nltk's English Punkt model splits."""

import functools
import itertools
import re

from headrace.data_prep.filters.punkt import punkt

_PLAIN_END = re.compile(r"(?<=\S[ \n])([a-z]{2,})\.[ \n]+[A-Za-z0-9]")


def has_sentences(text: str, minimum: int, punkt_path: str | None = None) -> bool:
    """Whether ``text`` has at least ``minimum`` sentences. Reads only as much of ``text`` as needed."""
    return count_sentences(text, minimum, punkt_path) >= minimum


def count_sentences(text: str, limit: int, punkt_path: str | None = None) -> int:
    """Returns min(number of sentences, ``limit``). Punkt splits from left to right, so it can stop early."""
    if limit > 1 and has_sure_breaks(text, limit - 1, punkt_path):
        return limit
    spans = punkt(punkt_path).span_tokenize(text)
    return sum(1 for _ in itertools.islice(spans, limit))


def has_sure_breaks(text: str, minimum: int, punkt_path: str | None = None) -> bool:
    """Whether at least ``minimum`` sentence ends can be found without Punkt, which is slower. Most pages have them.

    Punkt always breaks after a lower-case word of two or more letters with one full stop, between spaces or line ends,
    that is neither an abbreviation nor the first word of a collocation. Its first pass marks the token, and no rule of
    the second pass (``PunktSentenceTokenizer._second_pass_annotation``) can undo that. The next character is a letter
    or a digit, so ``_realign_boundaries`` moves nothing across the break. Each break adds a sentence.
    """
    unsure = _unsure_words(punkt_path)
    sure = (1 for match in _PLAIN_END.finditer(text) if match.group(1) not in unsure)
    return sum(itertools.islice(sure, minimum)) >= minimum


@functools.cache
def _unsure_words(punkt_path: str | None) -> frozenset[str]:
    """Returns the words that need not end a sentence when a full stop follows."""
    parameters = punkt(punkt_path)._params
    return frozenset(parameters.abbrev_types) | {first for first, _ in parameters.collocations}


def sentences_of(text: str, punkt_path: str | None = None) -> list[str]:
    """Returns the sentences of ``text``."""
    return [text[start:end] for start, end in punkt(punkt_path).span_tokenize(text)]
