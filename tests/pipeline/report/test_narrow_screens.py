"""No page scrolls sideways on a screen of 400 px: the report, a comparison, the scores of a model."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.commands.evaluate import scores_page
from headrace.pipeline.experiments.comparison import Contestant, RunComparison
from headrace.pipeline.report import html_page
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
            found[name] = [page.documentElement.clientWidth, page.documentElement.scrollWidth, named];
        }
        document.getElementById("found").textContent = JSON.stringify(found);
    }, 5000);
});</script>""".replace("WIDTH", str(WIDTH))
"""Chromium has no window of 400 px, so the pages are in frames. The figures are drawn when the frames are measured."""


def comparison() -> str:
    """The page of ``headrace compare`` for two runs with long names."""
    metric = Metric("acc", 0.6, 0.1, (0.5, 0.7), 0.25, 9)
    benchmarks = [BenchmarkScores(f"held_out_sentences_{n}shot", shots=n, metrics=(metric,)) for n in (2, 16)]
    by_name = {scores.name: scores for scores in benchmarks}
    settings = [{"training": {"initial_weights": path}, "source": {"paths": ["a/*.gz"]}} for path in (LONG_PATH, None)]
    addresses = [{"texts": address} for address in ("1f0c3a5b7d9e", "77aa3c4d5e6f")]
    runs = [
        Contestant(name, None, None, by_name, of_run, addresses=of_stages)
        for name, of_run, of_stages in zip(RUNS, settings, addresses, strict=True)
    ]
    outcomes = [({"acc": float(n % 2)}, {"acc": float(n % 3 > 0)}) for n in range(12)]
    of_runs = [{(str(n), ""): pair[side] for n, pair in enumerate(outcomes)} for side in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Contestant, "outcomes", lambda run, benchmark: of_runs[RUNS.index(run.name)])
        return html_page.render("findings.html", page_of(RunComparison(runs)))


def page_of(comparison: RunComparison) -> dict[str, object]:
    return comparison.results().page(comparison.figures())


def scores_of_a_folder(root: Path) -> str:
    """The page of ``headrace evaluate`` for a folder with a long path."""

    def fill(out):
        with out.file("scores.json") as path:
            path.write_text(json.dumps({"benchmarks": [agreement(), held_out()]}))
        return {}

    return scores_page(LONG_PATH, "0123456789ab", ScoreTable.of(artifact(root, "folder_scores", {}, fill)))


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
    assert found == {name: [WIDTH, WIDTH, []] for name in pages}
