"""Punkt's parameters for English (Kiss and Strunk 2006), without a download.

    abbrev_types.txt, sent_starters.txt   one entry per line
    collocations.tab                      first<TAB>second
    ortho_context.tab                     word<TAB>flags

The parameters are nltk's ``punkt_tab`` files, byte for byte, in nltk_data/ of this folder: C4 needs exactly its
sentences. nltk_data/README.md names their origin and licence. nltk's own loader also finds them there. ``punkt_path``
names other files of the same form.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.core.errors import ConfigError
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
    with _without_scipy():
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
    remove_time_limit()
    tokenizer = PunktSentenceTokenizer()
    tokenizer._params = parameters
    return tokenizer


@contextlib.contextmanager
def _without_scipy() -> Iterator[None]:
    """Lets imports of parts of scipy fail inside the block, unless they are loaded.

    nltk needs them for one test of collocations and for one parser, and imports its other parts without them. They take
    a second of CPU time.
    """
    absent = {"scipy.stats", "scipy.sparse"} - sys.modules.keys()
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None makes an import fail
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def remove_time_limit() -> None:
    """Removes nltk's limit on the time of its regular expressions.

    Since version 3.10 nltk raises TimeoutError after 5 s of wall time, so other work on the machine would decide which
    pages have sentences. Cleaning limits the CPU time instead (cpu_limit.py).
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
