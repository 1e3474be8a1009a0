"""The tables of docs/scaling.md are what benchmarks/data/scaling_table.py prints, and they add up."""

from pathlib import Path

import pytest

from benchmarks.data import scaling_table as scaling

ROOT = Path(__file__).parents[1]


def test_the_page_has_the_tables_that_are_printed() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text()
    tables = scaling.tables([1.0, 100.0]).split("\n\n")
    assert len(tables) == 3
    assert [table for table in tables if table not in page] == []


def test_costs_are_quantities_times_unit_costs() -> None:
    crawl = scaling.Crawl(bytes=6e9, page_bytes=3000, kept_pages=0.5, kept_bytes=0.25)
    assert crawl.quantities()["page"] == 2e6
    assert crawl.quantities()["document"] == 1e6
    assert crawl.quantities()["kept MB"] == 1500
    costs = (scaling.Cost("a", "page", 0.0036, "x.py"), scaling.Cost("b", "raw MB", 0.018, "y.py"))
    assert scaling.table(costs, "core-hours", 3600, [0.0072]) == [
        "| | for each | core-hours for 0.0072 TB | measured by |",
        "|---|---|---|---|",
        "| a | 3.6 ms a page | 1.2 | x.py |",
        "| b | 18 ms a raw MB | 0.036 | y.py |",
        "| **sum** | | **1.2** | |",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0312, "0.031"), (1.26, "1.3"), (9.96, "10"), (99.6, "100"), (1234, "1,200"), (4.2e9, "4.2 G")],
)
def test_two_digits(value, text) -> None:
    assert scaling.number(value) == text


def test_every_unit_cost_is_of_a_quantity_and_names_its_benchmark() -> None:
    for cost in (*scaling.SECONDS, *scaling.BYTES):
        assert scaling.Crawl(bytes=1.0).quantities()[cost.of] > 0
        assert (ROOT / "benchmarks" / "data" / cost.measured).is_file()
