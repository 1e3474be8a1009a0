"""Files that paths, folders, patterns and URLs name, and checksums."""

import hashlib
import os
from pathlib import Path

import fsspec
import pytest

from headrace.data_prep.sources import files as files_module
from headrace.data_prep.sources.files import checksum, open_raw
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.warc import Warc
from headrace.pipeline.core.errors import ArtifactError, ConfigError


@pytest.fixture
def crawl(tmp_path, monkeypatch):
    """crawl/{a,b}.jsonl, crawl/deep/c.jsonl.gz, and files that no folder search may find."""
    monkeypatch.chdir(tmp_path)
    for name in ["b.jsonl", "a.jsonl", "deep/c.jsonl.gz", "deep/README", ".git/d.jsonl", "e.parquet", ".f.jsonl"]:
        path = tmp_path / "crawl" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.fixture
def memory():
    for name in ["a.jsonl", "b.jsonl.gz", "c.txt"]:
        with fsspec.open(f"memory://bucket/deep/{name}", "wb") as stream:
            stream.write(name.encode())
    yield
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def names(*paths):
    return [file.name for file in Jsonl(paths=paths).listing()]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("memory://bucket", ["deep/a.jsonl", "deep/b.jsonl.gz"]),
        ("memory://bucket/deep/", ["a.jsonl", "b.jsonl.gz"]),
        ("memory://bucket/deep/*.jsonl", ["a.jsonl"]),
        ("memory://bucket/deep/c.txt", ["c.txt"]),
        ("memory://bucket/**/b*", ["deep/b.jsonl.gz"]),
    ],
)
def test_urls(memory, path, expected):
    assert names(path) == expected
    source = Jsonl(paths=(path,))
    for file in source.files():
        content = file.name.rpartition("/")[2].encode()
        assert source.location(file.name) == f"memory://bucket/deep/{content.decode()}"
        assert source.open(file.name).read() == content
        assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())


ONE_KIND = "correct the path, or read these in a run of their own (source=…): a run reads one kind of source"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nope.gz", "source.paths: 'nope.gz' matches no file; correct the path or pattern"),
        ("crawl/*.zip", "source.paths: 'crawl/*.zip' matches no file; correct the path or pattern"),
        ("memory://x/*", "source.paths: 'memory://x/*' matches no file; correct the path or pattern"),
        (
            "crawl",
            "source.paths: 'crawl' holds no file that ends in .warc, .wet, but 2 with the suffix .jsonl; " + ONE_KIND,
        ),
        ("empty", "source.paths: 'empty' holds no file that ends in .warc, .wet; correct the path or pattern"),
        ("zz://b/c", "source.paths: cannot read 'zz://b/c' (Protocol not known: zz); install what the scheme needs"),
    ],
)
def test_what_matches_nothing_is_refused(crawl, path, message):
    Path("empty").mkdir()
    with pytest.raises(ConfigError) as error:
        Warc(paths=(path,)).files()
    assert str(error.value) == message


@pytest.mark.parametrize("path", [".", "*.jsonl", "link.jsonl"])
@pytest.mark.parametrize(("target", "why"), [("gone", "No such file or directory"), ("link.jsonl", "Too many levels")])
def test_a_link_that_leads_nowhere_is_named(tmp_path, monkeypatch, path, target, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.jsonl").symlink_to(target)
    with pytest.raises(ConfigError) as error:
        names(path)
    assert str(error.value).startswith(f"source.paths: '{tmp_path}/link.jsonl' cannot be read ({why}")
    assert str(error.value).endswith("); remove the link, or correct where it leads")


def test_a_file_name_that_is_no_utf8_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(os.fsdecode(b"caf\xe9.jsonl")).write_text("{}")
    with pytest.raises(ConfigError) as error:
        names(".")
    wanted = f"source.paths: the file name '{tmp_path}/caf\\udce9.jsonl' is not UTF-8; rename the file"
    assert str(error.value) == wanted


def test_no_paths_are_refused():
    with pytest.raises(ConfigError) as error:
        Warc(paths=()).files()
    assert str(error.value) == "source.paths: names no file; give it files, folders or patterns"


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(ArtifactError) as error:
        open_raw(str(tmp_path / "x"))
    wanted = f"{tmp_path}/x: cannot be opened (No such file or directory); correct source.paths or its permissions"
    assert str(error.value) == wanted


def test_checksums_are_remembered_until_the_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one")
    opened = []
    monkeypatch.setattr(files_module, "open_raw", lambda name: opened.append(name) or open_raw(name))
    assert checksum(str(path)) == checksum(str(path)) == hashlib.sha256(b"one").hexdigest()
    assert opened == [str(path)]
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert checksum(str(path)) == hashlib.sha256(b"two").hexdigest()
    assert len(opened) == 2


def test_a_store_that_keeps_checksums_is_not_read(memory, monkeypatch):
    system = fsspec.filesystem("memory")
    info = system.info
    monkeypatch.setattr(type(system), "info", lambda self, path, **_: {**info(path), "ETag": '"5d41"'})
    monkeypatch.setattr(files_module, "open_raw", None)
    assert checksum("memory://bucket/deep/a.jsonl") == hashlib.sha256(b'ETag:"5d41":7').hexdigest()
