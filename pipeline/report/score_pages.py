"""The pages of ``--page FILE``. Each is a single HTML file, as the report is (html_page.py).

headrace evaluate    the scores of a model, as the report of a run shows them
headrace compare     settings that differ, loss curves, differences, the table
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.report import html_page
from headrace.pipeline.report.drawing import Figure, losses
from headrace.pipeline.report.score_figures import Interval, forest, shot_figures
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.report.training_section import series
from headrace.train.evaluation.score_rows import BenchmarkScores

LABELS = 3
"""The columns before the numbers of a row: the benchmark, the shots and the metric."""
SHOTS = 1
"""The index of the column with the number of worked examples."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """The figures of the page; None where there is nothing to draw."""

    losses: Figure | None
    shares: Figure | None
    others: Figure | None
    few_shot: Figure | None
    few_shot_groups: list[Figure]

    @classmethod
    def of(
        cls,
        runs: Mapping[str, Sequence[BenchmarkScores]],
        logs: Mapping[str, Sequence[dict[str, Any]]],
        shares: Sequence[Interval],
        others: Sequence[Interval],
    ) -> "Figures":
        """Draws the figures of ``runs`` (name → scores); the others are compared with the first.

        Args:
            runs: at least two.
            logs: name → the rows that the training logged.
            shares: differences of shares of right answers, in percentage points.
            others: differences in the units of their metrics.
        """
        first, *_ = runs
        few_shot, few_shot_groups = shot_figures(runs)
        return cls(
            losses=losses({name: _loss(rows) for name, rows in logs.items() if rows}),
            shares=forest("shares", shares, f"percentage points more than {first}"),
            others=forest("others", others, f"more than {first}, in the units of the table"),
            few_shot=few_shot,
            few_shot_groups=few_shot_groups,
        )


def _loss(rows: Sequence[dict[str, Any]]) -> Sequence[tuple[float, float]]:
    """Returns the validation loss over the steps; the training loss where nothing was validated."""
    return series(rows, "validation_loss") or series(rows, "loss")


@dataclasses.dataclass(frozen=True)
class Differences:
    """The lines of the tables of what differs: a name, then the value of each run."""

    settings: Sequence[Sequence[str]]
    stages: Sequence[Sequence[str]]
    """The stages at which runs part, with the addresses."""
    documents: Sequence[Sequence[str]]
    """The steps of the funnel, and the rules that dropped other numbers."""
    measures: Sequence[Sequence[str]]
    """The sizes of the models where they differ, and what was measured in training where a run has no scores."""


@dataclasses.dataclass(frozen=True)
class ScoreTables:
    """The tables below the figures, each with the text below it."""

    scores: Sequence[Sequence[str]]
    """The header, then the rows. The column of shots is left out when no row has any."""
    note: str
    evidence: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]]
    """Tables (header, rows) of what a difference needs to be found, and of what is noise; may be none."""
    evidence_note: str


def render_comparison(names: Sequence[str], differences: Differences, tables: ScoreTables, figures: Figures) -> str:
    """Returns the page of the runs ``names``.

    Args:
        names: the first is the one that the others are compared with.
        differences: the tables above the figures; an empty one is left out.
        tables: the scores and what they rest on.
        figures: as ``Figures.of`` draws them.
    """
    hidden = SHOTS if all(row[SHOTS] == "0" for row in tables.scores[1:]) else None
    head, *body = ([cell for number, cell in enumerate(row) if number != hidden] for row in tables.scores)
    values = {"runs": names, "head": head, "body": body, **vars(tables), **vars(differences)}
    labels = len(head) - len(tables.scores[0]) + LABELS
    return html_page.render("comparison.html", values | {"labels": labels} | vars(figures))


def render_scores(folder: str, address: str, scores: ScoreTable) -> str:
    """Returns the page of the model in ``folder``, whose ``scores`` are the artifact with this ``address``."""
    values = {"model": Path(folder).resolve().name, "folder": folder, "address": address, "scores": scores}
    return html_page.render("model_scores.html", values)
