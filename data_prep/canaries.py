"""Canaries: random texts that are planted among the documents, some once and some often, to measure memorization.

    copies [1, 4], each 2      2 texts that are documents once, 2 that are documents 4 times: 10 documents in all

A model that continues the first half of a canary with its second half has memorized it: nothing else foretells it.
Carlini et al. 2023 ("Quantifying Memorization Across Neural Language Models") find that it grows with the copies, Lee
et al. 2022 ("Deduplicating Training Data Makes Language Models Better") that removing duplicates prevents most of it.
Sentences are English in form, so that cleaning treats them as other pages; each has eight random words, 39 bits.
"""

import dataclasses
import hashlib
import random
from collections.abc import Iterator

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, Seed, settings

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

    copies: tuple[Positive, ...] = ()
    """Numbers of copies; for each there are ``each`` canaries. Empty: none are planted."""
    each: Positive = 10
    """The number of canaries with each number of copies."""
    sentences: Positive = 5
    """Sentences of a canary."""
    seed: Seed = 0
    """Decides the texts."""

    def __post_init__(self) -> None:
        if len(set(self.copies)) < len(self.copies):
            raise ConfigError("canaries.copies", f"is {list(self.copies)}", "give different numbers")

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
