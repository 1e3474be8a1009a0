"""The pages begin alike, stay short and have one width, and what makes it changes nothing that a page shows."""

import re
from pathlib import Path

import pytest

from docs.paragraphs import reflowed, shown, too_wide

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("slurm/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_line_of_a_paragraph_is_too_long(page: Path) -> None:
    """``python -m docs.paragraphs FILE`` breaks them."""
    assert too_wide(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [path for path in PAGES if path.parent != ROOT], ids=lambda path: path.stem)
def test_a_page_begins_with_its_reader_and_its_result(page: Path) -> None:
    begins = page.read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.findall(r"^\*\*(For whom|What you have at the end)\.\*\*", begins, re.MULTILINE) == [
        "For whom",
        "What you have at the end",
    ]


def test_the_pages_that_everyone_reads_stay_short() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in ("README.md", "docs/architecture.md")}
    assert sizes["README.md"] <= 9 * 1024
    assert sizes["docs/architecture.md"] <= 14 * 1024
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize(
    "page",
    [
        "word " * 40,
        "- item " + "word " * 40 + "\n  more\n- another",
        "> quote " + "word " * 40 + "\n> more",
        "a" * 99 + " - b",
        "a" * 99 + " 1. b",
        "word " * 18 + "`a code span that is long` end",
    ],
)
def test_a_long_paragraph_gets_lines_that_show_the_same(page: str) -> None:
    assert too_wide(page)
    new = reflowed(page)
    assert shown(new) == shown(page)
    assert too_wide(new) == []
    assert reflowed(new) == new


@pytest.mark.parametrize(
    "page", ["| a |\n|---|\n| " + "b " * 90 + "|", "    code " * 30, "```\n" + "code " * 30 + "\n```", "# " + "h " * 90]
)
def test_tables_code_and_headings_stay(page: str) -> None:
    assert too_wide(page) == []
    assert reflowed(page) == page
