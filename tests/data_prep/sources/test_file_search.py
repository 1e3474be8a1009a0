"""The search for files: each real file once, links followed, and what is left out is counted."""

import json
import os
from pathlib import Path

import fsspec
import pytest

from headrace.data_prep.sources.file_search import LeftOut
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.tables import Arrow, Parquet
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here
from tests.data_prep.sources.test_tables import arrow, texts


def tree(root: Path, *names: str) -> None:
    """Makes files (``a.jsonl``) and links (``one -> ../other``, ``b.jsonl = a.jsonl`` for a hard link)."""
    for name in names:
        name, _, target = name.partition(" -> ")
        name, _, linked = name.partition(" = ")
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        elif linked:
            path.hardlink_to(root / linked)
        else:
            path.write_text(f"{name}\n")


def found(root: Path, *paths: str) -> tuple[list[str], str]:
    source = Jsonl(paths=tuple(f"{root}/{path}" for path in paths))
    return [file.name for file in source.listing()], source.left_out.replace(f"{root}/", "")


REPEATED = "another path to what is read"
FARM = ("other/b.jsonl", "farm/a.jsonl", "farm/one -> ../other", "farm/self -> .")


@pytest.mark.parametrize("path", ["farm", "farm/", "farm/**/*.jsonl", "farm/**"])
def test_links_are_followed_and_loops_end(tmp_path: Path, path: str) -> None:
    tree(tmp_path, *FARM)
    assert found(tmp_path, path) == (["a.jsonl", "one/b.jsonl"], f"1 {REPEATED} (farm/self)")


@pytest.mark.parametrize(
    ("names", "paths", "expected", "left_out"),
    [
        pytest.param(
            FARM, ["farm/*"], ["a.jsonl", "one/b.jsonl"], f"3 {REPEATED} (farm/self/a.jsonl)", id="a pattern of links"
        ),
        pytest.param(FARM, ["."], ["farm/a.jsonl", "other/b.jsonl"], f"2 {REPEATED} (farm/one)", id="inside"),
        pytest.param(FARM, ["farm", "other"], ["farm/a.jsonl", "other/b.jsonl"],
                     f"2 {REPEATED} (farm/one/b.jsonl)", id="a link and its folder"),
        pytest.param(FARM, ["other", "farm"], ["farm/a.jsonl", "other/b.jsonl"],
                     f"2 {REPEATED} (farm/one/b.jsonl)", id="the order does not matter"),
        pytest.param(
            ["a/x.jsonl", "a/up -> ../b", "b/y.jsonl", "b/up -> ../a", "c -> b"], ["."],
            ["a/x.jsonl", "b/y.jsonl"], f"3 {REPEATED} (a/up)", id="a circle of two",
        ),
        pytest.param(
            ["a/x.jsonl", "b.jsonl -> a/x.jsonl", "0.jsonl -> a/x.jsonl"], ["."], ["a/x.jsonl"],
            f"2 {REPEATED} (0.jsonl)", id="links to a file",
        ),
        pytest.param(["b.jsonl", "a.jsonl = b.jsonl", "c/d.jsonl = b.jsonl"], ["."], ["a.jsonl"],
                     f"2 {REPEATED} (b.jsonl)", id="hard links"),
        pytest.param(["b.jsonl", "a.jsonl = b.jsonl"], ["b.jsonl", "*.jsonl"], ["a.jsonl"],
                     f"1 {REPEATED} (b.jsonl)", id="hard links by two paths"),
        pytest.param(["far/x.jsonl", "d/b.jsonl -> ../far/x.jsonl", "d/a.jsonl -> ../far/x.jsonl"], ["d"],
                     ["a.jsonl"], f"1 {REPEATED} (d/b.jsonl)", id="two links to a file elsewhere"),
        pytest.param(["far/x.jsonl", "d/b -> ../far", "d/a -> ../far", "d/c -> b"], ["d"],
                     ["a/x.jsonl"], f"2 {REPEATED} (d/b)", id="links to a folder elsewhere"),
        pytest.param(["x/y.jsonl", "x/z/u.jsonl", "d/a/s -> ../../x", "d/b -> a", "d/s -> a/s/z"], ["d"],
                     ["a/s/y.jsonl", "s/u.jsonl"], f"2 {REPEATED} (d/a/s/z)", id="links behind links"),
        pytest.param(["d/.h.jsonl", "d/.git/x.jsonl", "d/a.jsonl"], ["d"], ["a.jsonl"], "2 hidden", id="hidden"),
        pytest.param(["d/.h.jsonl", "d/.git/x.jsonl", "d/a.jsonl"], ["d/**/*.jsonl"], ["a.jsonl"], "2 hidden",
                     id="hidden from a pattern"),
        pytest.param(["d/.h.jsonl", "d/.git/x.jsonl", "d/a.jsonl"], ["d/.*", "d"],
                     [".git/x.jsonl", ".h.jsonl", "a.jsonl"], "", id="hidden, but asked for"),
        pytest.param(
            ["a.jsonl", "b.txt", "c.TXT", "_SUCCESS", "d.jsonl.crc", "e.jsonl.lz4", "f.jsonl.zip", "g.csv.gz"], ["."],
            ["a.jsonl"],
            "2 with the suffix .txt (b.txt), 1 without suffix (_SUCCESS), 1 with the suffix .crc (d.jsonl.crc), "
            "1 with the unread compression .lz4 (e.jsonl.lz4), 1 with the unread compression .zip (f.jsonl.zip), "
            "1 with the suffix .csv.gz (g.csv.gz); unpack files "
            "of unread compressions, or compress them with gzip, zstd, bzip2 or xz", id="suffixes",
        ),
        pytest.param([f"a.{'x' * n}" for n in range(1, 9)] + ["a.jsonl"], ["."], ["a.jsonl"],
                     ", ".join(f"1 with the suffix .{x} (a.{x})" for x in ("x" * n for n in range(1, 7)))
                     + ", 2 for other reasons",
                     id="many suffixes"),
        pytest.param(["a.JSONL", "b.jsonl.XZ", "c.ndjson.zstd", "d.json.bz2", "e.jsonl.gzip"], ["."],
                     ["a.JSONL", "b.jsonl.XZ", "c.ndjson.zstd", "d.json.bz2", "e.jsonl.gzip"], "", id="all read"),
        pytest.param(["a.jsonl", "b.jsonl"], ["a.jsonl", "[ab].jsonl", "."], ["a.jsonl", "b.jsonl"], "", id="plain"),
        pytest.param(["a/b/c.jsonl", "a/d.jsonl"], ["a/*/*.jsonl", "a/?.jsonl"], ["b/c.jsonl", "d.jsonl"], "",
                     id="parts"),
        pytest.param(["a/b/c.jsonl", "a/d.jsonl"], ["a/*/../*.jsonl"], ["d.jsonl"], "", id="up"),
        pytest.param(["a/b/n/c.jsonl", "a/n/d.jsonl", "a/e.jsonl"], ["a/**/n/*.jsonl"], ["b/n/c.jsonl", "n/d.jsonl"],
                     "", id="folders in between"),
        pytest.param(["a/x.txt", "a/b/y.md"], ["a/**"], ["b/y.md", "x.txt"], "", id="a pattern takes any suffix"),
    ],
)  # fmt: skip
def test_each_real_file_is_found_once(
    tmp_path: Path, names: list[str], paths: list[str], expected: list[str], left_out: str
) -> None:
    tree(tmp_path, *names)
    assert found(tmp_path, *paths) == (expected, left_out)


