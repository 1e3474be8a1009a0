"""A notice: the message to a person about an event of a run, as values, as a subject and as text."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Event = Literal["ended", "died", "waits", "spike", "disk"]
PHRASES: Mapping[str, str] = {
    "ended": "ended",
    "died": "died",
    "waits": "waits",
    "spike": "has a spike",
    "disk": "runs out of disk space",
}
"""Event → the end of a subject, after the name of the run."""


@dataclasses.dataclass(frozen=True)
class Notice:
    """A message to a person about a run."""

    event: Event
    run: str
    """The name of the run, or its id."""
    id: str
    stage: str
    host: str
    time: str
    """In UTC, as ISO 8601 writes it."""
    text: str
    lines: tuple[str, ...] = ()
    """The last lines of the log of the stage."""
    next: str = ""
    """The next command."""

    @property
    def subject(self) -> str:
        """One line, for the subject of an e-mail."""
        return " ".join(f"headrace: {self.run} {PHRASES[self.event]} ({self.stage} on {self.host})".split())

    @property
    def body(self) -> str:
        """The whole notice as text."""
        lines = ["", *(f"    {line}" for line in self.lines)] if self.lines else []
        command = ["", f"next: {self.next}"] if self.next else []
        run = f"run {self.id}, {self.time}"
        return "\n".join([self.text, *lines, *command, "", run])

    @property
    def values(self) -> dict[str, Any]:
        """The notice as JSON values: its fields, and the subject."""
        return {**dataclasses.asdict(self), "subject": self.subject}
