"""``headrace compare``: two presets on the same texts, and another threshold; documents near and far from one."""

import json
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from headrace.data_prep.texts import Texts
from headrace.pipeline.command_line.request import newest
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run import storage
from tests.command_line import headrace_here

TEXTS = ["short", "a text of thirty characters or so", "a much longer text " * 10, "another text of middle length here"]
MINE = "filters:\n  - {type: page_length, max_characters: %d}\n"
LINES = "filters:\n  - {type: long_lines, min_lines: 1, min_characters: 20}\n  - {type: stripped_lines}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that keeps all texts, with two presets."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "conf/cleaning").mkdir(parents=True)
    (folder / "conf/cleaning/brief.yaml").write_text(MINE % 100)
    (folder / "conf/cleaning/lines.yaml").write_text(LINES)
    rows = ({"text": text, "url": f"https://a.example/{number}"} for number, text in enumerate(TEXTS))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = headrace_here("run", "source=jsonl", "source.paths=a.jsonl", "cleaning=none", "until=clean")
    assert result.returncode == 0, result.stderr
    return folder


def test_who_keeps_what(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = newest("runs").overrides
    result = headrace_here("compare", "brief", "lines", "--as", "cleaning")
    assert result.returncode == 0, result.stderr
    printed = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert printed[:7] == [
        "texts 4",
        "kept by both 2 (50.0%); 0 with different lines or words",
        "only brief 1 (25.0%)",
        "only lines 1 (25.0%)",
        "kept by none 0 (0.0%)",
        f"brief keeps 3 texts, {sum(len(TEXTS[n]) for n in (0, 1, 3))} characters",
        f"lines keeps 3 texts, {sum(len(TEXTS[n].strip()) for n in (1, 2, 3))} characters",
    ]
    at = printed.index("only brief 1 texts, which lines drops by these rules:")
    assert printed[at + 1] == "rule long_lines 1"
    assert printed[at + 2].endswith("https://a.example/0")
    assert printed[at + 3 : at + 5] == ["value 0", "text short"]
    assert "rule page_length 1" in printed
    assert newest("runs").overrides == before, "the newest run stays the user's"


def test_the_numbers_are_those_of_the_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same artifacts as those of a run with the preset; no samples if none are asked for."""
    monkeypatch.chdir(folder)
    given = ["source=jsonl", "source.paths=a.jsonl"]
    result = headrace_here("compare", "none", "brief", "--as", "cleaning", "--sample", "0", *given)
    assert result.returncode == 0, result.stderr
    assert "sample" not in result.stdout
    again = headrace_here("run", *given, "cleaning=brief", "until=clean")
    assert "done before" in again.stderr


def test_du_keeps_what_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts and both cleanings, until the command ends."""
    monkeypatch.chdir(folder)
    held: list[str] = []

    def show(found: Iterable[Fact]) -> None:
        held.extend(one.stage for one in storage.artifacts(Path("runs")) if one.is_in_use)

    monkeypatch.setattr(terminal, "show", show)
    assert headrace_here("compare", "none", "brief", "--as", "cleaning").returncode == 0
    assert held == ["clean", "clean", "texts"]
    assert not any(one.is_in_use for one in storage.artifacts(Path("runs")))


def test_what_another_version_began_is_not_finished(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (manifest,) = folder.glob("runs/texts/*/manifest.json")
    manifest.rename(tmp_path / "manifest.json")
    monkeypatch.setattr(Texts, "version", Texts.version + 1)
    try:
        result = headrace_here("compare", "none", "brief", "--as", "cleaning")
        assert not manifest.exists()
    finally:
        (tmp_path / "manifest.json").replace(manifest)
    wrong = "headrace: texts: was planned by another version of headrace (different: version); "
    assert result.stderr.splitlines()[-1].startswith(wrong), result.stderr
    assert result.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "breif"], "cleaning: unknown option 'breif'; did you mean 'brief'?"),
        (
            ["none"],
            "command line: compare needs two presets; usage: headrace compare PRESET PRESET --as cleaning",
        ),
        (["none", "brief", "--sample", "x"], "--sample: must be a whole number (got 'x'); correct the value"),
    ],
)
def test_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(folder)
    result = headrace_here("compare", *arguments, "--as", "cleaning")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"headrace: {message}"), result.stderr


def test_unfinished_texts_are_read_only_in_the_folder_of_their_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (texts,) = folder.glob("runs/texts/*/manifest.json")
    kept = texts.rename(tmp_path / "manifest.json")
    monkeypatch.chdir(tmp_path)
    result = headrace_here("compare", "c4", "none", "--as", "cleaning", f"root={folder}/runs")
    kept.rename(texts)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == (
        f"headrace: texts: is not finished ({texts.parent}), and its raw files are named from another folder; "
        f"run the command in that folder: cd {folder}"
    )


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
    printed = lines(headrace_here("compare", RULE, "--as", "threshold", "--at", "20", *overrides))
    assert printed[:3] == [
        f"rule {RULE}",
        "min_words 50: 4 pages were dropped, with these numbers",
        "value 0 % have at most 3",
    ]
    assert printed[-2:] == ["value 100 % have at most 49", "at 20 2 of them are dropped, 2 pass this rule"]


@pytest.mark.parametrize("at", ["60", "50.5"])
def test_a_stricter_threshold_needs_a_run(overrides: list[str], at: str) -> None:
    printed = lines(headrace_here("compare", RULE, "--as", "threshold", "--at", at, *overrides))
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
    assert lines(headrace_here("compare", "language", "--as", "threshold", "--at", "0.5", *given, "until=clean")) == [
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
        (["compare", "word_count", "--as", "threshold"], f"RULE: clean dropped nothing by 'word_count'; known: {RULE}"),
        (["compare", RULE, "--as", "threshold", "--at", "x"], "--at: must be a number (got 'x'); correct the value"),
        (["inspect", "clean", "--extreme", "nearest"], f"--extreme: {NEEDS}; give --rule RULE"),
        (["inspect", "clean", "--seed", "x"], "--seed: must be a whole number (got 'x'); correct the value"),
    ],
)  # fmt: skip
def test_mistakes_with_thresholds(overrides: list[str], arguments: list[str], message: str) -> None:
    result = headrace_here(*arguments, *overrides)
    assert (result.returncode, result.stderr) == (2, f"headrace: {message}\n")
