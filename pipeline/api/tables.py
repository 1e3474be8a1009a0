"""Tables of the Python API: lists of records, of which ``pandas.DataFrame`` makes data frames.

[{"step": 50, "loss": 3.41}, …] ── to_arrow() ──> pyarrow.Table
"""

import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import rich.table
from markupsafe import escape

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.output.terminal import WIDE, terminal
from headrace.pipeline.papers.table_files import arrow_table
from headrace.pipeline.report.formatting import visible

if TYPE_CHECKING:
    import pyarrow

TableRow = dict[str, Any]
"""One row: column → value; None where it has none."""

SHOWN_ROWS = 20
SHOWN_CHARACTERS = 80


class Table(list[TableRow]):
    """A list of records with the same columns; shown as a table by Python, Jupyter and ``print``."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes the values of ``columns`` from ``rows``; a value that a row lacks is None."""
        super().__init__({name: row.get(name) for name in columns} for row in rows)
        self.columns = tuple(columns)

    def column(self, name: str) -> list[Any]:
        """Returns the values of the column ``name``, in the order of the rows.

        Raises:
            ConfigError: when there is no such column.
        """
        if name not in self.columns:
            raise ConfigError("column", f"there is no column {name!r}", suggestion(name, self.columns))
        return [row[name] for row in self]

    def to_arrow(self) -> "pyarrow.Table":
        """Returns a table of pyarrow. Values of one column that have no common type become JSON text."""
        return arrow_table(self, self.columns)

    def __repr__(self) -> str:
        text = io.StringIO()
        view = rich.table.Table(*self.columns, box=None, header_style="bold", pad_edge=False)
        for row in itertools.islice(self, SHOWN_ROWS):
            view.add_row(*map(_cell, row.values()))
        terminal(file=text, width=WIDE, force_terminal=False).print(view)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join(lines + [f"… {len(self):,} rows"] * (len(self) > SHOWN_ROWS))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Returns the table for Jupyter. All texts are escaped."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = ("".join(f"<td>{escape(_cell(value))}</td>" for value in row.values()) for row in self[:SHOWN_ROWS])
        body = "".join(f"<tr>{cells}</tr>" for cells in rows)
        more = f"<p>… {len(self):,} rows</p>" * (len(self) > SHOWN_ROWS)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    """Returns ``value`` as a short text on one line; control characters become visible."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return visible(text.replace("\n", " ").replace("\t", " "), SHOWN_CHARACTERS)
