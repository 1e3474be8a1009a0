"""No page scrolls sideways on a screen of 400 px: the report, a comparison, the scores of a model."""

import html
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.report import score_pages
from headrace.pipeline.report.score_figures import Interval
from headrace.pipeline.report.score_table import ScoreTable
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric
from tests.pipeline.report.test_report import agreement, artifact, browse, held_out, page

__all__ = ["browse", "page"]

WIDTH = 400
RUNS = ("gpt2_small_fineweb_2026_11_24_seed_1", "models--HuggingFaceTB--SmolLM2-135M-Instruct")
LONG_PATH = f"/data/models/{RUNS[1]}/snapshots/12fd25f77366fa6b3b4b768ec3050bf629380bac"
MEASURE = """<pre id="found"></pre><script>addEventListener("load", () => {
    const pages = [...document.querySelectorAll("iframe")].map(frame => [frame.id, frame.contentDocument]);
    for (const [, page] of pages) for (const details of page.querySelectorAll("details")) details.open = true;
    const hides = part => part && (getComputedStyle(part).overflowX !== "visible" || hides(part.parentElement));
    setTimeout(() => {
        const found = {};
        for (const [name, page] of pages) {
            const wide = [...page.body.querySelectorAll("*")].filter(
                part => part.clientWidth && part.scrollWidth > part.clientWidth && !hides(part));
            const named = wide.map(part => `${part.tagName}: ${part.textContent.trim().slice(0, 40)}`);
            const gaps = [...page.querySelectorAll(".scroll > img")].map(
                picture => picture.parentElement.clientHeight - picture.offsetHeight);
            found[name] = [page.documentElement.clientWidth, page.documentElement.scrollWidth, named, gaps];
        }
        document.getElementById("found").textContent = JSON.stringify(found);
    }, 5000);
});</script>""".replace("WIDTH", str(WIDTH))
"""Chromium has no window of 400 px, so the pages are in frames. The figures are drawn when the frames are measured."""


def comparison() -> str:
    """The page of ``headrace compare`` for two runs with long names."""
    metric = Metric("acc", 0.6, 0.1, (0.5, 0.7), 0.25, 9)
    entries = [BenchmarkScores(f"quiz_{shots}shot", shots=shots, metrics=(metric,)) for shots in (2, 16)]
    differences = [Interval("held_out_sentences acc", RUNS[1], 4.0, -1.0, 9.0, "")]
    figures = score_pages.Figures.of(dict.fromkeys(RUNS, entries), {}, differences, differences)
    head = ["benchmark", "shots", "metric", "items", *RUNS, f"− {RUNS[0]}", "p"]
    cells = ["44.80 [40.59, 49.08]", "100.00 [96.30, 100.00]", "+55.20 [+49.00, +61.20]", "5.6e-17 ***"]
    rows = [["held_out_sentences_longest_first", shots, "acc_norm %", "1,838", *cells] for shots in ("0", "16")]
    settings = [["training.initial_weights", LONG_PATH, "–"], ["source.paths", *itertools.repeat('["a/*.gz"]', 2)]]
    stages = [["texts", "1f0c3a5b7d9e", "77aa3c4d5e6f"]]
    documents = [["clean: dropped by gopher_repetition.duplicate_ngrams_10", "55,303", "–"]]
    measures = [["parameters", "1,838,000", "135,000,000"]]
    lines = score_pages.Differences(settings, stages, documents, measures)
    needed = ["not significant", "metric", "runs", "difference", "items", "items needed"]
    evidence = [(needed, [["arithmetic", "acc %", f"{RUNS[1]} − {RUNS[0]}", "+0.12", "2,000", "1,234,567"]])]
    tables = score_pages.ScoreTables([head, *rows], "In [brackets]: 95 % intervals.", evidence, "Items needed: …")
    return score_pages.render_comparison(RUNS, lines, tables, figures)


def scores_of_a_folder(root: Path) -> str:
    """The page of ``headrace evaluate`` for a folder with a long path."""

    def fill(out):
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [agreement(), held_out()]}))
        return {}

    return score_pages.render_scores(
        LONG_PATH, "0123456789ab", ScoreTable.of(artifact(root, "folder_scores", {}, fill))
    )


@pytest.mark.slow
def test_no_page_scrolls_sideways_at_400_px(
    page: Path, tmp_path: Path, browse: Callable[..., tuple[str, list[str]]]
) -> None:
    pages = {"report": page.read_text(), "compare": comparison(), "evaluate": scores_of_a_folder(tmp_path)}
    frames = (
        f'<iframe id="{name}" style="width: {WIDTH}px; height: 900px; border: 0" srcdoc="{html.escape(text)}"></iframe>'
        for name, text in pages.items()
    )
    narrow = tmp_path / "narrow.html"
    narrow.write_text(f"<!doctype html><meta charset=utf-8>{''.join(frames)}{MEASURE}")
    tree, console = browse(narrow, "--dump-dom")
    assert console == []
    found = json.loads(html.unescape(re.findall(r'<pre id="found">(.*?)</pre>', tree, re.DOTALL)[0]))
    assert found.pop("report") == [WIDTH, WIDTH, [], [0]], "below the picture of a row is no gap"
    assert found == {name: [WIDTH, WIDTH, [], []] for name in ("compare", "evaluate")}
