r"""Filter by the "List of Dirty, Naughty, Obscene, and Otherwise Bad Words" (LDNOOBW).

The lists are in bad_words_lists/ (CC-BY-4.0, see its README.md), one JSON list per language. A compiled search finds
pages that may hold an entry:

    page ── UTF-32 ──> at each start of a word: walk down the trie of entries ──> entry and word end together: found

The answer no is exact for ``(?:\W|^)(entry|…)(?:\W|$)`` on the lower-cased page. Characters whose lower case only
Python knows (line_scan.py) make the answer yes. After a yes the regular expression decides, and it also gives
the entry.
"""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.line_scan import (
    FLAG,
    NUMBER,
    UNSURE,
    character_class,
    code_points,
    lower_case_table,
    number_characters,
)
from headrace.data_prep.filters.filter import Explanations, Filter, filter_settings, read_text
from headrace.data_prep.filters.language.language_codes import remedy
from headrace.data_prep.filters.urls import url_number
from headrace.data_prep.kernel import kernel
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import FilePath, Fraction
from headrace.pipeline.core.stage import RawFile

WORD = FLAG
ROOT = 0


class Trie(NamedTuple):
    """The entries in the form that the kernel reads. N nodes, C numbered characters."""

    characters: "np.ndarray"
    """uint16 (0x110000,): the number of the lower case, and the flag WORD for the class ``\\w``."""
    children: "np.ndarray"
    """int32 (N, C): the node after a character, or ROOT where there is none."""
    entries: "np.ndarray"
    """bool (N,): whether an entry ends at the node."""
    anywhere: bool
    """Whether an entry also counts inside a word."""


def trie_of(entries: Collection[str], anywhere: bool) -> Trie:
    """Builds the trie of ``entries``, which must not be empty strings."""
    numbers = number_characters("".join(entries))
    children: list[dict[int, int]] = [{}]
    ends = []
    for entry in entries:
        node = ROOT
        for character in entry:
            if numbers[character] not in children[node]:
                children[node][numbers[character]] = len(children)
                children.append({})
            node = children[node][numbers[character]]
        ends.append(node)
    table = np.full((len(children), UNSURE + 1 + len(numbers)), ROOT, np.int32)
    for node, row in enumerate(children):
        table[node, list(row)] = list(row.values())
    characters = lower_case_table(numbers) | character_class(r"\w") * np.uint16(WORD)
    return Trie(characters, table, np.isin(np.arange(len(children)), ends), anywhere)


def may_hold(text: str, trie: Trie) -> bool:
    """Whether ``text`` may hold an entry. False is exact for the lower-cased text."""
    return bool(search(code_points(text), trie))


@kernel
def search(codes: "np.ndarray", trie: Trie) -> bool:
    """Does the work of ``may_hold`` on code points."""
    after_word = False
    for index in range(len(codes)):
        character = trie.characters[codes[index]]
        if character & np.uint16(NUMBER) == UNSURE:
            return True
        if (trie.anywhere or not after_word) and _entry_begins(codes, index, trie):
            return True
        after_word = character & np.uint16(WORD) != 0
    return False


@kernel
def _entry_begins(codes: "np.ndarray", index: int, trie: Trie) -> bool:
    """Whether an entry begins at ``index`` and ends where a word ends."""
    node = ROOT
    while index < len(codes):
        node = trie.children[node, trie.characters[codes[index]] & np.uint16(NUMBER)]
        if node == ROOT:
            return False
        index += 1
        if trie.entries[node] and (
            trie.anywhere or index == len(codes) or not trie.characters[codes[index]] & np.uint16(WORD)
        ):
            return True
    return False


LISTS = Path(__file__).parent / "bad_words_lists"
UNSPACED = ("ja", "th", "zh")
"""Languages that are written without spaces. There a bad word counts at any position."""
DEFAULT_LANGUAGE = "en"
LIST_NAMES = {"tl": "fil"}
"""Language codes of langdetect and fastText for which LDNOOBW and CLD3 use another code (Tagalog, Filipino). Both codes
name the list."""


