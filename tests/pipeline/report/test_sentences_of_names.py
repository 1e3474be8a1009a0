"""Every rule that drops pages, and every kind of benchmark, has a sentence that the report prints."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from headrace.data_prep.filters import FILTERS
from headrace.data_prep.filters.explanations import OF_STAGES, explained
from headrace.data_prep.filters.unique_text import UniqueLines
from headrace.train.evaluation.benchmarks import BENCHMARKS

ROOT = Path(__file__).parents[3]
NO_DROPS = {"stripped_lines", "pii"}
"""Filters that change documents and drop none."""


def rules_of(filter_class: type) -> list[type]:
    """Returns the classes of the rules that a filter of this class may have."""
    hint = get_type_hints(filter_class, include_extras=True).get("rules")
    union = get_args(get_args(hint)[0])[0] if hint else None
    return list(get_args(union) or ([union] if union else []))


@pytest.mark.parametrize("filter_class", FILTERS.classes, ids=lambda one: one.type)
def test_each_filter_is_explained(filter_class: type) -> None:
    rules = rules_of(filter_class)
    templates = [(rule.__doc__, rule.meaning) for rule in rules] + [*filter_class.explanations.values()]
    for sentence_of_rule, of_value in templates:
        assert re.match(r"(Drops|Removes|Cuts|Keeps|\{explained)", sentence_of_rule)
        assert of_value
    assert rules or filter_class.explanations or filter_class.type in NO_DROPS


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (
            "1 lines are on other pages",
            "1 line is on other pages, and fewer than 3 sentences are left",
        ),  # older results
        ("1 line is on other pages", "1 line is on other pages, and fewer than 3 sentences are left"),
        ("21 lines are on other pages", "21 lines are on other pages, and fewer than 3 sentences are left"),
    ],
)
def test_the_number_of_a_value_fits_its_verb(value: str, meaning: str) -> None:
    assert explained("unique_lines.sentences", [UniqueLines()]).of_value(value) == meaning


def test_each_reason_of_reading_is_explained() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "data_prep").rglob("*.py"))
    found = set(re.findall(r'Drop\(\s*"(\w+)"', texts))
    assert {"broken_record", "not_json", "near_duplicate"} <= found
    assert found <= OF_STAGES.keys()


@pytest.mark.parametrize("kind", BENCHMARKS.tags)
def test_each_kind_of_benchmark_has_a_sentence(kind: str) -> None:
    assert BENCHMARKS[kind].sentence.endswith(".")
