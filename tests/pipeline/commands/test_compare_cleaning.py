"""compare-cleaning: two presets on the same texts."""

import json
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
    result = headrace_here("compare-cleaning", "brief", "lines")
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
    result = headrace_here("compare-cleaning", "none", "brief", "--sample", "0", *given)
    assert result.returncode == 0, result.stderr
    assert "sample" not in result.stdout
    again = headrace_here("run", *given, "cleaning=brief", "until=clean")
    assert "done before" in again.stderr


def test_gc_keeps_what_is_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts and both cleanings, until the command ends."""
    monkeypatch.chdir(folder)
    held: list[str] = []

    def show(found: Iterable[Fact]) -> None:
        held.extend(one.stage for one in storage.artifacts(Path("runs")) if one.is_in_use)

    monkeypatch.setattr(terminal, "show", show)
    assert headrace_here("compare-cleaning", "none", "brief").returncode == 0
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
        result = headrace_here("compare-cleaning", "none", "brief")
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
            "command line: compare-cleaning needs two presets; usage: headrace compare-cleaning PRESET",
        ),
        (["none", "brief", "--sample", "x"], "--sample: must be a whole number (got 'x'); correct the value"),
    ],
)
def test_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(folder)
    result = headrace_here("compare-cleaning", *arguments)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"headrace: {message}"), result.stderr


def test_unfinished_texts_are_read_only_in_the_folder_of_their_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (texts,) = folder.glob("runs/texts/*/manifest.json")
    kept = texts.rename(tmp_path / "manifest.json")
    monkeypatch.chdir(tmp_path)
    result = headrace_here("compare-cleaning", "c4", "none", f"root={folder}/runs")
    kept.rename(texts)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == (
        f"headrace: texts: is not finished ({texts.parent}), and its raw files are named from another folder; "
        f"run the command in that folder: cd {folder}"
    )
