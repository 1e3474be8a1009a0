"""A filter class of the user's own, from the command line."""

import contextlib
import json
import os
import re
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
from datatrove.data import Document
from pydantic import TypeAdapter

from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.filters.filter import PageFailedError
from headrace.data_prep.filters.guards import refuse_failed_classes
from headrace.data_prep.filters.python_filter import PythonFilter, is_filter
from headrace.pipeline.command_line.request import newest
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.pipeline.core.user_classes import load_class
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
SENTENCE = "Drops pages in which too many words are in capitals."
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
    clean = next(step.folder for step in newest("runs").stages if step.name == "clean")
    documents = [one for path in Artifact(clean).shards("dropped") for one in read_documents(path)]
    return clean, [(one.text, f"{one.metadata['drop']['rule']} {one.metadata['drop']['value']}") for one in documents]


@pytest.mark.slow
def test_a_run_with_a_class_of_ones_own(folder: Path) -> None:
    """In processes of their own; a changed class has another address."""
    result = headrace(*RUN)
    assert result.returncode == 0, result.stderr
    first, found = dropped()
    assert found == [(PAGES[0], "python.TooShouty 0.50")]
    assert SENTENCE in report()
    assert headrace_here(*RUN, "cleaning.filters.TooShouty.settings.max_fraction=0.3").returncode == 0
    assert [text for text, _ in dropped()[1]] == PAGES[:2]
    (folder / "own/filters.py").write_text(OWN.replace("str.isupper", "str.islower"))
    assert headrace_here(*RUN).returncode == 0
    second, found = dropped()
    assert second != first
    assert [text for text, _ in found] == PAGES


def report() -> str:
    """The page of the newest run."""
    (folder,) = (step.folder for step in newest("runs").stages if step.name == "report")
    return (folder / "report.html").read_text()


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


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("raise SystemExit(7)", "SystemExit: 7"),
        ("import millstone", "ModuleNotFoundError: No module named 'millstone'"),
        ("x = (1", "SyntaxError: '(' was never closed"),
    ],
)
def test_an_error_of_the_module_names_file_and_line(folder: Path, line: str, error: str) -> None:
    (folder / "own/filters.py").write_text(f"{OWN}\n{line}\n")
    result = headrace_here(*RUN)
    number = len(OWN.splitlines()) + 2
    message = f"headrace: python.path: own/filters.py, line {number}: {error}; correct the file\n"
    assert (result.returncode, result.stderr.splitlines(keepends=True)[-1]) == (2, message)
    assert not (folder / "runs").exists()


def test_a_page_at_which_the_class_fails_is_dropped(folder: Path) -> None:
    with (folder / "pages.jsonl").open("a") as file:
        file.write(json.dumps({"text": "<>"}) + "\n")
    text = OWN.replace("document.text.split()", "document.text.strip('<>').split()\n        document.text = 'changed'")
    (folder / "own/filters.py").write_text(text)
    assert headrace_here(*RUN).returncode == 0
    line = text.splitlines().index("        fraction = sum(map(str.isupper, words)) / len(words)") + 1
    failed = f"python.TooShouty.failed ZeroDivisionError in filters.py, line {line}"
    assert dropped()[1][1:] == [("<>", failed)]
    found = headrace_here("inspect", "clean", "--rule", "python.TooShouty.failed").stdout
    assert re.search(r"^rule +python\.TooShouty\.failed$", found, re.MULTILINE)
    assert "Drops pages at which own.filters:TooShouty fails." in report()


