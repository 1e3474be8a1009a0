"""Names and locations of raw files: the same files have the same names by any path, and no two files have one name."""

from pathlib import Path

import pytest

from headrace.data_prep.sources import file_search, files, locations
from headrace.data_prep.sources.file_search import FoundFile
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.locations import NamedPath
from headrace.pipeline.core.errors import ConfigError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """data/crawl/{a,old/a,old/b}.jsonl and data/books/a.jsonl; ``link`` leads to data, ``old`` to data/crawl/old."""
    for name in ("crawl/a", "crawl/old/a", "crawl/old/b", "books/a"):
        path = tmp_path / "data" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "old").symlink_to("data/crawl/old")
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def contents(*paths: str) -> dict[str, str]:
    """The content of each file, found by its name."""
    source = Jsonl(paths=paths)
    return {file.name: Path(source.location(file.name)).read_text().strip() for file in source.listing()}


CRAWL = {"a.jsonl": "crawl/a", "old/a.jsonl": "crawl/old/a", "old/b.jsonl": "crawl/old/b"}
BOTH = {f"crawl/{name}": content for name, content in CRAWL.items()} | {"books/a.jsonl": "books/a"}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["data/crawl"], CRAWL),
        (["{data}/crawl/"], CRAWL),
        (["file://{data}/crawl"], CRAWL),
        (["./data//books/../crawl/"], CRAWL),
        (["old/.."], CRAWL),
        (["~/crawl"], CRAWL),
        (["link/crawl"], CRAWL),
        (["link/crawl/**/*.jsonl"], CRAWL),
        (["data/crawl/a.jsonl", "link/crawl/old"], CRAWL),
        (["data/crawl", "data/crawl/old/b.jsonl", "~/crawl/a.jsonl"], CRAWL),
        (["data/crawl", "data/books"], BOTH),
        (["link/books/a.jsonl", "{data}/crawl"], BOTH),
        (["data"], BOTH),
        (["data/*"], BOTH),
        (["data/crawl/a.jsonl"], {"a.jsonl": "crawl/a"}),
        (["link/crawl/a.jsonl", "data/crawl/a.jsonl"], {"a.jsonl": "crawl/a"}),
        (["data/crawl/a.json*"], {"a.jsonl": "crawl/a"}),
        (["data/crawl/a.jsonl", "data/books/a.jsonl"], {"crawl/a.jsonl": "crawl/a", "books/a.jsonl": "books/a"}),
        (["old"], {"a.jsonl": "crawl/old/a", "b.jsonl": "crawl/old/b"}),
    ],
)
def test_names_do_not_depend_on_the_path(data: Path, paths: list[str], expected: dict[str, str]) -> None:
    assert contents(*(path.format(data=data) for path in paths)) == expected


def test_a_folder_of_links_has_the_names_of_a_copy_of_it(data: Path) -> None:
    """A model hub's cache and a data set over several disks are such folders."""
    farm = data.parent / "farm"
    farm.mkdir()
    (farm / "one").symlink_to(data / "crawl")
    (farm / "two").symlink_to(data / "books")
    (data / "more.jsonl").write_text("more\n")
    (farm / "three.jsonl").symlink_to(data / "more.jsonl")
    expected = {f"one/{name}": content for name, content in CRAWL.items()}
    expected |= {"two/a.jsonl": "books/a", "three.jsonl": "more"}
    assert contents("farm/*") == contents("farm/one", "farm/two", "farm/three.jsonl") == expected