@filter_settings
class BadWords(Filter):
    r"""Drops pages that match ``(?:\W|^)(entry|…)(?:\W|$)`` in lower case, with the entries of their language's list.

    Source: ``get_badwords_filter_fn`` of TFDS text/c4_utils.py. Entries in ja, th and zh match anywhere. Entries are
    not lower-cased. A list named ``fr-CA…`` is added to ``fr``. A page in a language without list is kept.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Drops pages with a word of the list of bad words.", "the page has “{value}”"),
    }
    type: Literal["bad_words"] = "bad_words"
    path: FilePath | None = None
    """A folder of your own lists ``<language>.json``; None: LDNOOBW's lists."""
    default_language: str = DEFAULT_LANGUAGE
    """The list for pages whose language was not identified."""
    filter_fraction: Fraction = 1.0
    """The fraction of matching pages that is dropped, chosen by the MD5 of the normalized URL (C4: 1, mC4: 0.999)."""
    allowed: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Entries to ignore, by language."""

    def __post_init__(self) -> None:
        known = languages_of(list_files(self.path))
        for language in self.allowed:
            if language not in known:
                raise ConfigError("bad_words.allowed", f"no list for {language!r}", remedy(language, known))
        if self.default_language not in known and self.default_language != DEFAULT_LANGUAGE:
            problem = f"no list for {self.default_language!r}"
            raise ConfigError("bad_words.default_language", problem, remedy(self.default_language, known))

    def raw_files(self) -> tuple[RawFile, ...]:
        files = [(path.name, path.read_bytes()) for path in list_files(self.path)] if self.path else []
        return tuple(RawFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files)

    def judge(self, document: Document) -> Drop | None:
        language = str(document.metadata.get("language") or self.default_language).split("-")[0]
        search, pattern = searches(language, self.path, self.allowed.get(language, ()))
        if not may_hold(document.text, search):
            return None
        match = pattern.search(document.text.lower())
        if match is None or not self._is_sampled(document):
            return None
        return Drop(self.type, match.group(1))

    def _is_sampled(self, document: Document) -> bool:
        """Whether the page belongs to ``filter_fraction``."""
        numerator, denominator = self.filter_fraction.as_integer_ratio()
        return url_number(document) % denominator < numerator


def list_files(path: str | None) -> list[Path]:
    """Returns the list files of the folder ``path``, or LDNOOBW's.

    Raises:
        ConfigError: when the folder holds none.
    """
    files = sorted((Path(path) if path else LISTS).glob("*.json"))
    if not files:
        raise ConfigError("bad_words.path", f"{path} holds no <language>.json", "name a folder of JSON lists of words")
    return files


def languages_of(files: Iterable[Path]) -> Mapping[str, list[Path]]:
    """Groups the files by language."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(file.stem.split("-")[0], []).append(file)
    return {code: groups[name] for code, name in LIST_NAMES.items() if name in groups} | groups


@functools.cache
def searches(language: str, path: str | None, allowed: tuple[str, ...]) -> "tuple[Trie, re.Pattern[str]]":
    """Builds the two searches for the entries of ``language``: a quick one for a page, an exact one for its lower case.

    Without list both find nothing.

    Raises:
        ArtifactError: when a file is not a JSON list of words.
    """
    words: set[str] = set()
    for file in languages_of(list_files(path)).get(language, []):
        words |= read_list(file)
    words -= set(allowed)
    unspaced = language in UNSPACED
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    entry = f"({'|'.join(map(re.escape, longest_first))})" if words else r"(?!)"
    return trie_of(words, unspaced), re.compile(entry if unspaced else rf"(?:\W|^){entry}(?:\W|$)")


def read_list(file: Path) -> set[str]:
    """Reads the stripped entries of one list.

    Raises:
        ArtifactError: when the file is not a JSON list of words.
    """
    try:
        entries = json.loads(read_text(file))
    except ValueError as error:
        raise ArtifactError(str(file), f"is not JSON ({error})", "write a JSON list of words") from None
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry.strip() for entry in entries):
        raise ArtifactError(str(file), "is not a list of words", "write a JSON list of non-empty strings")
    return {entry.strip() for entry in entries}