@pytest.mark.parametrize(("pages", "where"), [(12, "clean task 0"), (9, "clean")])
def test_a_class_that_fails_at_all_pages_ends_the_run(folder: Path, pages: int, where: str) -> None:
    (folder / "pages.jsonl").write_text("".join(json.dumps({"text": f"page {n}"}) + "\n" for n in range(pages)))
    (folder / "own/filters.py").write_text(OWN.replace("len(words)", "len(document.metadata['words'])"))
    result = headrace_here(*RUN)
    assert result.returncode == 1
    found = f"{where}: python.TooShouty.failed at {pages} of {pages} pages: KeyError in filters.py, line 20; "
    assert f"headrace: {found}" in result.stderr
    shown = headrace_here("status").stdout.splitlines()
    assert f"clean failed: {found}" in shown[-1], "with the remedy, also after the tasks were done"
    assert shown[2].split()[:2] == ["clean", "failed"]


def test_the_class_gives_no_warning_of_its_settings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adapter = TypeAdapter(PythonFilter)
        assert adapter.validate_python({"path": "a:B"}, context={"folder": "/tmp"}).folder == "/tmp/"


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"failed:python.A:KeyError": 12, "dropped:python.A.failed": 12}, ""),
        ({"failed:python.A:KeyError": 50, "dropped:python.A.failed": 50}, ""),
        ({"failed:python.A:KeyError": 30, "failed:python.A:OSError": 21}, "python.A.failed at 51 of 100 pages: KeyErr"),
        ({"failed:python.A:KeyError": 11, "dropped:c4.x": 70, "dropped:too_slow": 9}, "python.A.failed at 11 of 21 "),
        ({"failed:python.A:KeyError": 10, "dropped:c4.x": 80}, ""),
        ({"failed:python.A:KeyError": 11, "dropped:pii": 80}, ""),
        ({"failed:datatrove.B:KeyError": 6, "dropped:python.A": 90}, "datatrove.B.failed at 6 of 10 pages"),
    ],
)
def test_the_failed_pages_of_all_tasks_together_end_a_stage(counts: dict[str, int], found: str) -> None:
    """A class is judged by the pages that no earlier filter has dropped. The filter pii is before and after it."""
    sums = Counter({"documents_in": 100, **counts})
    with pytest.raises(TaskError, match=f"^clean: {found}") if found else contextlib.nullcontext():
        refuse_failed_classes(sums, ["c4", "pii", "python.A", "datatrove.B", "pii"], "clean")


@pytest.mark.parametrize(
    ("result", "end"),
    [
        ("'shouty'", "own.filters:TooShouty: judge returned 'shouty'; return None or Drop(rule, text)"),
        ("True", "own.filters:TooShouty: judge returned True; return None or Drop(rule, text)"),
        (
            "Drop(7, 'x')",
            "own.filters:TooShouty: judge returned Drop(rule=7, value='x'); return None or Drop(rule, text)",
        ),
        (
            "Drop('failed', 'x')",
            "own.filters:TooShouty: judge returned the rule 'failed'; "
            "give it another name: python.TooShouty.failed means that the class fails at the page",
        ),
        ("Drop(self.type, 0.5)", "python.TooShouty 0.5"),
        ("Drop('too_shouty.part', '')", "python.TooShouty.part "),
        ("Drop('checksum.failed', '')", "python.TooShouty.checksum.failed "),
        ("Drop('too_shouty_part', '')", "python.TooShouty.too_shouty_part "),
        ("[][0]", "python.TooShouty.failed IndexError in filters.py, line 19"),
        ("unbound(document)", "python.TooShouty.failed UnboundLocalError in filters.py, line 26"),
    ],
)
def test_results_of_a_class(folder: Path, result: str, end: str) -> None:
    start, _, _ = OWN.partition("        words =")
    unbound = "\n\ndef unbound(document):\n    if not document.text:\n        x = 1\n    return x\n"
    (folder / "own/filters.py").write_text(f"{start}        return {result}\n\n{unbound}")
    rule = PythonFilter(path=OWN_PATH)
    try:
        drop = rule.judge(Document(text="page", id="0"))
        assert drop is not None
        assert isinstance(drop.value, str)
        found = f"{drop.rule} {drop.value}"
    except PageFailedError as failure:
        found = f"{failure.drop.rule} {failure.drop.value}"
    except ConfigError as error:
        found = str(error)
    assert found == end


