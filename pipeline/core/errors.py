"""Everything that can go wrong on purpose, in one tree.

    HeadraceError
    ├── ConfigError          the configuration is wrong; the command exits with status 2
    ├── ArtifactError        something on disk is missing, incomplete or damaged
    └── TaskError            a piece of work failed
        └── RetryableError   ... for a reason that may pass: running again may succeed; the command exits with status 75

A message always reads ``where: what is wrong, with the value; what to do``, so the three parts are the constructor's
arguments. Secrets in them (a signed URL that a library names) are shown as ``***``. Broken records of the input are not
errors: they are dropped with a reason and counted.
"""

import difflib
from collections.abc import Iterable

from headrace.pipeline.core.secrets import redacted


class HeadraceError(Exception):
    """An error that a person can act on: ``where: wrong; remedy``."""

    exit_status = 1

    def __init__(self, where: str, wrong: str, remedy: str) -> None:
        self.where, self.wrong, self.remedy = redacted(where), redacted(wrong), redacted(remedy)
        super().__init__(self.where, self.wrong, self.remedy)

    def __str__(self) -> str:
        """One line, whatever a path or the text of a library's error holds."""
        return "".join(map(_visible, f"{self.where}: {self.wrong}; {self.remedy}"))


def _visible(character: str) -> str:
    """``character``, or the escape for one that would end the line or steer a terminal."""
    return character if character.isprintable() else repr(character)[1:-1]


class ConfigError(HeadraceError):
    """The configuration is wrong: nothing was started."""

    exit_status = 2


class ArtifactError(HeadraceError):
    """An artifact or an input file is missing, incomplete or damaged."""


class TaskError(HeadraceError):
    """A task of a stage failed; what other tasks finished is kept."""


class RetryableError(TaskError):
    """A task failed for a reason outside of it (killed, disk full, node lost): run again."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns the remedy for an unknown ``name``: the nearest known name (``did you mean 'x'?``), else all of them."""
    names = sorted(known)
    if not names:
        return "there is none yet"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(names)
