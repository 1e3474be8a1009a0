"""Source of random sequences that are written several times: text that nothing but copying predicts.

    least_symbols 3, most_symbols 5, copies 2            c ab f x c ab f x
    the same with separator "="                          c ab f x = c ab f x

Repeated sequences show induction heads (Olsson et al. 2022, "In-context Learning and Induction Heads"); sequences with
a separator are the copying task of Jelassi et al. 2024 ("Repeat After Me", section 3). A symbol is a word of one to
four letters, so ``tokenizer=word`` gives it one token.

There are no files. Document n is a function of the settings and n alone, so more documents change none. A "file" of
this source is a part of at most ``PART_DOCUMENTS`` documents. Its checksum is that of the settings and its name.
"""

import hashlib
import string
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.sources.source import ListedFile, Record, Source
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import LARGEST, AnyText, Positive, Seed, digest, settings
from headrace.pipeline.core.stage import RawFile

PART_DOCUMENTS = 10_000
LETTERS = string.ascii_lowercase


@settings
class Synthetic(Source):
    """Random sequences of symbols, each written several times."""

    type: Literal["synthetic"] = "synthetic"
    documents: Positive = 20_000
    """The number of documents."""
    symbols: Annotated[int, Field(ge=2, le=26**4)] = 64
    """The number of different symbols; each is as likely as any other."""
    least_symbols: Positive = 25
    """The least length of a sequence."""
    most_symbols: Positive = 25
    """The greatest length of a sequence; all lengths are equally likely."""
    copies: Annotated[int, Field(ge=2, le=LARGEST)] = 2
    """The number of times that a document has its sequence."""
    separator: AnyText = ""
    """A word between two copies, which is no symbol; empty: none."""
    distinct: bool = False
    """Whether no symbol comes twice in a sequence."""
    seed: Seed = 0
    """Decides all documents."""

    def __post_init__(self) -> None:
        if self.least_symbols > self.most_symbols:
            problem = f"is {self.least_symbols}, and most_symbols is {self.most_symbols}"
            raise ConfigError("source.least_symbols", problem, "give one that is not larger")
        if self.distinct and self.most_symbols > self.symbols:
            problem = f"is {self.most_symbols}, and there are {self.symbols} distinct symbols"
            raise ConfigError("source.most_symbols", problem, "make it smaller, or give more symbols")
        if self.separator != self.separator.strip() or self.separator in {self.symbol(n) for n in range(self.symbols)}:
            problem = f"{self.separator!r} is a symbol, or has white space at its ends"
            raise ConfigError("source.separator", problem, "give a word such as = or |")

    def listing(self) -> tuple[ListedFile, ...]:
        """Returns the parts, with their mean sizes."""
        symbols = self.copies * (self.least_symbols + self.most_symbols) // 2
        return tuple(
            ListedFile(_name(part), self._documents_of(part) * symbols * (len(self.symbol(0)) + 1))
            for part in range(-(-self.documents // PART_DOCUMENTS))
        )

    def files(self) -> tuple[RawFile, ...]:
        return tuple(RawFile(file.name, file.bytes, self.checksum(file.name)) for file in self.listing())

    def checksum(self, name: str) -> str:
        return hashlib.sha256(f"{name}\0{digest(self)}".encode()).hexdigest()

    def read(self, name: str) -> Iterator[Record]:
        part = int(name.removeprefix("part-"))
        for number in range(self._documents_of(part)):
            text = self.text(part * PART_DOCUMENTS + number)
            yield Document(text, f"{name}:{number}", metadata={"url": ""}), None

    def text(self, number: int) -> str:
        """Returns the text of document ``number`` of all parts."""
        generator = generator_of(f"{self.seed}", number)
        length = int(generator.integers(self.least_symbols, self.most_symbols + 1))
        drawn = generator.choice(self.symbols, length, replace=not self.distinct).tolist()
        sequence = " ".join(map(self.symbol, drawn))
        return (f" {self.separator} " if self.separator else " ").join([sequence] * self.copies)

    def symbol(self, number: int) -> str:
        """Returns symbol ``number``: the number with letters as digits, all of one length."""
        letters, others = "", self.symbols - 1
        while others or not letters:
            letters, number, others = LETTERS[number % 26] + letters, number // 26, others // 26
        return letters

    def _documents_of(self, part: int) -> int:
        return min(PART_DOCUMENTS, self.documents - part * PART_DOCUMENTS)


def _name(part: int) -> str:
    return f"part-{part:05d}"


def generator_of(purpose: str, number: int) -> np.random.Generator:
    """Returns random numbers that depend on ``purpose`` and ``number`` alone, the same on every machine."""
    key = np.frombuffer(hashlib.shake_256(f"headrace document\0{purpose}".encode()).digest(16), dtype="<u8")
    return np.random.Generator(np.random.Philox(counter=np.array([0, 0, 0, number], np.uint64), key=key))
