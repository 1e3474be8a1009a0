"""Source of the documentation that is installed on the machine: real text for a first run without a download.

    numpy  (a distribution)    numpy-2.4.0.dist-info/METADATA   the long description        -> numpy:0
                               numpy/LICENSE.txt                                            -> numpy:1
                               numpy/_core/fromnumeric.py       its docstrings, joined      -> numpy:2
    standard-library           the same for the running Python

One "file" of this source is one distribution. Its checksum is computed from the hashes in the distribution's RECORD, so
listing reads no documentation. Hard-wrapped text is joined to one paragraph per line (prose.py).
"""

import csv
import email
import functools
import hashlib
import importlib.metadata
import os
import re
import site
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.body_types import binary_type
from headrace.data_prep.sources.charset import decode, encoding_of_text, sanitize
from headrace.data_prep.sources.html import HtmlExtraction, html_of, text_of
from headrace.data_prep.sources.prose import docstrings, unwrap
from headrace.data_prep.sources.source import ListedFile, Record, Source
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, TextList, settings
from headrace.pipeline.core.stage import RawFile

TEXT_SUFFIXES = (".md", ".rst", ".txt")
HTML_SUFFIXES = (".html", ".htm")
NAME = re.compile(r"^Name:\s*(\S+)", re.MULTILINE | re.IGNORECASE)
LEGAL = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|AUTHORS|CREDITS)[\w-]*", re.IGNORECASE)
"""Names of texts that often have no suffix."""
STANDARD_LIBRARY = "standard-library"
SKIPPED_FOLDERS = ("site-packages", "dist-packages", "__pycache__", "test")
"""Folders that are not documentation of the standard library. Python's own tests exist on some systems only."""


@dataclass(frozen=True)
class DocFile:
    """One file with documentation: its path below the root of the package, its size and the hash of its content."""

    path: str
    bytes: int
    sha256: str


@settings
class InstalledDocs(HtmlExtraction, Source):
    """Long descriptions, documentation files, licences and docstrings of every distribution in the environment.

    Drops: ``no_text``, ``too_nested`` and ``too_many_blocks`` (HTML), ``binary``, ``undecodable``,
    ``record_too_large``, ``missing_file`` (in the RECORD, not on disk).
    A Python file without docstrings is not a record.
    """

    own_revision: ClassVar[int] = 1
    type: Literal["installed_docs"] = "installed_docs"
    packages: TextList = ()
    """The distributions to read (``standard-library`` is one of them); empty: all."""
    record_bytes: Positive = 20_000_000
    """Larger files are dropped and never read."""

    def __post_init__(self) -> None:
        self.require_extractor()

    def listing(self) -> tuple[ListedFile, ...]:
        return tuple(
            ListedFile(name, sum(file.bytes for file in files)) for name in self._names() if (files := _doc_files(name))
        )

    def files(self) -> tuple[RawFile, ...]:
        return tuple(RawFile(file.name, file.bytes, _checksum(file.name)) for file in self.listing())

    def checksum(self, name: str) -> str:
        """Computes the checksum from the current RECORD; "" when the distribution was removed."""
        _checksum.cache_clear()
        _doc_files.cache_clear()
        _roots.cache_clear()
        return _checksum(name) if name in _roots() else ""

    def read(self, name: str) -> Iterator[Record]:
        if name not in _roots():
            raise ArtifactError(name, "is no longer installed", "run in the environment that listed it")
        number = 0
        for file in _doc_files(name):
            text = self._text(_root(name) / file.path, file)
            if text != "":
                drop = text if isinstance(text, Drop) else None
                document = "" if isinstance(text, Drop) else text
                yield Document(document, f"{name}:{number}", metadata={"url": "", "path": file.path}), drop
                number += 1

    def _names(self) -> list[str]:
        known = _roots()
        for name in self.packages:
            if name not in known:
                raise ConfigError("source.packages", f"no distribution {name!r} is installed", suggestion(name, known))
        return sorted(self.packages or known)

    def _text(self, path: Path, file: DocFile) -> str | Drop:
        """Returns the text of one file; "" for a Python file without docstrings."""
        if file.bytes > self.record_bytes:
            return Drop("record_too_large", str(file.bytes))
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return Drop("missing_file", file.path)
        if path.suffix in HTML_SUFFIXES:
            html = html_of(data)
            return html if isinstance(html, Drop) else text_of(html, self).text
        if (kind := binary_type(data)) is not None:
            return Drop("binary", kind)
        content = decode(data, encoding_of_text(data)).replace("\r\n", "\n")
        if path.suffix == ".py":
            return "\n\n".join(text for docstring in docstrings(content) if (text := unwrap(sanitize(docstring))))
        if path.name == "METADATA":
            content = _description(content)
        return unwrap(content) or Drop("no_text", "")


def _description(metadata: str) -> str:
    """Returns the long description of a distribution: the body of METADATA, or a header in old versions."""
    message = email.message_from_string(metadata)
    body = message.get_payload()
    return sanitize(body if isinstance(body, str) and body.strip() else str(message.get("Description") or ""))


@functools.cache
def _roots() -> dict[str, importlib.metadata.Distribution | None]:
    """Returns every distribution of the environment by its normalized name, and the standard library (None)."""
    roots: dict[str, importlib.metadata.Distribution | None] = {STANDARD_LIBRARY: None}
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    for distribution in importlib.metadata.distributions(path=folders):
        roots.setdefault(re.sub(r"[-_.]+", "-", _name(distribution)).lower(), distribution)
    return roots


def _name(distribution: importlib.metadata.Distribution) -> str:
    """Returns the name in METADATA, of which the library would parse the long description, too."""
    match = NAME.search(distribution.read_text("METADATA") or "")
    return match[1] if match else distribution.name


def _root(name: str) -> Path:
    """Returns the folder to which the paths of ``name`` are relative."""
    distribution = _roots()[name]
    return Path(str(distribution.locate_file(""))) if distribution else Path(sysconfig.get_path("stdlib"))


@functools.cache
def _doc_files(name: str) -> tuple[DocFile, ...]:
    """Returns the files of ``name`` with documentation, sorted by path. A distribution without a RECORD has none."""
    distribution = _roots()[name]
    files = _standard_files(_root(name)) if distribution is None else _recorded_files(distribution)
    return tuple(sorted(files, key=lambda file: file.path))


def _recorded_files(distribution: importlib.metadata.Distribution) -> Iterator[DocFile]:
    for path, sha256, size in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        if size and _has_documentation(path):
            yield DocFile(path, int(size), sha256)


def _standard_files(root: Path) -> Iterator[DocFile]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        for name in names:
            path = Path(folder, name)
            if _has_documentation(name):
                yield DocFile(path.relative_to(root).as_posix(), path.stat().st_size, "")


def _has_documentation(path: str) -> bool:
    pure = PurePosixPath(path)
    if path.startswith(("..", "/")):
        return False
    suffixes = (".py", *TEXT_SUFFIXES, *HTML_SUFFIXES)
    return pure.suffix in suffixes or pure.name == "METADATA" or bool(LEGAL.fullmatch(pure.name))


@functools.cache
def _checksum(name: str) -> str:
    """Returns the SHA-256 over paths and hashes of the files of ``name``. Files of the standard library are read."""
    total = hashlib.sha256()
    for file in _doc_files(name):
        content = file.sha256 or hashlib.sha256((_root(name) / file.path).read_bytes()).hexdigest()
        total.update(f"{file.path}\t{file.bytes}\t{content}\n".encode())
    return total.hexdigest()
