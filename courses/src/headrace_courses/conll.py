"""Tagged words in columns: one word a line, a blank line after each sentence.

    EU rejects German call          conll       EU NNP B-NP B-ORG           CoNLL-2000, 2002, 2003: columns by spaces
                                    conllu      1<TAB>EU<TAB>EU<TAB>PROPN   CoNLL-U of Universal Dependencies

A line ``-DOCSTART-`` begins a document of CoNLL-2003 (Tjong Kim Sang and De Meulder 2003); it is no word. In CoNLL-U,
lines with # are comments. The ranges of its multiword tokens (1-2) and its empty words (1.1) are left out: their parts
have lines of their own, with tags.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from headrace.pipeline.core.settings import AnyText, Natural, settings
from headrace.pipeline.core.text_files import opened
from headrace.train.evaluation.file_records import RecordError, utf8
from headrace.train.finetune.files.examples import Collection, Example, Examples

DOCUMENT = "-DOCSTART-"
SPACES = re.compile("[ \t]+")
UNIVERSAL_COLUMNS = {"upos": 3, "xpos": 4, "deprel": 7}
"""The columns of CoNLL-U with a tag for each word, from 0."""
UNIVERSAL_FORM, UNIVERSAL_WIDTH, ABSENT = 1, 10, "_"
Lines = Iterable[tuple[int, list[str]]]
"""The number and the columns of each word's line."""


@settings
class Conll:
    """Lines of columns by spaces or tabs, one for each word."""

    type: Literal["conll"] = "conll"
    word: Natural = 0
    """The column of the word, from 0."""
    label: Natural | None = None
    """The column of the tag; null: the last one."""
    separator: Literal["space", "tab"] = "space"
    """The separator of columns: space means any number of spaces and tabs. With tab, a word may have a space."""
    comment: AnyText = ""
    """Lines that begin with it are skipped: "#begin", say; empty: none are."""

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns one example a sentence. One with a line that lacks a column is dropped: ``wrong_columns``."""

        def columns(line: str) -> list[str] | None:
            if self.comment and line.startswith(self.comment):
                return None
            return SPACES.split(line.strip(" \t")) if self.separator == "space" else line.split("\t")

        label = -1 if self.label is None else self.label
        return _read(path, columns, lambda lines: _columns(lines, self.word, label if labelled else None))


@settings
class ConllU:
    """The CoNLL-U of Universal Dependencies."""

    type: Literal["conllu"] = "conllu"
    label: Literal["upos", "xpos", "deprel"] = "upos"
    """The column of the tag: universal parts of speech, those of the language, or syntactic relations."""

    @property
    def classes(self) -> tuple[str, ...]:
        return ()

    def read(self, path: Path, labelled: bool = True) -> Examples:
        """Returns one example a sentence. One with a word without a tag is dropped: ``no_label``."""
        label = UNIVERSAL_COLUMNS[self.label]

        def columns(line: str) -> list[str] | None:
            cells = line.split("\t")
            return None if line.startswith("#") or set(cells[0]) & set("-.") else cells

        def read_lines(lines: Lines) -> tuple[list[str], list[str] | None]:
            lines = list(lines)
            if any(len(cells) != UNIVERSAL_WIDTH for _, cells in lines):
                raise RecordError("wrong_columns")
            words, tags = _columns(lines, UNIVERSAL_FORM, label if labelled else None)
            if tags is not None and ABSENT in tags:
                raise RecordError("no_label")
            return words, tags

        return _read(path, columns, read_lines)


def _read(
    path: Path,
    columns: Callable[[str], list[str] | None],
    words_and_tags: Callable[[Lines], tuple[list[str], list[str] | None]],
) -> Examples:
    """Returns the sentences of ``path``.

    Args:
        path: the file.
        columns: returns the columns of a line; None of one that is no word.
        words_and_tags: returns those of the lines of a sentence.

    Raises:
        ArtifactError: when most sentences hold no example, or the file cannot be decompressed.
    """

    def examples(lines: Lines) -> Iterator[Example]:
        words, tags = words_and_tags(lines)
        yield tagged_example(f"{path.name}:{next(iter(lines))[0]}", words, tags)

    collection = Collection(path)
    for sentence in _sentences(path, columns):
        collection.add(examples(sentence), ())
    return collection.close()


def _sentences(path: Path, columns: Callable[[str], list[str] | None]) -> Iterator[list[tuple[int, list[str]]]]:
    sentence: list[tuple[int, list[str]]] = []
    with opened(path) as stream:
        for number, line in enumerate(io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="\n"), 1):
            line = line.rstrip("\r\n")
            if not line.strip() or SPACES.split(line)[0] == DOCUMENT:
                if sentence:
                    yield sentence
                sentence = []
            elif (cells := columns(line)) is not None:
                sentence.append((number, cells))
    if sentence:
        yield sentence


def _columns(lines: Lines, word: int, label: int | None) -> tuple[list[str], list[str] | None]:
    try:
        words = [cells[word] for _, cells in lines]
        if label is None:
            return words, None
        tags = [cells[label] for _, cells in lines]
    except IndexError:
        raise RecordError("wrong_columns") from None
    if any(word % len(cells) == label % len(cells) for _, cells in lines):
        raise RecordError("wrong_columns")  # there is no other column than that of the word
    return words, tags


def tagged_example(name: str, words: Iterable[str], tags: Iterable[str] | None) -> Example:
    """Returns the example of a sentence.

    Raises:
        RecordError: when it has no words, a word or tag that is not UTF-8, or a tag that is empty.
    """
    checked = tuple(utf8(word) for word in words)
    if not any(word.strip() for word in checked):
        raise RecordError("blank_text")
    checked_tags = None if tags is None else tuple(utf8(tag) for tag in tags)
    if checked_tags is not None and not all(checked_tags):
        raise RecordError("no_label")
    return Example(id=name, texts={"words": " ".join(checked)}, words=checked, tags=checked_tags)
