"""The same files by other paths, on the command line: the same ids and addresses, and finished stages are found."""

import json
import re
import shutil
from pathlib import Path

import pytest

from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from tests.command_line import headrace_here
from tests.small_runs import pages

SETTINGS = ("source=jsonl", "cleaning=none", "dedup.buckets=1", "source.task_bytes=1", "until=clean")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name holds wildcard characters, with two files of one name and a finished run over them."""
    home = tmp_path_factory.mktemp("home") / "a[1]"
    for year, first_seed in (("2020", 0), ("2021", 50)):
        (home / "crawl" / year).mkdir(parents=True)
        rows = pages(first_seed, f"y{year}")
        (home / "crawl" / year / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "link").symlink_to("crawl")
    shutil.copytree(home / "crawl", home.parent / "disk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        succeeds("run", *SETTINGS, "source.paths=crawl", "name=first")
    return home


def succeeds(*arguments: str) -> str:
    done = headrace_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text: str) -> list[list[str]]:
    """The cells of ``status`` about stages of data: name, state, tasks, counts and folder, without what was spent."""
    cells = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return [[*row[:4], row[5]] for row in cells if row[0] in ("texts", "clean")]


def test_ids_hold_the_names_of_the_files(home: Path) -> None:
    """Two files with the same base name in two folders stay apart."""
    (folder,) = (home / "runs/texts").iterdir()
    artifact = Artifact(folder)
    ids = [document.id for path in artifact.shards("documents") for document in read_documents(path)]
    assert ids == [f"{year}/pages.jsonl:{n}" for year in ("2020", "2021") for n in range(12)]
    assert str(home) not in (folder / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        (".", "'{home}/crawl'"),
        (".", "link"),
        (".", "crawl/**/*.jsonl"),
        ("crawl/2020", "[../2020/,../../link/2021/pages.jsonl]"),
        ("crawl", "."),
        ("..", "disk/"),
    ],
)
def test_the_same_files_by_another_path_need_no_work(
    home: Path, monkeypatch: pytest.MonkeyPatch, folder: str, path: str
) -> None:
    expected = rows(succeeds("status", "first", f"root='{home}/runs'"))
    monkeypatch.chdir(home / folder)
    settings = (*SETTINGS, f"source.paths={path.format(home=home)}", f"root='{home}/runs'")
    assert rows(succeeds("status", *settings)) == expected
    assert [row[:2] for row in expected] == [["texts", "done"], ["clean", "done"]]


def test_a_second_run_by_another_path_does_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in (home / "runs").glob("[tc]*/*/*/*")}
    monkeypatch.chdir(home.parent)
    succeeds("run", *SETTINGS, "source.paths=disk", f"root='{home}/runs'")
    assert {path: path.stat().st_mtime_ns for path in (home / "runs").glob("[tc]*/*/*/*")} == before
    assert before


def test_a_new_file_changes_no_other_id(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(home / "crawl", "crawl")
    shutil.copy("crawl/2020/pages.jsonl", "crawl/first.jsonl")
    succeeds("run", *SETTINGS, "source.paths=crawl", "until=texts")
    (folder,) = Path("runs/texts").iterdir()
    ids = {document.id for path in Artifact(folder).shards("documents") for document in read_documents(path)}
    assert {f"{name}:{n}" for name in ("first.jsonl", "2020/pages.jsonl") for n in range(12)} <= ids


@pytest.mark.parametrize("name", ["2021/pages.jsonl:3", "crawl/2021/pages.jsonl:3", "{home}/link/2021/pages.jsonl:3"])
def test_why_takes_an_id_or_a_path_and_prints_the_path(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(home)
    lines = succeeds("why", name.format(home=home), "--run", "first").splitlines()
    facts = dict(line.split(None, 1) for line in lines if line)
    assert facts["id"] == "2021/pages.jsonl:3"
    assert f"source file   {home}/crawl/2021/pages.jsonl".split() in [line.split() for line in lines]
