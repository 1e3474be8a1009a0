import hashlib
import json
from pathlib import Path

import pytest
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.urls import (
    AllowedDomains,
    BlockedDomains,
    OnePagePerUrl,
    domains_of,
    host_of,
    md5_words,
    normalize_url,
)
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile


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


def rank(date: object) -> tuple[int, ...]:
    return tuple(OnePagePerUrl().keys(Document("", "a:0", metadata={"url": "u", "date": date}))[1].tolist())


def test_the_newest_date_has_the_least_rank() -> None:
    dates = ["1600000000", "Wed, 01 Jan 2020 10:00:00 GMT", "2020", "2019-04-18T10:00:01.5Z", "2019-04-18T10:00:01Z"]
    dates += ["2019-04-18 10:00", "2019-04-18T14:30:00+05:00", "20190418", "2019-04", "999999999", "", None]
    assert [rank(date) for date in dates] == sorted(rank(date) for date in dates)
    assert rank("") == rank(None) == rank("yesterday") > rank("0002-01-01")
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


def page(url: str) -> Document:
    return Document("x", "a:0", metadata={"url": url})


def written(path, text: str) -> str:
    """Writes ``text`` as Windows does, after a byte order mark, and returns the path."""
    path.write_text(text, encoding="utf-8-sig")
    return str(path)


@pytest.mark.parametrize(
    ("url", "drop"),
    [
        ("http://bbc.co.uk/x", None),
        ("https://NEWS.bbc.co.uk:8080/x?y=http://z.org", None),
        ("http://example.org", None),
        ("http://news.example.org/", None),
        ("http://a.news.example.org/", Drop("allowed_domains.subdomain", "a.news.example.org")),
        ("http://www.example.org/", Drop("allowed_domains.subdomain", "www.example.org")),
        ("http://notbbc.co.uk/", Drop("allowed_domains.domain", "notbbc.co.uk")),
        ("http://co.uk/", Drop("allowed_domains.domain", "co.uk")),
        ("http://a.org/bbc.co.uk", Drop("allowed_domains.domain", "a.org")),
        ("", Drop("allowed_domains.domain", "")),
        ("http://[bad/", Drop("allowed_domains.domain", "")),
    ],
)
def test_allowed_domains(url, drop, tmp_path) -> None:
    table = json.dumps({"BBC.co.uk": True, "example.org": ["", "News"]})
    assert AllowedDomains(path=written(tmp_path / "sites.json", table)).judge(page(url)) == drop


@pytest.fixture
def blocked(tmp_path):
    return BlockedDomains(
        domains_path=written(tmp_path / "domains", "bad.org\n# a list\nvery.worse.org\n"),
        strict_words_path=written(tmp_path / "strict", "swear\n"),
        hard_words_path=written(tmp_path / "hard", "porn\n"),
        soft_words_path=written(tmp_path / "soft", "escort\nwebcam\n"),
    )


@pytest.mark.parametrize(
    ("url", "drop"),
    [
        ("http://BAD.org/x", Drop("blocked_domains.domain", "bad.org")),
        ("http://www.bad.org/", Drop("blocked_domains.domain", "bad.org")),
        ("http://notbad.org/", None),
        ("http://worse.org/", None),
        ("http://a.very.worse.org/", Drop("blocked_domains.domain", "very.worse.org")),
        ("http://a.org/x-s-w.ear-y", Drop("blocked_domains.strict_word", "swear")),
        ("http://a.org/some_porn/x", Drop("blocked_domains.hard_word", "porn")),
        ("http://a.org/popcorns/pornx", None),
        ("http://a.org/escort-cars", None),
        ("http://webcam.org/escort?webcam", Drop("blocked_domains.soft_words", "escort webcam")),
        ("http://webcam.org/webcam", None),
        ("", None),
    ],
)
def test_blocked_domains(url, drop, blocked) -> None:
    assert blocked.judge(page(url)) == drop


def test_without_lists_nothing_is_blocked() -> None:
    assert BlockedDomains().judge(page("http://porn.org")) is None
    assert BlockedDomains().raw_files() == ()


def test_lists_decide_the_address(blocked, tmp_path) -> None:
    files = blocked.raw_files()
    assert [file.name for file in files] == ["domains", "strict", "hard", "soft"]
    assert files[1] == RawFile("strict", 9, hashlib.sha256(b"\xef\xbb\xbfswear\n").hexdigest())


def test_hosts_and_their_sites() -> None:
    assert host_of("a.org/x") == "a.org"
    assert host_of("http://user:pw@A.org.:80/") == "a.org"
    assert list(domains_of("www.a.org", 99)) == ["www.a.org", "a.org", "org"]
    assert list(domains_of("www.a.org", 8)) == list(domains_of("www.a.org", 5)) == ["a.org", "org"]
    assert list(domains_of("a..b", 4)) == ["a..b", ".b", "b"]
    assert list(domains_of("", 9)) == []


def test_errors(tmp_path) -> None:
    missing = tmp_path / "none"
    for build, where, remedy in [
        (lambda: AllowedDomains(path=str(missing)), "allowed_domains.path", "name a JSON file of sites"),
        (
            lambda: BlockedDomains(hard_words_path=str(missing)),
            "blocked_domains.hard_words_path",
            "name a text file with one entry per line",
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            build()
        assert str(caught.value) == f"{where}: there is no file {missing}; {remedy}"
    remedy = 'write {"site": true} or {"site": ["subdomain"]}'
    for name, text, wrong in [("a", "[1]", "is not a JSON object"), ("b", "{", None)]:
        path = written(tmp_path / name, text)
        with pytest.raises(ArtifactError) as error:
            AllowedDomains(path=path).judge(page("http://a.org"))
        assert str(error.value).endswith(f"; {remedy}")
        assert wrong is None or str(error.value) == f"{path}: {wrong}; {remedy}"
    (tmp_path / "latin.txt").write_bytes("m\xfchle.de\n".encode("latin-1"))
    with pytest.raises(ArtifactError) as error:
        BlockedDomains(domains_path=str(tmp_path / "latin.txt")).judge(page("http://a.org"))
    assert str(error.value) == f"{tmp_path}/latin.txt: is not UTF-8 (byte 1); convert it to UTF-8"


NO_SITE = "write names such as example.org, without http:// and path"


@pytest.mark.parametrize(
    ("kind", "field", "text", "wrong", "remedy"),
    [
        (AllowedDomains, "path", "{}", "lists no site", NO_SITE),
        (
            AllowedDomains,
            "path",
            '{"https://b.org/": true, "https://a.org": [""]}',
            "lists no site ('https://a.org' is not the name of a host)",
            NO_SITE,
        ),
        (AllowedDomains, "path", '{"https://a.org": true, "b.org": true}', None, None),
        (BlockedDomains, "domains_path", "# none\n\n", "lists no site", NO_SITE),
        (BlockedDomains, "domains_path", "a.org/x\n", "lists no site ('a.org/x' is not the name of a host)", NO_SITE),
        (BlockedDomains, "domains_path", "a.org\nb.org/x\n", None, None),
    ],
)
def test_lists_that_match_no_page(tmp_path: Path, kind, field, text, wrong, remedy) -> None:
    path = tmp_path / "list"
    path.write_text(text)
    rule = kind(**{field: str(path)})
    if wrong is None:
        rule.check()
    else:
        with pytest.raises(ConfigError) as caught:
            rule.check()
        assert str(caught.value) == f"{rule.type}.{field}: {path} {wrong}; {remedy}"


def test_no_list_of_sites_is_needed() -> None:
    BlockedDomains().check()