def test_a_class_without_a_tag_names_its_rules_only(folder: Path) -> None:
    tag = '    type: Literal["too_shouty"] = "too_shouty"\n'
    (folder / "own/filters.py").write_text(OWN.replace(tag, "").replace("self.type", "'capitals'"))
    drop = PythonFilter(path=OWN_PATH).judge(Document(text="BUY NOW", id="0"))
    assert drop is not None
    assert drop.rule == "python.TooShouty.capitals"


def test_questions_run_no_code_and_need_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, after the file has changed and when it is gone. run.json may be that of another user."""
    preset = PRESET.replace("}}", "}, files: [own/names.txt]}")
    (folder / "conf/cleaning/mine.yaml").write_text(preset)
    (folder / "own/names.txt").write_text("Ann\n")
    assert headrace_here(*RUN).returncode == 0
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    for change in (lambda file: file.write_text("raise SystemExit(7)\n"), Path.unlink):
        (rule,) = newest("../runs").config.cleaning.filters
        assert isinstance(rule, PythonFilter)
        assert rule.module == folder / "own/filters.py"
        assert [file.name for file in rule.raw_files()] == ["filters.py", "names.txt"]
        change(folder / "own/filters.py")
        for question in (["why", "pages.jsonl:0"], ["inspect", "clean"], ["status"]):
            result = headrace_here(*question, "root=../runs")
            assert result.returncode == 0, result.stderr
        assert explained("python.TooShouty", newest("../runs").config.cleaning.filters).sentence == SENTENCE


def test_two_classes_in_one_preset_have_their_own_explanations(folder: Path) -> None:
    second = OWN.replace("TooShouty", "TooShort").replace("in which too many words are in capitals", "that are short")
    (folder / "own/filters.py").write_text(OWN + second.partition("\n\n\n")[2])
    entries = [
        "filters:", "  - {type: datatrove, path: datatrove.pipeline.filters.RegexFilter, arguments: {regex_exp: BUY}}",
        "  - {type: datatrove, path: datatrove.pipeline.filters.C4ParagraphFilter}",
        "  - {type: python, path: own.filters:TooShouty}", "  - {type: python, path: own.filters:TooShort}",
    ]  # fmt: skip
    (folder / "conf/cleaning/mine.yaml").write_text("\n".join(entries))
    filters = decoded(compose(RUN[1:])).cleaning.filters
    assert explained("python.TooShort", filters).sentence == "Drops pages that are short."
    assert explained("python.TooShouty.part", filters).sentence == SENTENCE
    for name in ("RegexFilter", "C4ParagraphFilter"):
        sentence = explained(f"datatrove.{name}", filters).sentence
        assert sentence == f"Drops the pages that datatrove.pipeline.filters.{name} drops."


def test_files_of_a_class_belong_to_the_address(folder: Path) -> None:
    rule = PythonFilter(path="own.filters:TooShouty", files=("names.txt",))
    with pytest.raises(ConfigError, match=r"python\.files: there is no file names\.txt"):
        rule.raw_files()
    (folder / "names.txt").write_text("Ann\n")
    assert [file.name for file in rule.raw_files()] == ["filters.py", "names.txt"]


def test_a_changed_file_is_loaded_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it has the same size and time as the file before, with which Python's cache would be taken."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = Path("own/filters.py")
    os.utime(file, (10**9, 10**9))
    before = load_class("python.path", file, "TooShouty", "filter", is_filter)
    file.write_text(OWN.replace("0.5", "0.6"))
    os.utime(file, (10**9, 10**9))
    after = load_class("python.path", file, "TooShouty", "filter", is_filter)
    assert (before().max_fraction, after().max_fraction) == (0.5, 0.6)
    assert "own" not in sys.modules
