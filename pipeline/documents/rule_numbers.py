"""Numbers of a rule: its thresholds, which are settings, and the numbers by which it dropped documents.

gopher_quality.word_count ── thresholds_of ──> {"min_words": 50.0, "max_words": 100000.0}
{"drop": {"rule": "gopher_quality.word_count", "value": "49"}} ── number_of ──> 49.0
"""

import itertools
import re

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters.filter import Filter, GlobalFilter, deciding, limits_in, routed
from headrace.data_prep.filters.language.by_language import ByLanguage
from headrace.data_prep.filters.page_rules import PageRule
from headrace.pipeline.configuration.setting_names import FILTERS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.documents.lookup import counted_rules, rule_of
from headrace.pipeline.report.funnel import DROPPED

NUMBER = re.compile(r"(?:\S+ )?(\d+(?:\.\d+)?)")
"""A stored value that is a number, perhaps after a name: ``49``, ``0.3125``, ``de 0.9712``."""


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
    holder = _holder(cleaning, rule)
    return limits_in(holder) if holder else {}


def setting_of_limit(cleaning: Cleaning, rule: str, limit: str) -> str:
    """Returns the setting ``limit`` of ``rule`` with its path, as it is given on the command line."""
    holder, owner = _holder(cleaning, rule), deciding(rule, cleaning.filters)[0].type
    if owner == ByLanguage.type:
        entry, reason = rule.split(".")[1], getattr(holder, "reason", getattr(holder, "type", ""))
        return ".".join([f"+{FILTERS}", owner, "languages", entry, reason, limit])
    path = [FILTERS, owner, *(["rules", holder.type] if isinstance(holder, PageRule) else []), limit]
    return ".".join(path)


def is_stricter(name: str, limit: float, other: float) -> bool:
    """Whether a rule drops more with ``other`` as the threshold ``name`` than with ``limit``."""
    return other > limit if name.startswith("min_") else other < limit


def _holder(cleaning: Cleaning, rule: str) -> Filter | GlobalFilter | PageRule | None:
    """Returns the settings that hold the thresholds of ``rule``: those of the rule, else those of its filter."""
    inner, filters = routed(rule, cleaning.filters)
    owners, reason = deciding(inner, filters), inner.partition(".")[2]
    rules = (rule for owner in owners for rule in getattr(owner, "rules", ()) if isinstance(rule, PageRule))
    return next(itertools.chain((rule for rule in rules if rule.reason == reason), owners), None)
