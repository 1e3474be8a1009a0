"""Pages with a word or phrase of the "List of Dirty, Naughty, Obscene, and Otherwise Bad Words" (LDNOOBW).

The lists lie in bad_words_lists/ (CC-BY-4.0, see its README.md), one JSON list a language.
"""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.c4.word_search import Tree, may_hold, tree_of
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.own_files import own_text
from headrace.data_prep.filters.urls import url_number
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.settings import Fraction
from headrace.pipeline.core.stage import RawFile

LISTS = Path(__file__).parent / "bad_words_lists"
UNSPACED = ("ja", "th", "zh")
"""Languages that are written without spaces: a bad word counts wherever it stands."""
LISTED_AS = {"tl": "fil"}
"""Codes of langdetect and fastText for which LDNOOBW and CLD3 have another (Tagalog, Filipino): both name the list."""


@filter_settings
class BadWords(Filter):
    r"""Drops pages with an entry of their language's list, by ``(?:\W|^)(entry|…)(?:\W|$)`` on the lower-cased page.

    ``get_badwords_filter_fn`` of TFDS text/c4_utils.py: ja, th and zh match anywhere; entries are not lower-cased; a
    list named ``fr-CA…`` adds to ``fr``; a page in a language without list stays.
    """

    type: Literal["bad_words"] = "bad_words"
    path: str | None = None
    """A folder of ``<language>.json`` lists of your own; None: LDNOOBW's lists."""
    default_language: str = "en"
    """The list for pages whose language was not identified."""
    filter_fraction: Fraction = 1.0
    """The fraction of such pages that is dropped, chosen by the MD5 of the normalized URL (C4: 1, mC4: 0.999)."""
    allowed: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Entries that do not count, by language."""

    def __post_init__(self) -> None:
        super().__post_init__()
        known = languages_of(list_files(self.path))
        for language in self.allowed:
            if language not in known:
                raise ConfigError("bad_words.allowed", f"no list for {language!r}", suggestion(language, known))

    def raw_files(self) -> tuple[RawFile, ...]:
        files = [(path.name, path.read_bytes()) for path in list_files(self.path)] if self.path else []
        return tuple(RawFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files)

    def judge(self, document: Document) -> Drop | None:
        language = str(document.metadata.get("language") or self.default_language).split("-")[0]
        search, pattern = searches(language, self.path, self.allowed.get(language, ()))
        if not may_hold(document.text, search):
            return None
        found = pattern.search(document.text.lower())
        if found is None or self._spared(document):
            return None
        return Drop(self.type, found.group(1))

    def _spared(self, document: Document) -> bool:
        drop, of = self.filter_fraction.as_integer_ratio()
        return url_number(document) % of >= drop


def list_files(path: str | None) -> list[Path]:
    """The list files of the folder ``path``.

    Raises:
        ConfigError: when there are none.
    """
    files = sorted((Path(path) if path else LISTS).glob("*.json"))
    if not files:
        raise ConfigError("bad_words.path", f"{path} holds no <language>.json", "name a folder of JSON lists of words")
    return files


def languages_of(files: Iterable[Path]) -> Mapping[str, list[Path]]:
    """The files of each language."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(file.stem.split("-")[0], []).append(file)
    return {code: groups[name] for code, name in LISTED_AS.items() if name in groups} | groups


@functools.cache
def searches(language: str, path: str | None, allowed: tuple[str, ...]) -> "tuple[Tree, re.Pattern[str]]":
    """What finds an entry of ``language``'s list: first in a page, then, for sure, in the lower-cased page.

    Without list both find nothing.

    Raises:
        ArtifactError: when a file is not a JSON list of words.
    """
    words: set[str] = set()
    for file in languages_of(list_files(path)).get(language, []):
        words |= read_list(file)
    words -= set(allowed)
    unspaced = language in UNSPACED
    entry = f"({alternatives(words)})" if words else r"(?!)"
    return tree_of(words, unspaced), re.compile(entry if unspaced else rf"(?:\W|^){entry}(?:\W|$)")


def read_list(file: Path) -> set[str]:
    """The stripped entries of one list."""
    try:
        entries = json.loads(own_text(file))
    except ValueError as error:
        raise ArtifactError(str(file), f"is not JSON ({error})", "write a JSON list of words") from None
    if not isinstance(entries, list) or not all(isinstance(entry, str) and entry.strip() for entry in entries):
        raise ArtifactError(str(file), "is not a list of words", "write a JSON list of non-empty strings")
    return {entry.strip() for entry in entries}


def alternatives(words: Iterable[str]) -> str:
    """A pattern for exactly ``words``, as a tree of shared beginnings: one look at a character rules most words out."""
    tree: dict[str, dict[str, object]] = {}
    for word in words:
        node = tree
        for character in word:
            node = node.setdefault(character, {})  # type: ignore[assignment]
        node[""] = {}
    return _branch(tree)


def _branch(tree: Mapping[str, Mapping[str, object]]) -> str:
    branches = [re.escape(c) + _branch(tree[c]) for c in sorted(tree) if c]  # type: ignore[arg-type]
    if not branches:
        return ""
    if len(branches) == 1 and "" not in tree:
        return branches[0]
    return f"(?:{'|'.join(branches)})" + ("?" if "" in tree else "")
