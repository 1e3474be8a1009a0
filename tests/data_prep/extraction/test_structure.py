"""The scores of kept structure that benchmarks/data/html_structure.py gives."""

import pytest

from benchmarks.data.html_structure import edit_distance, means, scores, structure

TRUTH = structure("# A\n\nx $a^2$\n\n```py\ny\n```\n\n| a | b |\n|---|---|\n| c | d |")


def test_parts_and_scores():
    assert TRUTH[1:] == ("y", "a^2", [["th", "a", "b"], ["td", "c", "d"]])
    assert set(scores(TRUTH, TRUTH).values()) == {1.0}
    lost = scores(TRUTH, structure("A\n\nx a2\n\ny\n\n| a | b |\n|---|---|\n| c | e |"))
    assert (lost["code"], lost["formulas"], lost["TEDS"]) == (0, 0, 1 - 1 / 7)
    assert scores(TRUTH, structure("| a |\n|---|\n| c |"))["TEDS"] == pytest.approx(1 - 2 / 7)
    assert means([{"text": 1.0, "code": 0.0}, {"text": 0.5}]) == {"overall": 0.375, "text": 0.75, "code": 0.0}


@pytest.mark.parametrize(
    ("first", "second", "distance"), [("kitten", "sitting", 3), ("", "ab", 2), ("ab" * 99, "ba" * 99, 2)]
)
def test_edit_distance(first, second, distance):
    assert edit_distance(first, second) == distance == edit_distance(second, first)
