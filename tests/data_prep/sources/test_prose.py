"""Hard-wrapped text to one paragraph a line."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.sources.prose import unwrap

CASES = {
    "paragraphs": ("One sentence\nthat goes on.\n\n\nAnother\none.", "One sentence that goes on.\n\nAnother one."),
    "a docstring's indent": ("Sum of\n    the values.\n\n    More\n    text.", "Sum of the values.\n\nMore text."),
    "numpy's parameters": (
        "Parameters\n----------\naxis : int\n    Which axis to take,\n    counted from zero.\nout : array\n    Result.",
        "Parameters\naxis : int\nWhich axis to take, counted from zero.\nout : array\nResult.",
    ),
    "google's parameters": (
        "Args:\n  path: Where it lies,\n    on disk.\n  mode (str): How to\n    open it.",
        "Args:\npath: Where it lies, on disk.\nmode (str): How to open it.",
    ),
    "sphinx's fields": (":param path: where\n   it lies\n:returns: a", ":param path: where it lies\n:returns: a"),
    "lists": ("- one\n  goes on\n- two\n* three\n1. four\n   is it", "- one goes on\n- two\n* three\n1. four is it"),
    "doctests": (">>> f(1)\n2\n>>> f(\n...     2)\n3", ">>> f(1)\n2\n>>> f(\n...     2)\n3"),
    "headings": ("Title\n=====\nText goes\non.", "Title\nText goes on."),
    "markdown": ("# Title\nText goes\non.\n> quoted", "# Title\nText goes on.\n> quoted"),
    "fences": ("Run it\nso:\n```sh\nmake\n\nmake it\n```\nThen go\non.", "Run it so:\n\nmake\nmake it\n\nThen go on."),
    "literal blocks": ("Such as::\n\n    a = 1\n    b = 2\n\nand\nagain.", "Such as::\n\na = 1\nb = 2\n\nand again."),
    "tables": ("name     meaning\nx        first", "name     meaning\nx        first"),
    "code": ("int main() {\n  return 0;\n}", "int main() {\nreturn 0;\n}"),
    "first line indented": (
        "x\n\n    It was the best of times and it was the worst\nof times, it was.",
        "x\n\nIt was the best of times and it was the worst of times, it was.",
    ),
    "borders": ("+----+----+\n| a  | b  |\n+----+----+", "| a  | b  |"),
    "nothing": (" \n\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_unwrap(name):
    text, expected = CASES[name]
    assert unwrap(text) == expected


@given(st.text(alphabet="ab .:-=#>`|~*\n\t", max_size=120))
def test_no_letter_is_lost_and_none_moves(text):
    def letters(string):
        return [letter for letter in string if letter in "ab"]

    kept = [line for line in text.split("\n") if not line.strip().startswith(("```", "~~~"))]
    assert letters(unwrap(text)) == letters("".join(kept))


@given(st.text(alphabet="ab \n", max_size=120))
def test_plain_paragraphs_become_lines(text):
    lines = unwrap(text).split("\n")
    assert all(line == line.strip() for line in lines)
    assert not any(one == two == "" for one, two in pairwise(lines))
