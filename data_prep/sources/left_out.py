"""Files and folders that a search leaves out: their numbers, by reason.

/data/a.txt, /data/b.txt, /data/.git    2 with the suffix .txt, 1 hidden
"""

import dataclasses
import fnmatch
import functools
import os
from collections import Counter
from collections.abc import Iterable

from headrace.pipeline.core.compression import READ, SUFFIXES, UNREAD_SUFFIXES

REASONS_SHOWN = 6
HIDDEN = "hidden"
REPEATED = "another path to what is read"
UNREADABLE = "unreadable"
IRREGULAR = "no regular file"
UNFINISHED = "of a job that was not finished"
STALE = "not named by the state.json of its folder"
OTHER_SUFFIX = "with the suffix "
CACHE = "with the name of a cache, "
COMPRESSED = "with the unread compression "
UNPACK = f"unpack files of unread compressions, or compress them with {READ}"
SUSPICIOUS = (REPEATED, UNREADABLE, IRREGULAR, UNFINISHED, STALE, COMPRESSED)
"""The reasons for which a file or folder should be looked at."""


class LeftOut:
    """The files and folders that searches have left out, with the reasons."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def add(self, reason: str, location: str) -> None:
        """Adds a file or folder, once however many searches leave it out."""
        self._reasons.setdefault(location, reason)

    def remove(self, locations: Iterable[str]) -> None:
        """Removes the files that another search has found, and the folders that hold them."""
        looked_at = set[str]()
        for path in locations:
            while path and path not in looked_at:
                looked_at.add(path)
                self._reasons.pop(path, None)
                path = path.rpartition("/")[0]

    @property
    def counts(self) -> "Counter[str]":
        """The number of files and folders by reason."""
        return Counter(self._reasons.values())

    def __str__(self) -> str:
        """Returns the counts, and the first of each (not of hidden ones): ``3 with the suffix .txt (a.txt)``."""
        first: dict[str, str] = {}
        for location, reason in sorted(self._reasons.items()):
            first.setdefault(reason, f" ({location})" * (reason != HIDDEN))
        shown = self.counts.most_common(REASONS_SHOWN)
        more = self.counts.total() - sum(number for _, number in shown)
        parts = [f"{number:,} {reason}{first[reason]}" for reason, number in shown]
        parts += [f"{more:,} for other reasons"] * bool(more)
        return ", ".join(parts) + f"; {UNPACK}" * any(reason.startswith(COMPRESSED) for reason in first)


@dataclasses.dataclass(frozen=True)
class Suffixes:
    """The ends of names that a folder is searched for."""

    formats: tuple[str, ...]
    compressions: tuple[str, ...] = SUFFIXES
    caches: str = ""
    """A pattern of names that are not wanted."""

    @functools.cached_property
    def wanted(self) -> tuple[str, ...]:
        return tuple(form + compression for form in self.formats for compression in ("", *self.compressions))

    def refusal(self, name: str) -> str | None:
        """Returns the reason to leave out the file ``name``; None: it is wanted."""
        name = name.lower()
        if self.caches and fnmatch.fnmatch(os.path.basename(name), self.caches):
            return f"{CACHE}{self.caches}"
        if name.endswith(self.wanted):
            return None
        bare, suffix = os.path.splitext(os.path.basename(name))
        if suffix in (*UNREAD_SUFFIXES, *SUFFIXES):
            if bare.endswith(self.formats):
                return f"{COMPRESSED}{suffix}"
            suffix = os.path.splitext(bare)[1] + suffix
        return f"{OTHER_SUFFIX}{suffix}" if suffix else "without suffix"
