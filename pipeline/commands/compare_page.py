"""The page of ``headrace compare --page FILE``: the table, differences as forest plots, curves over worked examples.

A single HTML file without other files, as the report is (pipeline/report/html_page.py).
"""

from collections.abc import Mapping, Sequence

from headrace.pipeline.report import html_page
from headrace.pipeline.report.few_shot import few_shot_figure, group_figures, panels_of
from headrace.pipeline.report.forest import Interval, forest
from headrace.train.evaluation.score_rows import BenchmarkScores


def render(
    runs: Mapping[str, Sequence[BenchmarkScores]],
    table: Sequence[Sequence[str]],
    note: str,
    shares: Sequence[Interval],
    others: Sequence[Interval],
) -> str:
    """Returns the page of ``runs`` (name → scores); the others are compared with the first.

    Args:
        runs: at least two.
        table: the header, then the rows.
        note: the text below the table.
        shares: differences of shares of right answers, in percentage points.
        others: differences in the units of their metrics.
    """
    first, *_ = runs
    by_shots = panels_of(runs)
    return html_page.render(
        "comparison.html",
        {
            "runs": list(runs),
            "head": table[0],
            "body": table[1:],
            "note": note,
            "shares": forest("shares", shares, f"percentage points more than {first}"),
            "others": forest("others", others, f"more than {first}, in the units of the table"),
            "few_shot": few_shot_figure([panel for panel in by_shots if not panel.is_by_group]),
            "few_shot_groups": group_figures([panel for panel in by_shots if panel.is_by_group]),
        },
    )
