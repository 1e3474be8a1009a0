"""The page of ``headrace evaluate --page FILE``: the scores of a model, as the report of a run shows them."""

from pathlib import Path

from headrace.pipeline.report import html_page, shot_gains
from headrace.pipeline.report.score_table import ScoreTable, columns


def render(folder: str, address: str, scores: ScoreTable) -> str:
    """Returns the page of the model in ``folder``, whose ``scores`` are the artifact with this ``address``."""
    values = {"model": Path(folder).resolve().name, "folder": folder, "address": address, "scores": scores}
    return html_page.render("model_scores.html", values | {"columns": columns, "gain_note": shot_gains.NOTE})
