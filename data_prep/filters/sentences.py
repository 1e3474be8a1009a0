"""Sentences by Punkt (Kiss and Strunk 2006), exactly as nltk's English model cuts them, without a download.

The parameters are nltk's ``punkt_tab`` files. The package llama-index-core carries them; its files are read, the
package is never imported (that would take seconds).

    abbrev_types.txt, sent_starters.txt   one entry a line
    collocations.tab                      first<TAB>second
    ortho_context.tab                     word<TAB>flags
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
from headrace.pipeline.core.stage import RawFile

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

FILES = ("abbrev_types.txt", "sent_starters.txt", "collocations.tab", "ortho_context.tab")
CARRIED = Path("core/_static/nltk_cache/tokenizers/punkt_tab/english")
_PLAIN_END = re.compile(r"(?<=\S[ \n])([a-z]{2,})\.[ \n]+[A-Za-z0-9]")


def has_sentences(text: str, minimum: int, punkt_path: str | None = None) -> bool:
    """Whether ``text`` has at least ``minimum`` sentences; reads no further than needed."""
    return count_sentences(text, minimum, punkt_path) >= minimum


def count_sentences(text: str, limit: int, punkt_path: str | None = None) -> int:
    """min(number of sentences in ``text``, ``limit``): Punkt cuts from left to right, so it may stop early."""
    if limit > 1 and has_sure_breaks(text, limit - 1, punkt_path):
        return limit
    spans = punkt(punkt_path).span_tokenize(text)
    return sum(1 for _ in itertools.islice(spans, limit))


def has_sure_breaks(text: str, minimum: int, punkt_path: str | None = None) -> bool:
    """Whether at least ``minimum`` ends of sentences are so plain that Punkt need not be asked; most pages have them.

    Punkt always breaks after a lower-case word of two letters or more with one full stop, between spaces or line ends,
    that is neither an abbreviation nor the first word of a collocation: its first pass marks the token, and no rule of
    the second (``PunktSentenceTokenizer._second_pass_annotation``) can take that back. A letter or digit comes next, so
    ``_realign_boundaries`` moves nothing across, and each break adds a sentence.
    """
    unsure = _unsure_words(punkt_path)
    sure = (1 for match in _PLAIN_END.finditer(text) if match.group(1) not in unsure)
    return sum(itertools.islice(sure, minimum)) >= minimum


@functools.cache
def _unsure_words(punkt_path: str | None) -> frozenset[str]:
    """Words before a full stop that need not end a sentence."""
    parameters = punkt(punkt_path)._params
    return frozenset(parameters.abbrev_types) | {first for first, _ in parameters.collocations}


def sentences_of(text: str, punkt_path: str | None = None) -> list[str]:
    """The sentences of ``text``."""
    return [text[start:end] for start, end in punkt(punkt_path).span_tokenize(text)]


@functools.cache
def punkt(punkt_path: str | None = None) -> "PunktSentenceTokenizer":
    """The tokenizer with the parameters of the folder ``punkt_path`` (None: the carried ones), loaded once a process.

    Raises:
        ConfigError: when a file is missing.
    """
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    folder = punkt_folder(punkt_path)
    lines = {name: (folder / name).read_text(encoding="utf-8").split("\n") for name in FILES}
    entries = {name: [line for line in rows if line] for name, rows in lines.items()}
    parameters = PunktParameters()
    parameters.abbrev_types = set(entries["abbrev_types.txt"])
    parameters.sent_starters = set(entries["sent_starters.txt"])
    parameters.collocations = {tuple(row.split("\t")) for row in entries["collocations.tab"]}
    context = (row.split("\t") for row in entries["ortho_context.tab"])
    parameters.ortho_context = defaultdict(int, {word: int(flags) for word, flags in context})
    take_limits_away()
    tokenizer = PunktSentenceTokenizer()
    tokenizer._params = parameters
    return tokenizer


def take_limits_away() -> None:
    """Let nltk's expressions run to their end.

    From 3.10 on nltk raises TimeoutError after 5 s of wall time, so other work on the machine would decide which page
    has sentences. Cleaning has a limit of its own, in CPU time (cpu_limit.py).
    """
    if importlib.util.find_spec("nltk.redos") is not None:
        importlib.import_module("nltk.redos").DEFAULT_TIMEOUT = None  # type: ignore[attr-defined]


def punkt_folder(punkt_path: str | None = None) -> Path:
    """The folder of the Punkt files.

    Raises:
        ConfigError: when it is not there or lacks a file.
    """
    if punkt_path is None:
        found = importlib.util.find_spec("llama_index")
        roots = list(found.submodule_search_locations or ()) if found else []
        remedy = "install llama-index-core, which carries them, or give punkt_path"
        folders = [Path(root) / CARRIED for root in roots]
    else:
        remedy = "name a folder with nltk's punkt_tab files for English"
        folders = [Path(punkt_path)]
    for folder in folders:
        if all((folder / name).is_file() for name in FILES):
            return folder
    raise ConfigError("punkt_path", f"{punkt_path or 'no package'} does not hold {', '.join(FILES)}", remedy)


def punkt_files(punkt_path: str | None) -> tuple[RawFile, ...]:
    """The user's own Punkt files, for the address of what they decide."""
    if punkt_path is None:
        return ()
    files = [(name, (punkt_folder(punkt_path) / name).read_bytes()) for name in FILES]
    return tuple(RawFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files)
