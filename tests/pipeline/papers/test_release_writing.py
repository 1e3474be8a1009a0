"""The summary of training content, by what the EU requires of it."""

import re

import pytest

from headrace.pipeline.papers.release_folder import Release
from headrace.pipeline.papers.training_content import training_content
from headrace.pipeline.run.planner import save
from tests.command_line import headrace_here
from tests.small_runs import overrides, page, run_with, trained, training_of

pytestmark = pytest.mark.slow

PAGES = [
    {"robots": "noai, noarchive", "licence": "https://creativecommons.org/licenses/by/4.0/"},
    {"robots": "noarchive", "tdm_reservation": "0"},
    {"tdm_reservation": "1"},
    {},
]
"""What pages state of themselves, in turn."""


def html_page(number: int) -> str:
    """A page with some sentences and the statements of its kind."""
    stated = PAGES[number % len(PAGES)]
    names = {"robots": "robots", "licence": "license", "tdm_reservation": "tdm-reservation"}
    tags = "".join(f'<meta name="{names[fact]}" content="{value}">' for fact, value in stated.items())
    return f"<html><head><title>Mill {number}</title>{tags}</head><body><p>{page(number)}</p></body></html>"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The release of a model that learned from pages with statements, of which those with noai or a reservation were
    dropped."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "site").mkdir()
    for number in range(40):
        (folder / "site" / f"{number:02d}.html").write_text(html_page(number))
    own = [word for word in overrides(folder, "none") if not word.startswith("source")]
    words = ["source=html", f"source.paths=[{folder}/site]", *own, "cleaning.filters=[{type: robots}]"]
    run = training_of(run_with(folder, words), "training.steps=2", "name=mill")
    save(run.config, run.values, run.stages, run.overrides)
    trained(run)
    result = headrace_here(
        "release", "mill", "--to", f"{folder}/release", "--provider", "Mill Lab", f"root={folder}/runs"
    )
    assert result.returncode == 0, result.stderr
    return Release.open(folder / "release", folder / "runs")


def rows(text: str, heading: str) -> dict[str, int]:
    """The rows of the table below the line ``heading``, the last column as a number."""
    table = text.partition(heading)[2].split("\n\n")[1]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if re.search(r"\d \|$", line)]
    return {" ".join(names): int(number.replace(",", "")) for *names, number in cells}


def test_the_summary_counts_what_pages_state_and_the_opt_outs(release: Release) -> None:
    text = training_content(release)
    assert "### 1.1 Provider\n\nMill Lab\n" in text
    assert "### 2.3 Data crawled and scraped from online sources\n\nFiles of the source `html`: 40," in text
    assert rows(text, "Opt-outs and lists that were applied") == {"robots": 20}
    assert rows(text, "documents that remain state of themselves") == {
        "robots noarchive": 10,
        "robots nothing stated": 10,
        "tdm_reservation 0": 10,
        "tdm_reservation nothing stated": 10,
        "tdm_policy nothing stated": 20,
        "licence nothing stated": 20,
    }
