"""The filter of WebText's pages: URLs are normalized on both sides, and lists that match no page are refused."""

from pathlib import Path

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.pipeline.core.errors import ConfigError
from headrace_courses.allowed_urls import AllowedUrls


def page(url: str) -> Document:
    return Document("text", "a:0", metadata={"url": url})


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8-sig")
    return str(path)


def test_allowed_urls_are_normalized_on_both_sides(tmp_path) -> None:
    (tmp_path / "lists").mkdir()
    written(tmp_path / "lists" / "1.txt", "http://www.a.org/x/\n\n")
    written(tmp_path / "lists" / "2.txt", "b.org/y?utm_source=feed\n")
    rule = AllowedUrls(path=str(tmp_path / "lists"))
    assert rule.judge(page("https://a.org/x?ref=1")) is None
    assert rule.judge(page("http://b.org/y")) is None
    assert rule.judge(page("http://b.org/Y")) == Drop("allowed_urls", "b.org/Y")
    assert rule.judge(Document("x", "a:0")) == Drop("allowed_urls", "")
    assert [file.name for file in rule.raw_files()] == ["1.txt", "2.txt"]
    assert AllowedUrls(path=str(tmp_path / "lists" / "2.txt")).judge(page("http://a.org/x")) is not None


def test_listed_pages_of_excluded_sites_are_dropped(tmp_path) -> None:
    urls = ["en.wikipedia.org/wiki/Mill", "wikipedia.org/a", "notwikipedia.org/b", "a.org/wikipedia.org"]
    rule = AllowedUrls(path=written(tmp_path / "urls.txt", "\n".join(urls)), without_sites=("Wikipedia.org",))
    dropped = Drop("allowed_urls.site", "wikipedia.org")
    assert [rule.judge(page(f"https://{url}")) for url in urls] == [dropped, dropped, None, None]
    assert rule.judge(page("https://wikipedia.org/z")) == Drop("allowed_urls", "wikipedia.org/z")


def test_lists_that_match_no_page_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        AllowedUrls(path=str(tmp_path))
    assert str(caught.value) == f"allowed_urls.path: {tmp_path} holds no list; name a text file or folder of *.txt"
    path = written(tmp_path / "list", "\n \n")
    with pytest.raises(ConfigError) as caught:
        AllowedUrls(path=path).check()
    assert str(caught.value) == f"allowed_urls.path: {path} lists no URL; write one URL a line"
    AllowedUrls(path=written(tmp_path / "one", "http://a.org/x\n")).check()
