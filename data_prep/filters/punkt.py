"""Sentences, exactly as nltk's English Punkt model splits them (Kiss and Strunk 2006), and its parameters.

    abbrev_types.txt, sent_starters.txt   one entry per line
    collocations.tab                      first<TAB>second
    ortho_context.tab                     word<TAB>flags

The parameters need no download: they are nltk's ``punkt_tab`` files, byte for byte, in nltk_data/ of this folder. C4
needs exactly its sentences. nltk_data/README.md names their origin and licence. nltk's own loader also finds them
there. ``punkt_path`` names other files of the same form.
"""

import functools
import hashlib
import importlib
import importlib.util
import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.extras import without
from headrace.pipeline.core.stage import RawFile

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer


FILES = ("abbrev_types.txt", "sent_starters.txt", "collocations.tab", "ortho_context.tab")
ENGLISH = Path(__file__).parent / "nltk_data/tokenizers/punkt_tab/english"


@functools.cache
def punkt(punkt_path: str | None = None) -> "PunktSentenceTokenizer":
    """Builds the tokenizer with the parameters of the folder ``punkt_path``, once per process.

    None means nltk's own parameters for English.

    Raises:
        ConfigError: when a file is missing.
    """
    with without("scipy.stats", "scipy.sparse"):  # for a test of collocations and a parser: a second of CPU time
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    folder = punkt_folder(punkt_path)
    entries = {name: list(filter(None, (folder / name).read_text(encoding="utf-8").split("\n"))) for name in FILES}
    parameters = PunktParameters()
    parameters.abbrev_types = set(entries["abbrev_types.txt"])
    parameters.sent_starters = set(entries["sent_starters.txt"])
    parameters.collocations = {tuple(row.split("\t")) for row in entries["collocations.tab"]}
    context = (row.split("\t") for row in entries["ortho_context.tab"])
    parameters.ortho_context = defaultdict(int, {word: int(flags) for word, flags in context})
    remove_time_limit()
    tokenizer = PunktSentenceTokenizer()
    tokenizer._params = parameters
    breaks_slowly = tokenizer.text_contains_sentbreak

    def breaks(context: str) -> bool:
        word = _SURE_BREAK.fullmatch(context)
        return (word is not None and word[1] not in _unsure_words(punkt_path)) or breaks_slowly(context)

    tokenizer.text_contains_sentbreak = breaks  # type: ignore[method-assign]
    return tokenizer


def remove_time_limit() -> None:
    """Removes nltk's limit on the time of its regular expressions.

    Since version 3.10 nltk raises TimeoutError after 5 s of wall time, so other work on the machine would decide which
    pages have sentences. Cleaning limits the CPU time instead (guards.py).
    """
    if importlib.util.find_spec("nltk.redos") is not None:
        importlib.import_module("nltk.redos").DEFAULT_TIMEOUT = None  # type: ignore[attr-defined]


def punkt_folder(punkt_path: str | None = None) -> Path:
    """Returns the folder of the Punkt files.

    Raises:
        ConfigError: when the folder does not exist or lacks a file.
    """
    folder = ENGLISH if punkt_path is None else Path(punkt_path)
    if not all((folder / name).is_file() for name in FILES):
        remedy = "name a folder with nltk's punkt_tab files for English"
        raise ConfigError("punkt_path", f"{folder} does not hold {', '.join(FILES)}", remedy)
    return folder


def punkt_files(punkt_path: str | None) -> tuple[RawFile, ...]:
    """Returns the user's own Punkt files with checksums, which become part of the artifact's address."""
    if punkt_path is None:
        return ()
    files = [(name, (punkt_folder(punkt_path) / name).read_bytes()) for name in FILES]
    return tuple(RawFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files)


_PLAIN_END = re.compile(r"(?<=\S[ \n])([a-z]{2,})\.[ \n]+[A-Za-z0-9]")
_SURE_BREAK = re.compile(r"([a-z]{2,})\.[ \n]+[A-Za-z0-9]\S*")
"""Matches a word with a point and the next token where Punkt always breaks, as ``has_sure_breaks`` explains."""


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


def sentence_spans(text: str, punkt_path: str | None = None) -> list[tuple[int, int]]:
    """Returns where each sentence of ``text`` begins and ends."""
    return [*punkt(punkt_path).span_tokenize(text)]


def sentences_of(text: str, punkt_path: str | None = None) -> list[str]:
    """Returns the sentences of ``text``."""
    return [text[start:end] for start, end in sentence_spans(text, punkt_path)]
