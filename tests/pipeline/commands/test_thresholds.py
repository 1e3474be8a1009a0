"""thresholds, and inspect by distance from a threshold, on a run that drops pages by their number of words."""

import json
import subprocess

import pytest

from tests.command_line import headrace_here

SENTENCE = "the mill of the town and the wheel have turned to the river that we know "
WORDS = (3, 12, 45, 49, 60, 70)
NEEDS = "needs the rule whose threshold is meant"
RULE = "gopher_quality.word_count"


@pytest.fixture(scope="module")
def overrides(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The settings of a finished run."""
    folder = tmp_path_factory.mktemp("thresholds")
    texts = (" ".join((SENTENCE * 6).split()[:number]) for number in WORDS)
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    given = ["source=jsonl", f"source.paths={folder}/a.jsonl", "cleaning=gopher", "~cleaning.filters.gopher_repetition"]
    given += ["until=clean", f"root={folder}/runs"]
    result = headrace_here("run", *given)
    assert result.returncode == 0, result.stderr
    return given


def lines(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode == 0, result.stderr
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_stored_numbers(overrides: list[str]) -> None:
    printed = lines(headrace_here("thresholds", RULE, "--at", "20", *overrides))
    assert printed[:3] == [
        f"rule {RULE}",
        "min_words 50: 4 pages were dropped, with these numbers",
        "value 0 % have at most 3",
    ]
    assert printed[-2:] == ["value 100 % have at most 49", "at 20 2 of them are dropped, 2 pass this rule"]


@pytest.mark.parametrize(("extreme", "numbers"), [("nearest", ["49", "45"]), ("farthest", ["3", "12"])])
def test_documents_near_and_far(overrides: list[str], extreme: str, numbers: list[str]) -> None:
    shown = lines(headrace_here("inspect", "clean", "--rule", RULE, "--extreme", extreme, "--sample", "2", *overrides))
    assert [line.split()[1] for line in shown if line.startswith("value ")] == numbers
    way = "nearest to" if extreme == "nearest" else "farthest from"
    assert shown[0] == f"dropped 1 of 2 ({way} min_words=50, max_words=100000)"
    assert not any(line.startswith("kept") for line in shown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["thresholds", "word_count"], f"RULE: clean dropped nothing by 'word_count'; known: {RULE}"),
        (["thresholds", RULE, "--at", "x"], "--at: must be a number (got 'x'); correct the value"),
        (["inspect", "clean", "--extreme", "nearest"], f"--extreme: {NEEDS}; give --rule RULE"),
        (["inspect", "clean", "--seed", "x"], "--seed: must be a whole number (got 'x'); correct the value"),
    ],
)  # fmt: skip
def test_mistakes(overrides: list[str], arguments: list[str], message: str) -> None:
    result = headrace_here(*arguments, *overrides)
    assert (result.returncode, result.stderr) == (2, f"headrace: {message}\n")
