"""Folders that say themselves which of their files count."""

import json
from pathlib import Path

import fsspec
import pytest

from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.table_sources import Arrow, Parquet
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.sources.test_file_search import found, tree
from tests.data_prep.sources.test_table_sources import arrow, texts

REMEDY = "write out its rows with its own library, and read what it wrote"
HUDI = ".hoodie/20200101.commit"
LOGS = {
    "_delta_log/00000.json": "a Delta Lake table: its log in _delta_log",
    HUDI: "a Hudi table: its log in .hoodie",
    "_spark_metadata/0": "the output of a Spark stream: its log in _spark_metadata",
    "metadata/v1.metadata.json": "an Iceberg table: its log in metadata",
    "metadata/00000-5f-0a.gz.metadata.json": "an Iceberg table: its log in metadata",
}


PATTERNS = ("/", "/t", "/t/", "/*", "/**", "/**/*.parquet", "/t/**/*.parquet")


@pytest.mark.parametrize(("log", "path"), [*((log, "") for log in LOGS), *((HUDI, path) for path in PATTERNS)])
def test_a_table_is_refused(tmp_path: Path, log: str, path: str) -> None:
    tree(tmp_path, "a.parquet", "t/lang=en/part-0.parquet", f"t/{log}")
    with pytest.raises(ConfigError) as error:
        Parquet(paths=(f"{tmp_path}{path}",)).listing()
    assert str(error.value) == f"source.paths: '{tmp_path}/t' is {LOGS[log]} says which of its files count; {REMEDY}"


@pytest.mark.parametrize(
    ("log", "path"), [*((log, "") for log in LOGS), *((HUDI, path) for path in ("/", "/*.parquet"))]
)
def test_a_part_of_a_table_is_refused(tmp_path: Path, log: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / "t/data/lang=en"
    tree(tmp_path, "t/data/lang=en/part-0.parquet", f"t/{log}")
    monkeypatch.chdir(part)
    for typed in (f"{part}{path}", f".{path}"):
        with pytest.raises(ConfigError) as error:
            Parquet(paths=(typed,)).listing()
        assert str(error.value).startswith(f"source.paths: '{tmp_path}/t' is {LOGS[log]} says")
    assert [file.name for file in Parquet(paths=(f"{part}/part-0.parquet",)).listing()] == ["part-0.parquet"]


@pytest.mark.parametrize("log", LOGS)
def test_a_remote_table_is_refused(log: str) -> None:
    for name in ("a.parquet", "t/lang=en/part-0.parquet", f"t/{log}"):
        fsspec.filesystem("memory").pipe(f"/tables/{name}", b"x")
    try:
        with pytest.raises(ConfigError) as error:
            Parquet(paths=("memory://tables",)).listing()
    finally:
        fsspec.filesystem("memory").rm("/tables", recursive=True)
    assert str(error.value).startswith(f"source.paths: 'memory://tables/t' is {LOGS[log]} says")


def test_other_folders_of_such_names_are_read(tmp_path: Path) -> None:
    folders = ("_next", "delta_log", "metadata", "metadata.json", "x_temporary")
    names = sorted(["metadata/old.metadata.json", *(f"{folder}/a.jsonl" for folder in folders)])
    tree(tmp_path, *names)
    assert found(tmp_path, ".") == (names, "")


@pytest.mark.parametrize("path", ["out", "out/**/*.jsonl", "out/*"])
def test_files_of_a_job_that_was_not_finished_are_left_out(tmp_path: Path, path: str) -> None:
    tree(tmp_path, "out/part-0.jsonl", "out/_temporary/0/task_1/part-1.jsonl")
    assert found(tmp_path, path) == (["part-0.jsonl"], "1 of a job that was not finished (out/_temporary)")


def test_they_are_left_out_of_a_remote_folder(tmp_path: Path) -> None:
    for name in ("part-0.jsonl", "_temporary/0/task_1/part-1.jsonl"):
        fsspec.filesystem("memory").pipe(f"/unfinished/{name}", b"x")
    try:
        source = Jsonl(paths=("memory://unfinished",))
        assert [file.name for file in source.listing()] == ["part-0.jsonl"]
        assert source.left_out.startswith("1 of a job that was not finished (memory://unfinished/_temporary/0/")
    finally:
        fsspec.filesystem("memory").rm("/unfinished", recursive=True)


def saved(folder: Path, *files: str, **state: object) -> Arrow:
    folder.mkdir()
    for name in files:
        (folder / name).write_bytes(arrow(texts(2)))
    (folder / "state.json").write_text(json.dumps(state))
    return Arrow(paths=(str(folder),))


def names(*files: str) -> list[dict[str, str]]:
    return [{"filename": file} for file in files]


OLD, NEW = "data-00000-of-00001.arrow", ("data-00000-of-00002.arrow", "data-00001-of-00002.arrow")


def test_files_of_a_data_set_that_was_saved_before_are_left_out(tmp_path: Path) -> None:
    source = saved(tmp_path / "saved", OLD, *NEW, _data_files=names(*NEW))
    assert [file.name for file in source.listing()] == list(NEW)
    assert f"1 not named by the state.json of its folder ({tmp_path}/saved/{OLD})" in source.left_out


def test_a_data_set_that_was_saved_twice_is_the_second_one(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    folder = str(tmp_path / "saved")
    for text, shards in (("old", 3), ("new", 2)):
        datasets.Dataset.from_list([{"text": f"{text} {n}"} for n in range(6)]).save_to_disk(folder, num_shards=shards)
    source = Arrow(paths=(folder,))
    read = [document.text for file in source.listing() for document, _ in source.read(file.name)]
    assert read == datasets.load_from_disk(folder)["text"] == [f"new {n}" for n in range(6)]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"_data_files": names(OLD, "lost.arrow")}, "names 'lost.arrow', which is not there; copy the whole folder"),
        (
            {"_data_files": names(OLD), "_indices_data_files": names("indices.arrow")},
            "chooses rows (_indices_data_files); save the data set again with flatten_indices()",
        ),
        ({"_data_files": [1]}, "cannot be read as a file of datasets (TypeError: 'int' object"),
    ],
)
def test_a_data_set_that_is_not_whole_is_refused(tmp_path: Path, state: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        saved(tmp_path / "saved", OLD, **state).listing()
    assert str(error.value).startswith(f"source.paths: '{tmp_path}/saved/state.json' {problem}")
