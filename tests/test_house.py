"""The package does not grow: no number of tests/house.json rises (CONTRIBUTING.md)."""

import json
from pathlib import Path

import pytest

from tests.house import BOUNDS, LOADED, loaded, weight


def test_no_number_rises() -> None:
    bounds, today = json.loads(BOUNDS.read_text(encoding="utf-8")), weight()
    assert bounds.keys() == today.keys() | LOADED
    risen = {name: f"{number}, bound {bounds[name]}" for name, number in today.items() if number > bounds[name]}
    assert risen == {}, "take out what pays for it, or raise the number by hand and give the reason in the commit"


def test_the_bounds_are_those_of_today() -> None:
    """What was won stays won: a number that fell by more than a hundredth is written down (python -m tests.house)."""
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    assert {name: number for name, number in weight().items() if number < 0.99 * bounds[name]} == {}


@pytest.mark.slow
def test_no_more_modules_are_loaded(tmp_path: Path) -> None:
    """A class is imported when it is chosen, so a new one is loaded by no run that has none of it."""
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    assert {name: number for name, number in loaded(tmp_path).items() if number > bounds[name]} == {}
