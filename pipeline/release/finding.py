"""The result of one check of a release."""

import dataclasses
from collections.abc import Callable

from headrace.pipeline.core.errors import HeadraceError

SAME, OTHER, UNCHECKED = "verified", "DIFFERS", "not verified"
SHOWN = 5
"""The most differing names that are listed."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """The subject of a check, its outcome (SAME, OTHER or UNCHECKED), and how it was checked or why not."""

    subject: str
    outcome: str
    text: str


def checked(subject: str, check: Callable[[], Finding]) -> Finding:
    """Returns the finding of ``check``; UNCHECKED with the reason when it cannot be made."""
    try:
        return check()
    except HeadraceError as error:
        return Finding(subject, UNCHECKED, str(error))


def compared(subject: str, differing: list[str], same: str) -> Finding:
    """Returns OTHER with the names ``differing``; without any, SAME with the text ``same``."""
    if not differing:
        return Finding(subject, SAME, same)
    more = f" and {len(differing) - SHOWN:,} more" * (len(differing) > SHOWN)
    return Finding(subject, OTHER, ", ".join(differing[:SHOWN]) + more)
