"""The rules that dropped documents: their names, thresholds, which are settings, and the numbers that they stored.

gopher_quality.word_count ── thresholds_of ──> {"min_words": 50.0, "max_words": 100000.0}
{"drop": {"rule": "gopher_quality.word_count", "value": "49"}} ── number_of ──> 49.0
"""

import itertools
import re

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.filter import Filter, GlobalFilter, deciding, limits_in, routed
from headrace.data_prep.filters.page_rules import PageRule
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.documents.stored_documents import rule_of
from headrace.pipeline.report.funnel import DROPPED

NUMBER = re.compile(r"(?:\S+ )?(\d+(?:\.\d+)?)")
"""A stored value that is a number, perhaps after a name: ``49``, ``0.3125``, ``de 0.9712``."""


def counted_rules(artifact: Artifact, *beginnings: str) -> set[str]:
    """Returns the rules that ``artifact`` counts under names that begin with one of ``beginnings``."""
    return {key.partition(":")[2] for key in artifact.counts if key.startswith(beginnings)}


def dropping_rules(artifact: Artifact) -> set[str]:
    """Returns the rules that dropped documents of ``artifact``, and the filters that have such rules."""
    rules = counted_rules(artifact, DROPPED)
    return rules | {rule.partition(".")[0] for rule in rules}


def check_rule(artifact: Artifact, rule: str) -> None:
    """Checks that ``rule``, or a filter of that name, dropped documents of ``artifact``.

    Raises:
        ConfigError: with the nearest name, when it did not.
    """
    if rule not in (known := dropping_rules(artifact)):
        raise ConfigError("RULE", f"{artifact.folder.parent.name} dropped nothing by {rule!r}", suggestion(rule, known))


def number_of(document: Document, rule: str) -> float | None:
    """Returns the number by which ``rule`` dropped ``document``; None when another rule did, or it stores no number."""
    return number_in(str(document.metadata["drop"].get("value", ""))) if rule_of(document) == rule else None


def number_in(value: str) -> float | None:
    """Returns the number in the stored ``value`` of a drop; None when it holds none."""
    match = NUMBER.fullmatch(value)
    return float(match[1]) if match else None


def limits_of(artifact: Artifact, cleaning: Cleaning, rule: str) -> dict[str, float]:
    """Returns the thresholds of ``rule``, which dropped pages of ``artifact``: its settings ``min_…`` and ``max_…``.

    Raises:
        ConfigError: when it dropped nothing, or has no threshold.
    """
    known = counted_rules(artifact, DROPPED)
    if rule not in known:
        raise ConfigError("RULE", f"clean dropped nothing by {rule!r}", suggestion(rule, known))
    limits = thresholds_of(cleaning, rule)
    if not limits:
        raise ConfigError("RULE", f"{rule!r} has no threshold", "give a rule that measures, such as c4_lines.sentences")
    return limits


def thresholds_of(cleaning: Cleaning, rule: str) -> dict[str, float]:
    """Returns the settings ``min_…`` and ``max_…`` of ``rule``; none for a rule that does not measure."""
    holder = threshold_holder(cleaning, rule)
    return limits_in(holder) if holder else {}


def is_stricter(name: str, limit: float, other: float) -> bool:
    """Whether a rule drops more with ``other`` as the threshold ``name`` than with ``limit``."""
    return other > limit if name.startswith("min_") else other < limit


def threshold_holder(cleaning: Cleaning, rule: str) -> Filter | GlobalFilter | PageRule | None:
    """Returns the settings that hold the thresholds of ``rule``: those of the rule, else those of its filter."""
    inner, filters = routed(rule, cleaning.filters)
    owners, reason = deciding(inner, filters), inner.partition(".")[2]
    rules = (rule for owner in owners for rule in getattr(owner, "rules", ()) if isinstance(rule, PageRule))
    return next(itertools.chain((rule for rule in rules if rule.reason == reason), owners), None)
