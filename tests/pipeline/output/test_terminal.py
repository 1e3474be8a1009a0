"""Tables on the terminal."""

import pytest
from rich.table import Table

from headrace.pipeline.output.terminal import show_rows, show_table


def test_rows_are_printed_like_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    names, rows = ("name", "id", "best"), [("水車", "1", ""), ("[red]", "22", "x" * 200)]
    show_rows(names, rows)
    printed = capsys.readouterr().out
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    show_table(table)
    assert printed == capsys.readouterr().out
