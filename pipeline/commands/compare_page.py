"""The page of ``headrace compare --page FILE``: the table, differences as forest plots, curves over worked examples.

One HTML file that needs nothing else, as the report is (report_page/page.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.report import page, panels
from headrace.pipeline.report.few_shot import panels_of
from headrace.pipeline.report.forest import Interval, forest


def render(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    table: Sequence[Sequence[str]],
    note: str,
    shares: Sequence[Interval],
    others: Sequence[Interval],
) -> str:
    """The page of ``runs`` (name -> entries of scores.json), of which the first is what the others are compared with.

    Args:
        runs: at least two.
        table: the header, then the rows.
        note: stands below it.
        shares: differences of shares of right answers, in percentage points.
        others: differences in the units of their metrics.
    """
    first, *_ = runs
    by_shots = panels_of(runs)
    return page.render(
        "comparison.html",
        {
            "runs": list(runs),
            "head": table[0],
            "body": table[1:],
            "note": note,
            "shares": forest("shares", shares, f"percentage points more than {first}"),
            "others": forest("others", others, f"more than {first}, in the units of the table"),
            "few_shot": panels.few_shot([panel for panel in by_shots if not panel.is_by_group]),
            "few_shot_groups": panels.few_shot_groups([panel for panel in by_shots if panel.is_by_group]),
        },
    )