def test_a_farm_of_links_to_each_other_is_searched_once(tmp_path: Path) -> None:
    """Without a guard these 12 folders have more paths than a search can follow."""
    folders = [f"{number:02d}" for number in range(12)]
    tree(tmp_path, *(f"{name}/{name}.jsonl" for name in folders))
    tree(tmp_path, *(f"{name}/to{other} -> ../{other}" for name in folders for other in folders if name != other))
    expected = [f"{name}/{name}.jsonl" for name in folders]
    for path in (".", "**/*.jsonl", "*"):
        assert found(tmp_path, path)[0] == expected


def test_what_is_no_regular_file_is_never_opened(tmp_path: Path) -> None:
    tree(tmp_path, "a.jsonl")
    os.mkfifo(tmp_path / "b.jsonl")
    assert found(tmp_path, ".") == (["a.jsonl"], "1 no regular file (b.jsonl)")
    with pytest.raises(ConfigError) as error:
        found(tmp_path, "b.jsonl")
    wrong = f"source.paths: '{tmp_path}/b.jsonl' is no regular file; copy its content to a file"
    assert str(error.value) == wrong


def test_what_cannot_be_read_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may run as root, who reads everything."""
    tree(tmp_path, "a.jsonl", "b.jsonl", "lost/c.jsonl")
    scandir, access = os.scandir, os.access
    unreadable = [str(tmp_path / name) for name in ("lost", "b.jsonl")]

    def refusing(path: str) -> object:
        if path in unreadable:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    monkeypatch.setattr(os, "access", lambda path, mode: path not in unreadable and access(path, mode))
    assert found(tmp_path, ".") == (["a.jsonl"], "2 unreadable (b.jsonl)")
    assert found(tmp_path, "**/*.jsonl") == (["a.jsonl"], "2 unreadable (b.jsonl)")
    with pytest.raises(ConfigError) as error:
        found(tmp_path, "lost")
    assert "holds no file that ends in .jsonl, .ndjson, .json (left out: 1 unreadable (" in str(error.value)


def test_one_number_for_several_files_is_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network disks give several files one number. Their sizes and times differ."""
    tree(tmp_path, "a.jsonl", "deep/b.jsonl")
    stat = os.stat

    def same_number(path: str, **options: bool) -> os.stat_result:
        fields = list(stat(path, **options))
        return os.stat_result([fields[0], 7, *fields[2:]], {"st_mtime_ns": stat(path, **options).st_mtime_ns})

    monkeypatch.setattr(os, "stat", same_number)
    assert found(tmp_path, ".")[0] == ["a.jsonl", "deep/b.jsonl"]


