"""Docstrings by tokens, against the tree that Python builds."""

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.data_prep.sources.prose import docstrings


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


CASES = {
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


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    assert [text for text in docstrings(CASES[name]) if text] == by_tree(CASES[name])


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
