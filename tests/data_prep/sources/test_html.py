"""Saved pages."""

import bz2
import gzip
import io
import json

import pytest
import zstandard

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.html import Html
from tests.data_prep.sources.warc_bytes import PAGE

LINK = b'<html><head><link rel="canonical" href="https://example.org/a"></head><body><p>some words</p></body></html>'


def read(path, **options):
    source = Html(paths=(str(path),), **options)
    return [record for file in source.files() for record in source.read(file.name)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress, bz2.compress])
def test_one_file_is_one_document(tmp_path, compress):
    (tmp_path / "a.html").write_bytes(compress(LINK))
    [(document, drop)] = read(tmp_path)
    assert (document.text, drop) == ("some words", None)
    assert document.id == "a.html:0"
    assert document.metadata == {"url": "https://example.org/a", "page": {"canonical": "https://example.org/a"}}


@pytest.mark.parametrize(
    ("data", "drop"),
    [
        (b"", Drop("no_text", "")),
        (b"<p>" + b"x" * 2000, Drop("record_too_large", "more than 1000")),
        (gzip.compress(PAGE % b"cut")[:50], Drop("broken_compression", "the end of the file, inside a member")),
        (b"<div>" * 199 + b"x", None),
    ],
)
def test_drops(tmp_path, data, drop):
    (tmp_path / "a.htm").write_bytes(data)
    [(document, found)] = read(tmp_path, record_bytes=1000)
    assert found == drop
    assert document.text == ("" if drop else "x")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('<!-- <meta charset="windows-1251"> --><meta charset="utf-8"><p>Привет'.encode(), "Привет"),
        ("<script>'<meta charset=big5>'</script><meta charset=koi8-r><p>Привет".encode("koi8-r"), "Привет"),
        ("<p>Привет".encode("utf-16"), "Привет"),
        (b"\x89PNG\r\n\x1a\n\0", Drop("binary", "image/png")),
        (b"\n%PDF-1.7", Drop("binary", "application/pdf")),
        (b'{"a": 1}', Drop("not_html", "application/json")),
        (b"<?xml version='1.0'?><rss>", Drop("not_html", "application/rss+xml")),
        (b"<meta charset=utf-8><p>\xcf\xf0\xe8\xe2\xe5\xf2", Drop("undecodable", "100.0% of the characters")),
    ],
)
def test_character_sets_and_binary_files(tmp_path, data, expected):
    (tmp_path / "a.xhtml").write_bytes(data)
    [(document, drop)] = read(tmp_path)
    assert (drop or document.text) == expected


def test_real_pages(data_folder, tmp_path):
    """The Debian guide's HTML pages, 10 of them, as files."""
    path = data_folder("dedup/debian_guide_amd64_arm64.jsonl.zst")
    with path.open("rb") as file:
        lines = io.BufferedReader(zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file))
        for number in range(10):
            (tmp_path / f"{number:02}.html").write_text(json.loads(next(lines))["html"], encoding="utf-8")
    records = read(tmp_path / "*.html")
    assert len(records) == 10
    assert all(drop is None and len(document.text) > 100 for document, drop in records)
