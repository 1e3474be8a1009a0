"""thresholds, and inspect by distance from a threshold, on a run that drops pages by their number of words."""

import json
import random
import shlex
import subprocess
from pathlib import Path

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


@pytest.mark.parametrize("at", ["60", "50.5"])
def test_a_stricter_threshold_needs_a_run(overrides: list[str], at: str) -> None:
    printed = lines(headrace_here("thresholds", RULE, "--at", at, *overrides))
    assert "min_words 50: 4 pages were dropped, with these numbers" in printed
    reason = "is stricter than min_words=50 and max_words=100000, and no number is stored of pages that passed"
    of_rule = "cleaning.filters.gopher_quality.rules.word_count"
    kept = shlex.join(["headrace", *(override for override in overrides if override != "until=clean")])
    assert printed[-3:] == [
        f"at {at} {reason}: it needs a run",
        f"command {kept} {of_rule}.min_words={at} until=clean",
        f"command {kept} {of_rule}.max_words={at} until=clean",
    ]
    lower, higher = (headrace_here("config", *overrides, f"{of_rule}.{name}=60") for name in ("min_words", "max_words"))
    assert "min_words: 60" in lower.stdout
    assert "max_words: 60" in higher.stdout


def test_languages_have_no_number(tmp_path: Path) -> None:
    german = "Die alte Mühle steht am Ufer des Flusses und mahlt seit vielen Jahren das Korn der Bauern aus dem Dorf."
    texts = [SENTENCE * 3, SENTENCE * 2, german]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    given = ["source=jsonl", f"source.paths={tmp_path}/a.jsonl", "cleaning=unfiltered", f"root={tmp_path}/runs"]
    done = headrace_here("run", *given, "until=clean")
    assert done.returncode == 0, done.stderr
    assert lines(headrace_here("thresholds", "language", "--at", "0.5", *given, "until=clean")) == [
        "rule language",
        "other languages 1 pages were dropped for their language, at any number",
        "min_score 0.99: no page was dropped for its number",
        "at 0.5 of 2 pages that were kept, 0 are dropped",
    ]


@pytest.mark.parametrize(("extreme", "numbers"), [("nearest", ["49", "45"]), ("farthest", ["3", "12"])])
def test_documents_near_and_far(overrides: list[str], extreme: str, numbers: list[str]) -> None:
    shown = lines(headrace_here("inspect", "clean", "--rule", RULE, "--extreme", extreme, "--sample", "2", *overrides))
    assert [line.split()[1] for line in shown if line.startswith("value ")] == numbers
    way = "nearest to" if extreme == "nearest" else "farthest from"
    assert shown[0] == f"sample 1 of 2, dropped ({way} min_words=50, max_words=100000)"
    assert not any(line.startswith("sample") and "kept" in line for line in shown)


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


def test_values_of_each_language_of_a_run(tmp_path: Path, overrides: list[str]) -> None:
    """Pages in Swahili pass the estimated rules of a second run, in as large a share as those in English."""
    text = "na ya wa kwa ni katika watu mto maji nyumba kubwa siku hii leo kesho jana mji wetu sana hapa kama ili"
    swahili = text.split()
    english = (SENTENCE + "it was in a day of the year with all that came.").split()
    source, rows = random.Random(0), []
    for words in (english, swahili):
        for number in range(120):
            text = ".\n".join(" ".join(source.choices(words, k=12)) for _ in range(2 + number // 15))
            rows.append(json.dumps({"text": f"{text}."}) + "\n")
    (tmp_path / "a.jsonl").write_text("".join(rows))
    given = ["source=jsonl", f"source.paths={tmp_path}/a.jsonl", "cleaning=multilingual", "until=clean"]
    given += [f"root={tmp_path}/runs", "cleaning.filters.language_fasttext.min_score=0", "~cleaning.filters.pii"]
    given += ["cleaning.filters.by_language.filters.gopher_repetition.rules=[]"]
    assert headrace_here("run", *given).returncode == 0
    target = tmp_path / "values.json"
    printed = lines(headrace_here("thresholds", "by_language", "--to", str(target), *given))
    assert printed[-1] == f"written {target}"
    values = json.loads(target.read_text(encoding="utf-8"))
    assert [line.partition(" ")[0] for line in printed] == ["sw_Latn", "written"]
    assert {"en_Latn", "de_Latn", "km_Khmr"} < values.keys()
    assert set(values["sw_Latn"]["rules"]["stop_words"]["words"]) <= set(swahili)
    given += [f"cleaning.filters.by_language.path={target}"]
    printed = lines(headrace_here("run", *given))
    rates = {}
    for folder in (tmp_path / "runs" / "clean").glob("*/manifest.json"):
        counts = json.loads(folder.read_text(encoding="utf-8"))["counts"]
        rates[folder] = [counts.get(f"routed:{name}:kept", 0) for name in ("en_Latn", "sw_Latn")]
    assert len(rates) == 2
    assert any(60 < kept[0] < 120 and abs(kept[0] - kept[1]) <= 8 for kept in rates.values()), rates


def test_values_need_english_and_the_filter(overrides: list[str], tmp_path: Path) -> None:
    target = f"{tmp_path}/values.json"
    result = headrace_here("thresholds", RULE, "--to", target, *overrides)
    assert f"--to: is for by_language (got '{RULE}'); give the rule by_language" in result.stderr
    result = headrace_here("thresholds", "by_language", "--to", target, *overrides)
    assert "RULE: the run has no filter by_language; give a run with cleaning=multilingual" in result.stderr
    result = headrace_here("thresholds", "by_language", "--to", str(tmp_path), *overrides)
    assert (result.returncode, result.stderr) == (2, f"headrace: --to: '{tmp_path}' is a folder; name another file\n")
