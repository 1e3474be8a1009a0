"""Source of canaries among JSON lines: random texts, some once and some often, to measure memorization.

    copies [1, 4], each 2      2 texts that are documents once, 2 that are documents 4 times: 10 documents in all

A model that continues the first half of a canary with its second half has memorized it: nothing else foretells it.
Carlini et al. 2023 ("Quantifying Memorization Across Neural Language Models") find that it grows with the copies, Lee
et al. 2022 ("Deduplicating Training Data Makes Language Models Better") that removing duplicates prevents most of it.
Sentences are English in form, so that cleaning treats them as other pages; each has eight random words, 39 bits.
"""

import dataclasses
import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.source import ListedFile, Record, Section
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, Seed, digest, settings
from headrace.pipeline.core.stage import RawFile

ADJECTIVES = (
    "amber", "brittle", "broad", "calm", "clumsy", "crooked", "eager", "faded", "fragile", "frozen", "gentle", "golden",
    "grumpy", "hollow", "humble", "idle", "jolly", "lonely", "muddy", "narrow", "noisy", "patient", "proud", "quiet",
    "restless", "rusty", "silver", "sleepy", "stubborn", "tidy", "velvet", "weary",
)  # fmt: skip
NOUNS = (
    "anchor", "badger", "baker", "barrel", "bridge", "candle", "captain", "carpet", "castle", "cousin", "dancer",
    "engine", "farmer", "garden", "hammer", "harbor", "island", "kettle", "ladder", "lantern", "meadow", "miller",
    "mirror", "orchard", "pilot", "rabbit", "sailor", "tailor", "teapot", "violin", "wagon", "window",
)  # fmt: skip
VERBS = (
    "admired", "borrowed", "carried", "described", "followed", "forgot", "greeted", "ignored", "measured", "painted",
    "praised", "repaired", "sketched", "trusted", "visited", "watched",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Canary:
    """One canary."""

    copies: int
    """The number of documents that hold it; 0: it is planted nowhere, for comparison."""
    text: str


@settings
class Canaries:
    """The random texts that are planted among the documents of a run."""

    copies: tuple[Positive, ...] = (1, 4, 16, 64, 256)
    """Numbers of copies; for each there are ``each`` canaries."""
    each: Positive = 10
    """The number of canaries with each number of copies."""
    sentences: Positive = 5
    """Sentences of a canary."""
    seed: Seed = 0
    """Decides the texts."""

    def __post_init__(self) -> None:
        if len(set(self.copies)) < len(self.copies):
            raise ConfigError("source.canaries.copies", f"is {list(self.copies)}", "give different numbers")

    def canaries(self, copies: int) -> Iterator[Canary]:
        """Yields the canaries with that many ``copies``, each a function of the seed, the copies and its number."""
        for number in range(self.each):
            seed = hashlib.sha256(f"headrace canary\0{self.seed}\0{copies}\0{number}".encode()).digest()
            generator = random.Random(seed)
            yield Canary(copies, " ".join(sentence(generator) for _ in range(self.sentences)))

    def planted(self) -> Iterator[Canary]:
        """Yields the canary of each planted document."""
        for copies in self.copies:
            for canary in self.canaries(copies):
                yield from [canary] * copies


def sentence(generator: random.Random) -> str:
    """Returns a random sentence of 16 words."""
    a, b, c, d = (generator.choice(ADJECTIVES) for _ in range(4))
    subject, owner, thing = (generator.choice(NOUNS) for _ in range(3))
    verb = generator.choice(VERBS)
    return f"The {a} {subject} of the {b} {owner} {verb} a {c} {thing} and then it was {d}."


PLANTED = "planted-canaries"
"""The name of their file; the id of a document is ``planted-canaries:<number>``."""


@settings
class Planted(Jsonl):
    """JSON lines, and one file more: the canaries."""

    type: Literal["planted"] = "planted"  # type: ignore[assignment]
    canaries: Canaries = dataclasses.field(default_factory=Canaries)
    """The random texts."""

    def listing(self) -> tuple[ListedFile, ...]:
        return (*super().listing(), ListedFile(PLANTED, sum(len(canary.text) for canary in self.canaries.planted())))

    def checksum(self, name: str) -> str:
        if name != PLANTED:
            return super().checksum(name)
        return hashlib.sha256(f"{name}\0{digest(self.canaries)}".encode()).hexdigest()

    def state(self, name: str) -> str:
        return self.checksum(name) if name == PLANTED else super().state(name)

    def location(self, name: str) -> str:
        return "planted by source.canaries" if name == PLANTED else super().location(name)

    def check(self, names: Sequence[str]) -> None:
        super().check([name for name in names if name != PLANTED])

    def sections(self, file: ListedFile | RawFile, most_bytes: int) -> int:
        return 1 if file.name == PLANTED else super().sections(file, most_bytes)

    def read_section(self, section: Section, first: int) -> Iterator[Record]:
        if section.name != PLANTED:
            yield from super().read_section(section, first)
            return
        for number, canary in enumerate(self.canaries.planted()):
            yield Document(canary.text, f"{PLANTED}:{number}", metadata={"url": "", "copies": canary.copies}), None
