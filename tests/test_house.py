"""The package does not grow: no number of tests/house.json rises (CONTRIBUTING.md)."""

import json

from tests.house import BOUNDS, weight


def test_no_number_rises() -> None:
    bounds, today = json.loads(BOUNDS.read_text(encoding="utf-8")), weight()
    assert bounds.keys() == today.keys()
    risen = {name: f"{number}, bound {bounds[name]}" for name, number in today.items() if number > bounds[name]}
    assert risen == {}, "take out what pays for it, or raise the number by hand and give the reason in the commit"


def test_the_bounds_are_those_of_today() -> None:
    """What was won stays won: a number that fell by more than a hundredth is written down (python -m tests.house)."""
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    assert {name: number for name, number in weight().items() if number < 0.99 * bounds[name]} == {}
