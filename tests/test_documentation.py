"""The documentation of installed packages as pages: docstrings, long descriptions and texts, a paragraph a line."""

import importlib.metadata
import json
from pathlib import Path

import pytest

from headrace import documentation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return the mean of\nthe values.\n\nSee also.", "Return the mean of the values.\n\nSee also."),
        ("Heading\n=======\nText goes\non.", "Heading\nText goes on."),
        ("One.\n\n- an item\n- another", "One.\n\n- an item\n- another"),
        ("Example:\n\n    >>> f(1)\n    2", "Example:\n\n>>> f(1)\n2"),
        ("Has:\n\naxis : int\n    Which axis\n    to take.", "Has:\n\naxis : int\nWhich axis to take."),
        ("f(x);\ng(x);", "f(x);\ng(x);"),
        ("", ""),
    ],
)
def test_the_lines_of_a_paragraph_are_joined(text: str, expected: str) -> None:
    assert documentation.joined(text) == expected


def test_docstrings_come_in_the_order_of_the_source() -> None:
    source = (
        '"""Module."""\nclass A:\n    """Class."""\n    def f(self):\n        "Method."\ndef g():\n    """Last."""\n'
    )
    assert list(documentation.docstrings(source)) == ["Module.", "Class.", "Method.", "Last."]
    assert list(documentation.docstrings("def")) == []


def test_a_package_is_written_as_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    documentation.main(["fsspec"])
    records = [json.loads(line) for line in (tmp_path / "documentation/fsspec.jsonl").read_text().splitlines()]
    assert {f"fsspec-{importlib.metadata.version('fsspec')}.dist-info/METADATA", "fsspec/core.py"} <= {
        record["id"] for record in records
    }
    assert all(record["text"] for record in records)
    with pytest.raises(SystemExit, match="no package 'no-such' is installed"):
        documentation.main(["no-such"])
