import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.urls import C4Split, OnePagePerUrl, md5_words, normalize_url


@pytest.mark.parametrize(
    ("url", "normalized"),
    [
        ("http://www.a.org/x/", "a.org/x"),
        ("https://a.org//", "a.org"),
        ("www.a.org", "www.a.org"),
        ("https://a.org/x?utm_source=1&b=2", "a.org/x"),
        ("https://a.org/x/?ref=1", "a.org/x"),
        ("https://a.org/x?referee=1", "a.org/x"),
        ("https://a.org/x?feed=rss/", "a.org/x"),
        ("https://a.org/x?id=1&ref=2", "a.org/x?id=1&ref=2"),
        ("https://web.archive.org/https://www.a.org", "web.archive.org/a.org"),
        ("HTTP://a.org", "HTTP://a.org"),
    ],
)
def test_normalize_url(url, normalized) -> None:
    assert normalize_url(url) == normalized


@pytest.mark.parametrize(
    ("url", "split"),
    [
        ("http://a.org/221", "validation"),  # MD5 9948…, a multiple of 1,000
        ("https://www.a.org/221/?utm_source=x", "validation"),
        ("https://a.org/222", "train"),
        ("", "train"),
    ],
)
def test_the_splits_of_c4(url, split) -> None:
    other = {"train": "validation", "validation": "train"}[split]
    document = Document("", "a:0", metadata={"url": url})
    assert C4Split(split=split).judge(document) is None
    assert C4Split(split=other).judge(document) == Drop("c4_split", split)


def rank(date: object) -> tuple[int, ...]:
    return tuple(OnePagePerUrl().keys(Document("", "a:0", metadata={"url": "u", "date": date}))[1].tolist())


def test_the_newest_date_has_the_least_rank() -> None:
    dates = ["2020", "2019-04-18T10:00:01Z", "2019-04-18T10:00:00Z", "2019-04-18", "", None]
    assert [rank(date) for date in dates] == sorted(rank(date) for date in dates)
    assert rank("") == rank(None)
    assert rank("2019-04-18") != rank("2019-04-19")


def test_a_document_without_url_has_no_key() -> None:
    assert len(OnePagePerUrl().keys(Document("", "a:0", metadata={"url": ""}))[0]) == 0
    assert len(OnePagePerUrl().keys(Document("", "a:0"))[0]) == 0


def test_trim() -> None:
    document = Document("text", "a:0", metadata={"url": "http://a.org/"})
    _, _, parts = OnePagePerUrl().keys(document)
    assert OnePagePerUrl().trim(document, parts[:0]) is None
    assert OnePagePerUrl().trim(document, parts) == Drop("one_page_per_url", "a.org")


def test_md5_words_compare_like_hex_digests() -> None:
    words = md5_words(["a", "b"])
    assert [f"{high:016x}{low:016x}" for high, low in words.tolist()] == [
        "0cc175b9c0f1b6a831c399e269772661",
        "92eb5ffee6ae2fec3ad71c777531578f",
    ]
    assert md5_words([]).shape == (0, 2)
