"""A filter class of the user's own, from the command line."""

import json
import sys
from pathlib import Path

import pytest

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.python_filter import PythonFilter, load_class
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.run.opening import newest
from tests.command_line import headrace, headrace_here

OWN = '''
from __future__ import annotations

from typing import Literal

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.pipeline.core.settings import Fraction


@filter_settings
class TooShouty(Filter):
    """Drops pages in which too many words are in capitals."""

    type: Literal["too_shouty"] = "too_shouty"
    max_fraction: Fraction = 0.5

    def judge(self, document):
        words = document.text.split()
        fraction = sum(map(str.isupper, words)) / len(words)
        return Drop(self.type, f"{fraction:.2f}") if fraction > self.max_fraction else None
'''
PRESET = "filters:\n  - {type: python, path: own.filters:TooShouty, settings: {max_fraction: 0.4}}\n"
PAGES = ["BUY NOW or never", "BUY the mill", "The quiet page"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with own/filters.py, a preset that names its class, and pages."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"own/filters.py": OWN, "conf/cleaning/mine.yaml": PRESET}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in PAGES))
    return tmp_path


RUN = ["run", "source=jsonl", "source.paths=pages.jsonl", "cleaning=mine", "until=clean"]


def dropped() -> tuple[Path, list[tuple[str, str]]]:
    """The folder of the newest run's clean, and what was dropped, with the rule."""
    clean = next(step.folder for step in newest("runs").steps if step.name == "clean")
    documents = [one for path in Artifact(clean).shards("dropped") for one in read_documents(path)]
    return clean, [(one.text, f"{one.metadata['drop']['rule']} {one.metadata['drop']['value']}") for one in documents]


def test_a_run_with_a_class_of_ones_own(folder: Path) -> None:
    """In processes of their own; a changed class has another address."""
    result = headrace(*RUN)
    assert result.returncode == 0, result.stderr
    first, found = dropped()
    assert found == [(PAGES[0], "python.TooShouty 0.50")]
    assert headrace_here(*RUN, "cleaning.filters.TooShouty.settings.max_fraction=0.3").returncode == 0
    assert [text for text, _ in dropped()[1]] == PAGES[:2]
    (folder / "own/filters.py").write_text(OWN.replace("str.isupper", "str.islower"))
    assert headrace_here(*RUN).returncode == 0
    second, found = dropped()
    assert second != first
    assert [text for text, _ in found] == PAGES


OWN_PATH = "own.filters:TooShouty"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_fraction: 0.4", "max_fractoin: 0.4", f"{OWN_PATH} max_fractoin: unknown key 'max_fractoin'; did you"),
        ("max_fraction: 0.4", "max_fraction: 4", f"{OWN_PATH} max_fraction: must be at most 1 (got 4); correct"),
        ("TooShouty", "TooShoutty", "python.path: own/filters.py has no filter 'TooShoutty'; did you mean"),
        (
            "own.filters",
            "own.flters",
            "python.path: 'own.flters:TooShouty' names no class: there is no file own/",
        ),
        ("own.filters:", "", "python.path: 'TooShouty' names no class: there is no file .py here; give <module>"),
    ],
)
def test_mistakes(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "conf/cleaning/mine.yaml").write_text(PRESET.replace(old, new))
    result = headrace_here(*RUN)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(f"headrace: {message}"), result.stderr
    assert not (folder / "runs").exists()


def test_decoding_runs_no_code(folder: Path) -> None:
    """run.json may be that of another user."""
    (folder / "own/filters.py").write_text("raise SystemExit(7)\n")
    entry = {"type": "python", "path": "own.filters:TooShouty"}
    (rule,) = decode(Cleaning, {"filters": [entry]}).filters
    assert isinstance(rule, PythonFilter)
    assert len(rule.raw_files()) == 1
    with pytest.raises(SystemExit):
        rule.check()


def test_files_of_a_class_belong_to_the_address(folder: Path) -> None:
    rule = PythonFilter(path="own.filters:TooShouty", files=("names.txt",))
    with pytest.raises(ConfigError, match=r"python\.files: there is no file names\.txt"):
        rule.raw_files()
    (folder / "names.txt").write_text("Ann\n")
    assert [file.name for file in rule.raw_files()] == ["filters.py", "names.txt"]


def test_a_changed_file_is_loaded_again(folder: Path) -> None:
    before = load_class("own.filters:TooShouty")
    (folder / "own/filters.py").write_text(OWN.replace("0.5", "0.6"))
    after = load_class("own.filters:TooShouty")
    assert (before().max_fraction, after().max_fraction) == (0.5, 0.6)
    assert "own" not in sys.modules
