"""Sentences by Punkt (Kiss and Strunk 2006), exactly as nltk's English model cuts them, without a download.

The parameters are nltk's ``punkt_tab`` files. The package llama-index-core carries them; its files are read, the
package is never imported (that would take seconds).

    abbrev_types.txt, sent_starters.txt   one entry a line
    collocations.tab                      first<TAB>second
    ortho_context.tab                     word<TAB>flags
"""

import functools
import hashlib
import importlib.util
import itertools
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.core.errors import ConfigError
from pipeline.core.stage import RawFile

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

FILES = ("abbrev_types.txt", "sent_starters.txt", "collocations.tab", "ortho_context.tab")
CARRIED = Path("core/_static/nltk_cache/tokenizers/punkt_tab/english")


def has_sentences(text: str, minimum: int, punkt_path: str | None = None) -> bool:
    """Whether ``text`` has at least ``minimum`` sentences; reads no further than needed."""
    return count_sentences(text, minimum, punkt_path) >= minimum


def count_sentences(text: str, limit: int, punkt_path: str | None = None) -> int:
    """min(number of sentences in ``text``, ``limit``): Punkt cuts from left to right, so it may stop early."""
    spans = punkt(punkt_path).span_tokenize(text)
    return sum(1 for _ in itertools.islice(spans, limit))


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
    tokenizer = PunktSentenceTokenizer()
    tokenizer._params = parameters
    return tokenizer


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
