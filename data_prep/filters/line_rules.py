"""Base classes of rules that judge one line, and of the filters that apply them.

    line ── rule ──> line (perhaps rewritten) ── rule ──> ... ──> kept
                └──> removed

``headrace inspect`` and the report apply the rules again to show which rule removed a line.
"""

import abc
from collections.abc import Iterable
from typing import TypeVar

from headrace.data_prep.filters.filter import Filter


class LineRule(abc.ABC):
    """Judges one line. Subclasses are ``@settings`` classes; their ``type`` tag is the reason of a removed line."""

    type: str

    @abc.abstractmethod
    def apply(self, line: str) -> str | None:
        """Returns what remains of ``line``, or None when the line fails."""


AnyLineRule = TypeVar("AnyLineRule", bound=LineRule)


class LineFilter(Filter):
    """A filter that judges each line by itself, with ``rules`` in their order."""

    type: str
    rules: tuple[LineRule, ...]

    def reason(self, rule: str) -> str:
        """Returns the reason of a line that fails the rule with the type ``rule``, as counts and metadata name it."""
        return f"{self.type}.{rule}"


def apply_rules(rules: Iterable[AnyLineRule], line: str) -> tuple[str, AnyLineRule | None]:
    """Applies ``rules`` in order. Returns the remaining line and the first rule that it fails, or None."""
    for rule in rules:
        remaining = rule.apply(line)
        if remaining is None:
            return line, rule
        line = remaining
    return line, None
