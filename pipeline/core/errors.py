"""The errors that Headrace raises, in one tree.

    HeadraceError
    ├── ConfigError          the configuration is wrong; the command exits with status 2
    ├── ArtifactError        something on disk is missing, incomplete or damaged
    └── TaskError            a task failed
        └── RetryableError   ... but running again may succeed; the command exits with status 75
            └── StoppedError ... because it was asked to end, after it has saved

A message reads ``where: what is wrong, with the value; what to do``. The arguments of the constructor are these three
parts. Secrets in them, for example a signed URL in the message of a library, are replaced by ``***``. Broken records of
the input are not errors: they are dropped with a reason and counted.
"""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

from headrace.pipeline.core.gone import GONE
from headrace.pipeline.core.secrets import redacted


class HeadraceError(Exception):
    """An error that the user can act on: ``where: problem; remedy``."""

    exit_status = 1

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = redacted(where), redacted(problem), redacted(remedy)
        super().__init__(self.where, self.problem, self.remedy)

    def __str__(self) -> str:
        """Returns one line, whatever characters a path or the message of a library contains."""
        return "".join(map(_visible, f"{self.where}: {self.problem}; {self.remedy}"))


def _visible(character: str) -> str:
    """Returns ``character``; its escape sequence when it would end the line or control the terminal."""
    return character if character.isprintable() else repr(character)[1:-1]


class ConfigError(HeadraceError):
    """The configuration is wrong. Nothing was started."""

    exit_status = 2


class ArtifactError(HeadraceError):
    """An artifact or an input file is missing, incomplete or damaged."""


class TaskError(HeadraceError):
    """A task of a stage failed. The results of finished tasks are kept."""


class RetryableError(TaskError):
    """A task failed for an external reason (killed, disk full, node lost). Running again may succeed."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h


class StoppedError(RetryableError):
    """The work was asked to end (Ctrl-C, SIGTERM, a cluster's signal) and has saved what it had."""


def suggestion(name: str, known: Iterable[str], once: str = "") -> str:
    """Returns the remedy for an unknown ``name``: the nearest known name (``did you mean 'x'?``), or the only one with
    this part (``3`` of ``stage_3``), else all of them. What is gone (gone.py), under its name ``once``, has its own.
    """
    if once in GONE:
        return GONE[once]
    names = sorted(known)
    if not names:
        return "none exists yet"
    with_part = [known for known in names if name in re.split("[_.-]", known)]
    near = difflib.get_close_matches(name, names, n=1) or (with_part if len(with_part) == 1 else [])
    return f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(names)


def local_path(text: str, where: str) -> Path:
    """Returns ``text``, an argument named ``where``, as a path of this machine, to which a command writes.

    Raises:
        ConfigError: when it is a URL.
    """
    if "://" in text:
        remedy = "name a folder or file of this machine, and copy it (headrace mirror push copies artifacts to a URL)"
        raise ConfigError(where, f"{text!r} is a URL", remedy)
    return Path(text).expanduser()