@pytest.mark.parametrize("name", ["a[1]", "what?", "s*r", "[!a]"])
def test_wildcard_characters_in_names_of_folders(data: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (data / "crawl").rename(data / name)
    (data / "s1r").mkdir()
    (data / "s1r/z.jsonl").write_text("z")
    assert contents(f"data/{name}") == contents(f"{data}/{name}/**/*.jsonl") == CRAWL
    assert contents(f"data/{name}/a.jsonl") == {"a.jsonl": "crawl/a"}
    monkeypatch.chdir(data / name)
    assert contents(".") == contents("*") == CRAWL
    monkeypatch.setenv("HOME", str(data / name))
    assert contents("~/o*/b.jsonl") == {"old/b.jsonl": "crawl/old/b"}


@pytest.mark.parametrize("name", ["a[1]", "what?", "s*r"])
def test_a_typed_path_has_no_wildcards(data: Path, name: str) -> None:
    """Its file is found also after it is gone, when nothing shows that the characters belong to its name."""
    (data / "crawl/old").rename(data / "crawl" / name)
    source = Jsonl(paths=["data/crawl"])
    expected = f"{name}/a.jsonl"
    assert expected in [file.name for file in source.listing()]
    assert source.name_at(f"data/crawl/{expected}") == expected
    (data / "crawl" / name).rename(data / "gone")
    assert source.name_at(f"data/crawl/{expected}") == expected
    assert Jsonl(paths=["data/crawl"]).name_at(f"{data}/crawl/{expected}") == expected


def test_each_folder_is_resolved_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[str] = []
    real = locations._resolved
    monkeypatch.setattr(locations, "_resolved", lambda path: resolved.append(path) or real(path))
    source = Jsonl(paths=["data/crawl/old/a.jsonl", "data/crawl/old/b.jsonl", "data/books/a.jsonl"])
    assert [file.name for file in source.listing()] == ["books/a.jsonl", "crawl/old/a.jsonl", "crawl/old/b.jsonl"]
    assert sorted(resolved) == sorted(set(resolved))


def test_a_location_is_known_after_the_files_are_gone(data: Path) -> None:
    single, several = ["data/crawl/a.jsonl"], ["data/crawl/old", "link/crawl/a.jsonl"]
    for paths in (["data/crawl"], ["data/crawl/*.jsonl"], single, several):
        source = Jsonl(paths=paths)
        (data / "crawl").rename(data / "gone")
        assert source.location("a.jsonl") == f"{data}/crawl/a.jsonl"
        (data / "gone").rename(data / "crawl")


def test_a_file_with_the_name_of_its_folder(data: Path) -> None:
    (data / "crawl/a.jsonl").rename(data / "a")
    (data / "crawl").rename(data / "crawl.jsonl")
    (data / "a").rename(data / "crawl.jsonl/crawl.jsonl")
    assert contents("data/crawl.jsonl")["crawl.jsonl"] == "crawl/a"


S3 = ("s3://one/crawl/a.jsonl", "s3://one/crawl/old/a.jsonl")


@pytest.mark.parametrize(
    ("paths", "found", "expected"),
    [
        (["s3://one/crawl"], S3, ["a.jsonl", "old/a.jsonl"]),
        (["s3://one/crawl/"], S3, ["a.jsonl", "old/a.jsonl"]),
        (["s3://*/crawl"], S3, ["one/crawl/a.jsonl", "one/crawl/old/a.jsonl"]),
        (["s3://one/crawl/a.jsonl"], S3[:1], ["a.jsonl"]),
        (["s3://one", "s3://two/a.jsonl"], ["s3://two/a.jsonl"], ["two/a.jsonl"]),
        (["s3://one", "gs://two/a.jsonl"], ["gs://two/a.jsonl"], ["gs://two/a.jsonl"]),
        (
            ["https://a.org/d/f.jsonl?raw=https://b"],
            ["https://a.org/d/f.jsonl?raw=https://b"],
            ["f.jsonl?raw=https://b"],
        ),
    ],
)
def test_names_of_urls(
    monkeypatch: pytest.MonkeyPatch, paths: list[str], found: list[str], expected: list[str]
) -> None:
    def matches(typed: str, path: NamedPath, *_: object) -> list[FoundFile]:
        return [FoundFile(location, 1, location) for location in found if location.startswith(path.stem)]

    monkeypatch.setattr(files, "found_files", matches)
    source = Jsonl(paths=paths)
    assert [file.name for file in source.listing()] == expected
    assert [source.location(name) for name in expected] == list(found)


def test_urls_beside_local_paths_are_their_own_names(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_search, "_remote", lambda path, *_: [FoundFile(path, 1, path)])
    source = Jsonl(paths=["data/crawl/a.jsonl", "s3://one/a.jsonl"])
    assert [file.name for file in source.listing()] == ["a.jsonl", "s3://one/a.jsonl"]
    assert source.location("s3://one/a.jsonl") == "s3://one/a.jsonl"


def test_a_remote_file_whose_name_is_ambiguous_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    match = FoundFile("s3://one/a.jsonl/a.jsonl", 1, "")
    monkeypatch.setattr(file_search, "_remote", lambda *_: [match])
    with pytest.raises(ConfigError) as error:
        Jsonl(paths=["s3://one/a.jsonl"]).listing()
    assert str(error.value) == (
        "source.paths: the location of 's3://one/a.jsonl/a.jsonl' does not follow from its name 'a.jsonl'; "
        "give a pattern: s3://one/a.jsonl/*"
    )