def test_compressed_tables_are_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "a.parquet", "b.parquet.gz", "c.parquet.zip", "p.parquet.crc")
    source: FileSource = Parquet(paths=(str(tmp_path),))
    assert [file.name for file in source.listing()] == ["a.parquet"]
    assert source.left_out.replace(f"{tmp_path}/", "").startswith(
        "1 with the unread compression .gz (b.parquet.gz), 1 with the unread compression .zip (c.parquet.zip), "
    )


def test_a_remote_folder_is_searched_by_the_same_rule() -> None:
    for name in [
        "a.jsonl",
        "b.jsonl.lz4",
        ".c.jsonl",
        ".git/d.jsonl",
        "e.txt",
        "deep/f.ndjson.xz",
        "_temporary/0/g.jsonl",
    ]:
        with fsspec.open(f"memory://searched/{name}", "wb") as stream:
            stream.write(name.encode())
    try:
        source = Jsonl(paths=("memory://searched",))
        assert [file.name for file in source.listing()] == ["a.jsonl", "deep/f.ndjson.xz"]
        assert "1 of a job that was not finished (memory://searched/_temporary/0/g.jsonl)" in source.left_out
        assert "2 hidden" in source.left_out
        assert "1 with the unread compression .lz4 (memory://searched/b.jsonl.lz4)" in source.left_out
    finally:
        fsspec.filesystem("memory").rm("/searched", recursive=True)


def test_a_file_that_another_search_finds_is_not_left_out() -> None:
    left_out = LeftOut()
    left_out.add("hidden", "/a")
    left_out.add("hidden", "/a")
    left_out.add("unreadable", "/b")
    assert str(left_out) == "1 hidden, 1 unreadable (/b)"
    left_out.remove(["/a", "/c"])
    assert left_out.counts == {"unreadable": 1}


def test_a_run_prints_and_reports_what_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "other/b.jsonl", "farm/one -> ../other", "farm/self -> .", "farm/c.txt")
    (tmp_path / "other/b.jsonl").write_text('{"text": "A text."}\n')
    settings = ("source=jsonl", f"source.paths={tmp_path}/farm", "cleaning=none", "until=texts", "tracking=file")
    result = headrace_here("run", *settings, f"root={tmp_path}/runs")
    assert result.returncode == 0, result.stderr
    left_out = f"1 with the suffix .txt ({tmp_path}/farm/c.txt), 1 {REPEATED} ({tmp_path}/farm/self)"
    assert f"source.paths: left out: {left_out}" in result.stderr.splitlines()
    assert f"files left out: {left_out}" in result.stdout.splitlines()
    (page,) = tmp_path.glob("runs/report/*/report.html")
    assert f"left out when the run started: {left_out}." in page.read_text()


# Folders that say themselves which of their files count.


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


def saved(folder: Path, *files: str, **state: object) -> Arrow:
    folder.mkdir()
    for name in files:
        (folder / name).write_bytes(arrow(texts(2)))
    (folder / "state.json").write_text(json.dumps(state))
    return Arrow(paths=(str(folder),))


def names(*files: str) -> list[dict[str, str]]:
    return [{"filename": file} for file in files]


OLD, NEW = "data-00000-of-00001.arrow", ("data-00000-of-00002.arrow", "data-00001-of-00002.arrow")


def test_a_data_set_that_was_saved_twice_is_the_second_one(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    folder = str(tmp_path / "saved")
    for text, shards in (("old", 3), ("new", 2)):
        datasets.Dataset.from_list([{"text": f"{text} {n}"} for n in range(6)]).save_to_disk(folder, num_shards=shards)
    source = Arrow(paths=(folder,))
    read = [document.text for file in source.listing() for document, _ in source.read(file.name)]
    assert read == datasets.load_from_disk(folder)["text"] == [f"new {n}" for n in range(6)]
    assert "3 not named by the state.json of its folder" in source.left_out


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"_data_files": names(OLD, "lost.arrow")}, "names 'lost.arrow', which is not there; copy the whole folder"),
        ({"_data_files": [1]}, "cannot be read as a file of datasets (TypeError: 'int' object"),
    ],
)
def test_a_data_set_that_is_not_whole_is_refused(tmp_path: Path, state: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        saved(tmp_path / "saved", OLD, **state).listing()
    assert str(error.value).startswith(f"source.paths: '{tmp_path}/saved/state.json' {problem}")
