"""The exact study: every row equals the publication, but for round figures of papers that its remarks explain."""

from headrace.pipeline.study.exact import exact_rows
from tests.command_line import headrace_here

DIFFER = {
    "t5_large, millions",
    "t5_3b, millions",
    "encoder–decoder: parameters, P",
    "encoder–decoder, shared: parameters, P",
    "encoder–decoder, 6 layers: parameters, P",
}


def test_rows_equal_the_publications():
    rows = list(exact_rows())
    assert {row.what for row in rows if not row.is_equal} == DIFFER
    assert all(row.remark for row in rows if not row.is_equal)
    assert len({row.topic for row in rows}) == 10


def test_the_command_prints_and_writes_them(tmp_path):
    page = tmp_path / "exact.html"
    printed = headrace_here("study", "exact", f"--page={page}", f"--json={tmp_path / 'exact.json'}").stdout
    assert "| packing | texts of 2, 6, 3, 4 tokens, rows of 9: packed, with separators | 94% | 94% | yes |" in printed
    assert "rows are equal" in page.read_text()
