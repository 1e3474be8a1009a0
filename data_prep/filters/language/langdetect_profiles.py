"""langdetect's profiles: the n-grams of each language, and how frequent they are.

langdetect's own reader takes three times as long, in each process that identifies languages.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import numpy as np
from langdetect.detector_factory import PROFILES_DIRECTORY
from langdetect.utils.ngram import NGram


class Profile(TypedDict):
    """A language, as one of langdetect's files describes it."""

    name: str
    freq: dict[str, int]
    """The number of times that each n-gram was seen."""
    n_words: list[int]
    """The number of n-grams of each length that were seen."""


def profile_names() -> list[str]:
    """Returns the names of the profiles, which are the codes of the languages, in the order in which langdetect reads
    them."""
    return [name for name in os.listdir(PROFILES_DIRECTORY) if not name.startswith(".")]


def read_profiles() -> list[Profile]:
    """Reads the profiles, in the order in which langdetect reads them, without n-grams that it never uses."""
    profiles: list[Profile] = [json.loads(Path(PROFILES_DIRECTORY, name).read_bytes()) for name in profile_names()]
    for profile in profiles:
        used = {gram: times for gram, times in profile["freq"].items() if len(gram) <= NGram.N_GRAM and gram != " "}
        profile["freq"] = used
    return profiles


def frequencies_of(profiles: Sequence[Profile], grams: Sequence[str]) -> "np.ndarray":
    """Returns the fraction of each of the ``grams`` among all of its length in each language: float64 (G, L)."""
    row_of = {gram: row for row, gram in enumerate(grams)}
    frequencies = np.zeros((len(grams), len(profiles)))
    for language, profile in enumerate(profiles):
        own = profile["freq"]
        of_length = np.array(profile["n_words"], float)[np.fromiter(map(len, own), int) - 1]
        frequencies[np.fromiter(map(row_of.__getitem__, own), int), language] = list(own.values()) / of_length
    return frequencies
