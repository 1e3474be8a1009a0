"""Hard-wrapped text to one paragraph a line."""

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.sources.prose import docstrings, unwrap

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


# Docstrings by tokens, against the tree that Python builds.


def by_tree(source: str) -> list[str]:
    """The same by ``ast``, in the order of the source, which is also what is meant by docstring."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in statements(tree) if isinstance(node, kinds) and ast.get_docstring(node, clean=False)]
    return [ast.get_docstring(node, clean=False) for node in sorted(nodes, key=lambda node: node.body[0].lineno)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields ``node`` and all statements in it. ``ast.walk`` also visits the expressions, which hold no definitions."""
    yield node
    for block in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, block, ()):
            yield from statements(child)


DOCSTRINGS = {
    "kinds": '"""m"""\nclass A:\n    \'c\'\n    def f(self):\n        r"""f\\d"""\n    async def g(self): "g"\n',
    "comments": '# one\n\n# "two"\n"""m"""\ndef f():  # "no"\n    # \'no\'\n    "f"\n',
    "headers": 'def f(a: "x" = ":", *b: {"c": 1},\n      d=")") -> "y":\n    """f"""\nclass A(B["q"]):\n  """A"""\n',
    "backslash": 'def f(a) \\\n    -> "x":\n    "f"\n',
    "no docstrings": 'x = 1\n"""no"""\ndef f():\n    x = """no"""\n    "no"\nclass A:\n    a: "no"\n    "no"\n',
    "annotations": 'def f(\n    a: "no",\n    b: "no" = "no",\n):\n    return "no"\n',
    "other blocks": 'def f():\n    if x:\n        "no"\nfor a in b:\n    "no"\nd = {"a":\n    "no"}\n',
    "prefixes": 'def f():\n    b"no"\ndef g():\n    f"no"\ndef h():\n    u"h"\ndef i():\n    Rb"no"\n',
    "escapes": 'def f():\n    "a\\n\\x41\\\n b"\ndef g():\n    """\\"\\"\\" q "" q"""\ndef h():\n    """bad \\d"""\n',
    "empty": 'def f():\n    ""\ndef g():\n    """"""\ndef h(): pass\n"no"\n',
    "words": 'defx = 1\nclassy = "no"\ny.classes = {\n  "no": "no"}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_docstrings(name):
    assert [text for text in docstrings(DOCSTRINGS[name]) if text] == by_tree(DOCSTRINGS[name])


@pytest.mark.parametrize("package", ["numpy", "datatrove", "rich", "pydantic", "sympy/core", "numba/core"])
def test_real_packages(package):
    """60 files of each, evenly spaced."""
    files, found = sorted((Path(sysconfig.get_path("purelib")) / package).rglob("*.py")), 0
    for path in files[:: len(files) // 60 + 1]:
        source = path.read_text(encoding="utf-8", errors="replace")
        expected = by_tree(source)
        assert [text for text in docstrings(source) if text] == expected, path
        found += len(expected)
    if not found:
        pytest.skip(f"{package} is not installed")
