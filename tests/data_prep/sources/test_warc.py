"""Web crawls: what is kept, what is dropped and why, on real and broken files."""

import bz2
import functools
import gzip
import io
import re
import tracemalloc
from collections import Counter

import brotli
import fsspec
import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.damaged_files import Mark, pieces
from headrace.data_prep.sources.warc import Warc, WarcBytes, warc_records
from tests.command_line import headrace_here
from tests.data_prep.sources.warc_bytes import PAGE, http, page, record

TEXT = "page 7, with a few more words"


def read(path, **options):
    """The records of one file, after checking what holds for every file."""
    records = list(Warc(paths=(str(path),), **options).read(str(path)))
    for number, (document, drop) in enumerate(records):
        assert document.id == f"{path}:{number}"
        assert bool(document.text) == (drop is None)
        assert {"url", "date"} <= set(document.metadata) <= {"url", "date", "page", "left_out", "truncated"}
        assert "\0" not in document.text
        orjson.dumps([document.text, document.metadata, None if drop is None else [drop.rule, drop.value]])
    return records


read_once = functools.cache(read)
"""For real files, which several tests look at."""


def read_bytes(tmp_path, data, **options):
    (tmp_path / "a.warc").write_bytes(data)
    return read(tmp_path / "a.warc", **options)


def only(tmp_path, data, **options):
    [(document, drop)] = read_bytes(tmp_path, data, **options)
    return drop or document.text


@pytest.mark.parametrize(
    ("name", "kept", "drops"),
    [
        ("whirlwind.warc.gz", 1, {"not_a_page": 3}),
        ("whirlwind.warc.wet.gz", 1, {"not_a_page": 1}),
        ("whirlwind.warc.wat.gz", 0, {"not_a_page": 2}),
        ("sample-0000.warc.gz", 22, {"not_a_page": 24, "not_html": 2}),
        ("sample-0001.warc.gz", 15, {"not_a_page": 17, "not_html": 2}),
        ("warcfile.warc.gz", 16, {"not_a_page": 34}),
        ("warcfile.warc", 16, {"not_a_page": 34}),
        ("clueweb-quirk.warc.gz", 29, {"not_a_page": 1}),
        ("clipped.warc.gz", 0, {"truncated_record": 1}),
        ("block-sized-records.warc", 0, {"not_a_page": 3}),
        ("block-sized-records.warc.gz", 0, {"not_a_page": 3}),
        ("qsl.net-encoding-alias.warc.gz", 1, {"not_a_page": 4, "not_html": 2}),
        ("kiwix-with-redirects.warc.gz", 3, {"not_a_page": 51, "http_status": 3, "not_html": 48}),
    ],
)
def test_real_files_are_accounted_for(data_folder, name, kept, drops):
    records = read_once(data_folder(f"web/warc/{name}"))
    assert Counter(drop.rule for _, drop in records if drop) == drops
    assert sum(drop is None for _, drop in records) == kept


def test_one_real_page_and_its_text_from_common_crawl(data_folder):
    """The same page as HTML and as Common Crawl's text of it: nearly the same words."""
    [html] = [d for d, drop in read(data_folder("web/warc/whirlwind.warc.gz"), extractor="all_text") if not drop]
    [text] = [d for d, drop in read_once(data_folder("web/warc/whirlwind.warc.wet.gz")) if not drop]
    assert text.metadata == {name: html.metadata[name] for name in ("url", "date")}
    assert html.metadata["url"] == "https://an.wikipedia.org/wiki/Escopete"
    assert html.metadata["date"] == "2024-05-18T01:58:10Z"
    ours, theirs = Counter(html.text.split()), Counter(text.text.split())
    assert (ours & theirs).total() >= 0.9 * max(ours.total(), theirs.total())


def test_an_old_japanese_page_is_decoded_by_its_declared_charset(data_folder):
    texts = [d.text for d, drop in read_once(data_folder("web/warc/clueweb-quirk.warc.gz")) if not drop]
    assert sum(any("ぁ" <= letter <= "ん" for letter in text) for text in texts) >= 25
    assert sum(text.count("\ufffd") for text in texts) < 0.001 * sum(map(len, texts))


def test_a_kept_page(tmp_path):
    [(document, drop)] = read_bytes(tmp_path, page(7))
    assert (document.text, drop) == (TEXT, None)
    assert document.metadata == {
        "url": "http://example.org/7",
        "date": "2026-01-02T03:04:05Z",
        "page": {"title": "t"},
    }


BODY = PAGE % TEXT.encode()


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"WARC-Truncated: length", "length"),
        (b"warc-truncated:  Disconnect ", "disconnect"),
        (b"WARC-Truncated: time\r\nWARC-Segment-Number: 1", "time"),
        (b"WARC-Segment-Number: 1", "segment"),
        (b"WARC-Truncated:", None),
        (b"X-Truncated: length", None),
    ],
)
def test_a_page_that_the_crawler_cut_says_why(tmp_path, header, reason):
    cut = record(http(BODY[:-20]), content_type=b"application/http\r\n" + header)
    [(document, drop)] = read_bytes(tmp_path, cut)
    assert (document.text, drop) == (TEXT, None)
    assert document.metadata.get("truncated") == reason


def test_the_rest_of_a_segmented_record_is_no_page(tmp_path):
    rest = record(b"</p></html>", kind=b"continuation", content_type=b"application/http\r\nWARC-Segment-Number: 2")
    assert only(tmp_path, rest) == Drop("not_a_page", "continuation")


def test_the_report_has_the_number_of_pages_that_the_crawler_cut(tmp_path):
    links = b"<ul>" + b"<li><a href=/>Home</a></li><li><a href=/s>Sign in</a></li>" * 9 + b"</ul>"
    paragraphs = b"<p>A sentence of some words, and more of them, for readers of the mill's history.</p>" * 9
    body = b"<html><body><nav>" + links + b"</nav><main>" + paragraphs + b"</main><footer>" + links + b"</footer>"
    whole, cut = http(body), b"application/http\r\nWARC-Truncated: length"
    (tmp_path / "a.warc").write_bytes(
        record(whole) + 2 * record(whole, content_type=cut) + record(b"", content_type=cut)
    )
    ran = headrace_here("run", "source=warc", f"source.paths={tmp_path}/a.warc", "until=texts", f"root={tmp_path}/runs")
    assert ran.returncode == 0, ran.stderr
    [report] = (tmp_path / "runs" / "report").glob("*/report.html")
    assert "2 kept pages are not whole: the crawler cut them" in report.read_text()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (record(http(BODY, status=b"404 Not Found")), Drop("http_status", "404")),
        (record(http(BODY, status=b"301 Moved")), Drop("http_status", "301")),
        (record(http(BODY, content_type=b"image/png")), Drop("not_html", "image/png")),
        (record(http(BODY, content_type=b"TEXT/HTML ;charset=x-none")), TEXT),
        (record(http(BODY, content_type=b"application/xhtml+xml")), TEXT),
        (record(http(b"\r\n<!-- c -->\r\n" + BODY, content_type=b"")), TEXT),
        (record(http(b"%PDF-1.4", content_type=b"")), Drop("not_html", "")),
        (record(http(b"\x00\x01", content_type=b"unk")), Drop("not_html", "unk")),
        (record(http(b"<html></html>")), Drop("no_text", "")),
        (record(http(b"")), Drop("no_text", "")),
        (record(http(b"<div>" * 2000)), Drop("too_nested", "more than 1000")),
        (record(BODY, kind=b"resource", content_type=b"text/html"), TEXT),
        (record(b"203.0.113.1", content_type=b"text/dns"), Drop("not_a_page", "response without HTTP")),
        (record(b"x: y", kind=b"metadata", content_type=b"application/warc-fields"), Drop("not_a_page", "metadata")),
        (record(http(b""), kind=b"revisit"), Drop("not_a_page", "revisit")),
        (record(b"  plain text \n", kind=b"conversion", content_type=b"text/plain"), "plain text"),
        (record(b" \n", kind=b"conversion", content_type=b"text/plain"), Drop("no_text", "")),
        (record(b"garbage that is no HTTP"), Drop("http_status", "")),
    ],
)  # fmt: skip
def test_kinds_of_records(tmp_path, data, expected):
    assert only(tmp_path, data) == expected


HTTP = http(BODY)
IDENTIFIED = b"application/http\r\nWARC-Identified-Payload-Type: "
WET = "Привет, мир"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # headers of the record
        (record(HTTP).replace(b"WARC-Type", b"warc-type").replace(b"Content-", b"content-"), TEXT),
        (record(HTTP).replace(b"WARC-Type: response", b"WARC-TYPE:Response"), TEXT),
        (record(HTTP, content_type=b"APPLICATION/HTTP;msgtype=response"), TEXT),
        (record(HTTP, content_type=b""), TEXT),
        (record(HTTP).replace(b"WARC-Date", b"X: a\r\n b: c\r\nWARC-Date"), TEXT),
        (record(BODY, content_type=b""), Drop("not_a_page", "response without HTTP")),
        (record(HTTP, kind=b"continuation"), Drop("not_a_page", "continuation")),
        (record(HTTP, kind=b"request"), Drop("not_a_page", "request")),
        (record(HTTP, kind=b"Revisit"), Drop("not_a_page", "Revisit")),
        # the HTTP message
        (record(HTTP.replace(b"HTTP/1.1 200 OK", b"HTTP/2 200")), TEXT),
        (record(HTTP.replace(b"HTTP/1.1 200 OK", b"http/1.0 200  ")), TEXT),
        (record(HTTP.replace(b"HTTP/1.1 200 OK", b"ICY 200 OK")), TEXT),
        (record(HTTP.replace(b"\r\n", b"\n")), TEXT),
        (record(b"\r\n" + HTTP), TEXT),
        (record(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HTTP), TEXT),
        (record(b"HTTP/1.1 100 Continue\r\n\r\n"), Drop("http_status", "100")),
        (record(b"HTTP/1.1 200 OK\r\n\r\n" + BODY), TEXT),
        (record(b"HTTP/1.1 200 OK\r\nContent-Type: text/html"), Drop("no_text", "")),
        (record(HTTP.replace(b"200 OK", b"204 No Content")), Drop("http_status", "204")),
        (record(HTTP.replace(b"200 OK", b"206 Partial Content")), Drop("http_status", "206")),
        (record(HTTP.replace(b"200 OK", b"2000")), Drop("http_status", "")),
        (record(HTTP.replace(b"Content-Type:", b"content-type :")), TEXT),
        # content types
        (record(http(BODY, b"text/html, text/html; charset=utf-8")), TEXT),
        (record(http(BODY, b"text/html charset=utf-8")), TEXT),
        (record(http(BODY, b"text/plain", extra=b"Content-Type: text/html\r\n")), TEXT),
        (record(http(BODY, b"text/html", extra=b"Content-Type: image/png\r\n")), Drop("not_html", "image/png")),
        (record(http(BODY, b"application/vnd.wap.xhtml+xml")), TEXT),
        (record(http(BODY, b"text/xml")), TEXT),
        (record(http(b"<?xml version='1.0'?>" + BODY, b"application/xml")), TEXT),
        (record(http(b"<rss></rss>", b"text/xml")), Drop("not_html", "text/xml")),
        (record(http(b"<svg></svg>", b"image/svg+xml")), Drop("not_html", "image/svg+xml")),
        (record(http(BODY, b"text/plain; charset=utf-8")), TEXT),
        (record(http(b"<p>words", b"text/plain")), Drop("not_html", "text/plain")),
        (record(http(b"words", b"text/plain")), Drop("not_html", "text/plain")),
        (record(http(b"words, no tag", b"text/html")), "words, no tag"),
        (record(http(BODY, b"binary/octet-stream")), TEXT),
        (record(http(b"\xef\xbb\xbf" + BODY, b"*/*")), TEXT),
        (record(http(b"words", b"application/octet-stream")), Drop("not_html", "application/octet-stream")),
        (record(http(b"words", b""), content_type=IDENTIFIED + b"text/html"), "words"),
        (record(http(BODY, b""), content_type=IDENTIFIED + b"image/png"), Drop("not_html", "image/png")),
        (record(http(BODY), content_type=IDENTIFIED + b"image/png"), TEXT),
        (record(http(b"{}", b"application/json")), Drop("not_html", "application/json")),
        (record(http(b'{"a": 1}')), Drop("not_html", "application/json")),
        (record(http(b"<rss></rss>")), Drop("not_html", "application/rss+xml")),
        # binary bodies
        (record(http(b"%PDF-1.7 \xff")), Drop("binary", "application/pdf")),
        (record(http(gzip.compress(b"%PDF-1.7 \xff"), extra=b"Content-Encoding: gzip\r\n")),
         Drop("binary", "application/pdf")),
        (record(http(gzip.compress(BODY))), TEXT),
        (record(http(gzip.compress(bytes(300)))), Drop("no_text", "")),
        (record(http("мир".encode("cp1251"), b"text/html; charset=utf-8")),
         Drop("undecodable", "100.0% of the characters")),
        (record(http(b"\xb0\xa1", b"text/html; charset=iso-2022-kr")),
         Drop("undecodable", "100.0% of the characters")),
        # codings: each kind in test_warc_payload.py
        (record(http(brotli.compress(BODY), extra=b"content-encoding: BR\r\n")), TEXT),
        (record(http(b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), extra=b"Transfer-Encoding: chunked\r\n")), TEXT),
        (record(http(b"\x01\x02\x03", extra=b"Content-Encoding: sdch\r\n")), Drop("content_encoding", "sdch")),
        # resource and conversion
        (record("мир".encode("koi8-r"), b"resource", content_type=b"text/html; charset=koi8-r"), "мир"),
        (record(BODY, b"resource", content_type=b"text/dns"), Drop("not_html", "text/dns")),
        (record(HTTP, b"resource"), TEXT),
        (record(WET.encode(), b"conversion", content_type=b"text/plain"), WET),
        (record(WET.encode(), b"conversion", content_type=b""), WET),
        (record(WET.encode("koi8-r"), b"conversion", content_type=b"text/plain; charset=koi8-r"), WET),
        (record(WET.encode(), b"conversion", content_type=b"text/html"), WET),
        (record(b"<p> is a tag\nof HTML", b"conversion", content_type=b"text/plain"), "<p> is a tag\nof HTML"),
        (record(BODY, b"conversion", content_type=b"text/plain"), TEXT),
        (record(BODY, b"conversion", content_type=b"text/html"), TEXT),
        (record(b"\x89PNG\r\n\x1a\n", b"conversion", content_type=b"image/png"), Drop("not_html", "image/png")),
        (record(b"\x89PNG\r\n\x1a\n", b"conversion", content_type=b"text/plain"), Drop("binary", "image/png")),
        (record(b"<title>x</title>\n" + BODY, b"conversion", content_type=b"text/plain"), TEXT),
        (record(b"<p>words", b"conversion", content_type=b"text/html"), "words"),
    ],
)  # fmt: skip
def test_kinds_that_crawlers_write(tmp_path, data, expected):
    assert only(tmp_path, data) == expected


def test_a_small_record_that_expands_beyond_the_limit(tmp_path):
    bomb = record(http(gzip.compress(b"<p>" + b"x" * 50_000_000), extra=b"Content-Encoding: gzip\r\n"))
    assert only(tmp_path, bomb, record_bytes=1_000_000) == Drop("record_too_large", "more than 1000000")


def test_a_url_that_is_no_utf8(tmp_path):
    [(document, _)] = read_bytes(tmp_path, record(http(BODY), url=b"http://example.org/\xe9\x00"))
    assert document.metadata["url"].startswith("http://example.org/")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_urls_of_a_store(compress):
    name = "memory://crawl/00.warc.gz"
    with fsspec.open(name, "wb") as stream:
        stream.write(b"".join(compress(page(number)) for number in range(3)))
    source = Warc(paths=("memory://crawl",))
    assert [file.name for file in source.files()] == ["00.warc.gz"]
    found = [document.id for document, drop in source.read("00.warc.gz") if not drop]
    assert found == [f"00.warc.gz:{number}" for number in range(3)]


def test_damage_is_counted_and_the_rest_is_read(tmp_path):
    members = [gzip.compress(page(number)) for number in range(3)]
    damaged = bytearray(members[1])
    damaged[30:60] = bytes(30)
    got = read_bytes(tmp_path, members[0] + bytes(damaged) + members[2])
    assert [drop and drop.rule for _, drop in got] == [None, "broken_compression", None]
    assert got[2][0].metadata["url"] == "http://example.org/2"


DAMAGE = st.tuples(
    st.binary(max_size=40),
    st.integers(0, 300),
    st.sampled_from([b"", b"Content-Encoding: gzip\r\n", b"Transfer-Encoding: chunked\r\n"]),
)


@settings(max_examples=5)
@given(damages=st.lists(DAMAGE, min_size=5, max_size=10))
def test_no_record_raises_whatever_it_holds(damages):
    warc, blocks = Warc(paths=("x",)), []
    for data, at, head in damages:
        block = http(BODY, extra=head)
        blocks.append(record(block[:at] + data + block[at + len(data) :])[:-4])
    found = [warc._document("x:0", WarcBytes(block)) for block in blocks]
    assert len(found) == len(blocks)
    assert all(bool(document.text) == (drop is None) for document, drop in found)


def test_real_pages_keep_what_must_be_kept(real_pages, tmp_path):
    """30 pages of WCXB through a WARC: most sentences that must be extracted are there, whole on one line."""
    pages = real_pages[:30]
    blocks = (record(http(p["html"].encode(), b"text/html; charset=utf-8"), url=p["url"].encode()) for p in pages)
    (tmp_path / "a.warc.gz").write_bytes(b"".join(gzip.compress(block, 1) for block in blocks))
    records = read(tmp_path / "a.warc.gz")
    assert [d.metadata["url"] for d, _ in records] == [page["url"] for page in pages]
    found = [
        any(snippet in line for line in document.text.split("\n"))
        for (document, _), page in zip(records, pages, strict=True)
        for snippet in page["snippets_in"]
    ]
    assert sum(found) >= 0.8 * len(found)


# The boundaries of records, in whole and in broken files.


CODECS = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.compress, "bz2": bz2.compress}
WHOLE = [page(number) for number in range(4)]


def outcome(data: bytes, record_bytes: int = 10_000) -> list[str]:
    """Returns the number of the page of each record, or its fault."""
    got = []
    for found in warc_records(pieces(io.BytesIO(data)), record_bytes):
        if found.fault is None:
            number = re.search(rb"page (\d+)", found.data)
            got.append(number[1].decode() if number else "other")
        else:
            assert found.data == b""
            got.append(found.fault.rule)
    return got


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_comes_as_written(codec):
    data = b"".join(CODECS[codec](part) for part in WHOLE)
    found = list(warc_records(pieces(io.BytesIO(data)), 10_000))
    assert [record.data + b"\r\n\r\n" for record in found] == WHOLE


@pytest.mark.parametrize("codec", CODECS)
def test_one_member_may_hold_the_whole_file(codec):
    assert outcome(CODECS[codec](b"".join(WHOLE))) == ["0", "1", "2", "3"]


def test_a_record_may_be_cut_into_many_members():
    data = b"".join(WHOLE)
    blocks = b"".join(gzip.compress(data[start : start + 100]) for start in range(0, len(data), 100))
    assert outcome(blocks) == ["0", "1", "2", "3"]


def test_line_ends_may_be_lf_alone():
    lines = [part.replace(b"\r\n", b"\n") for part in WHOLE]
    shorter = [re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % _block_bytes(part), part) for part in lines]
    assert outcome(b"".join(shorter)) == ["0", "1", "2", "3"]


def _block_bytes(part: bytes) -> int:
    return len(part) - part.index(b"\n\n") - 2 - len(b"\n\n")


@pytest.mark.parametrize(
    "empty",
    [b"", b"\r\n\r\n", gzip.compress(b""), zstandard.compress(b"")],
    ids=["no-bytes", "blank-lines", "gzip", "zstd"],
)
def test_nothing_holds_no_record(empty):
    assert outcome(empty) == []


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("length", [b"99999", b"9999"])
def test_a_length_that_is_too_large_costs_one_record(codec, length):
    """One compressed member holds one record. A too large length in a plain file looks like a large record."""
    wrong = record(http(b"page 1"), length=length)
    got = outcome(b"".join(map(CODECS[codec], [WHOLE[0], wrong, *WHOLE[2:]])))
    if codec != "plain":
        assert got == ["0", "truncated_record", "2", "3"]
    elif length == b"9999":
        assert got == ["0", "wrong_length", "2", "3"]
    else:
        assert got == ["0", "truncated_record"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("length", [b"3", b"-1", b"x", b"", b"1" * 30])
def test_a_length_that_is_too_small_or_none_costs_one_record(codec, length):
    wrong = record(http(b"page 1"), length=length or b" ")
    rule = "wrong_length" if length == b"3" else "broken_record"
    assert outcome(b"".join(map(CODECS[codec], [WHOLE[0], wrong, *WHOLE[2:]]))) == ["0", rule, "2", "3"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_over_the_limit_is_passed_and_named(codec):
    large = record(http(b"page 1" * 10_000), url=b"http://large/")
    data = b"".join(map(CODECS[codec], [WHOLE[0], large, *WHOLE[2:]]))
    assert outcome(data) == ["0", "record_too_large", "2", "3"]
    found = list(warc_records(pieces(io.BytesIO(data)), 10_000))[1]
    assert (found.fault, found.url) == (Drop("record_too_large", str(len(http(b"page 1" * 10_000)))), "http://large/")


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_between_records_is_one_fault(codec):
    data = b"".join(map(CODECS[codec], [WHOLE[0], b"no record\nat all\n" * 5000, *WHOLE[2:]]))
    assert outcome(data) == ["0", "broken_record", "2", "3"]


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2"])
def test_raw_garbage_between_members_is_one_fault(codec):
    one, two, *rest = map(CODECS[codec], WHOLE)
    assert outcome(one + b"garbage" * 1000 + two + b"".join(rest)) == ["0", "broken_compression", "1", "2", "3"]


@pytest.mark.parametrize(
    "data",
    [b"\x00\xff" * 5000, b"hello\n" * 5000, gzip.compress(b"hello\n" * 5000), b"x"],
    ids=["binary", "text", "gzip", "one-byte"],
)
def test_a_file_that_is_no_warc_is_one_fault(data):
    assert outcome(data) == ["broken_record"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_cut_anywhere_loses_only_what_is_behind(codec):
    parts = [CODECS[codec](part) for part in WHOLE]
    data, ends = b"".join(parts), [len(b"".join(parts[: count + 1])) for count in range(4)]
    for cut in range(0, len(data), 7):
        whole = sum(end <= cut for end in ends)
        got = outcome(data[:cut])
        assert got[:whole] == [str(number) for number in range(whole)]
        assert len(got) <= whole + 1


def test_a_header_without_end_is_a_fault():
    data = WHOLE[0] + b"WARC/1.0\r\nWARC-Type: response\r\n" + b"X: y\r\n" * 20_000 + b"\r\n" + WHOLE[1]
    assert outcome(data) == ["0", "broken_record", "1"]


@given(data=st.data(), codec=st.sampled_from(sorted(CODECS)))
def test_random_damage_never_raises_and_spares_the_first_and_last(data, codec):
    middle = bytearray(CODECS[codec](WHOLE[1]) + CODECS[codec](WHOLE[2]))
    start = data.draw(st.integers(0, len(middle) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=60))
    middle[start : start + len(noise)] = noise
    got = outcome(CODECS[codec](WHOLE[0]) + bytes(middle) + CODECS[codec](WHOLE[3]))
    assert got[0] == "0"
    assert len(got) <= 6
    if codec in ("gzip", "bz2"):
        assert got[-1] == "3"


def test_records_that_a_wrong_length_swallowed_are_read_after_all():
    """The length leads into the middle of record 3 of a plain file."""
    block = http(b"page 1")
    wrong = record(block, length=b"%d" % (len(block) + len(WHOLE[2]) + 50))
    assert outcome(WHOLE[0] + wrong + WHOLE[2] + WHOLE[3]) == ["0", "wrong_length", "2", "3"]


def test_damage_that_shows_only_behind_a_record_costs_it():
    """The checksum lies in another block of the file than the last bytes of the record."""
    marked = [WHOLE[0], Mark.MEMBER_END, WHOLE[1], Mark.DAMAGE, WHOLE[2], Mark.MEMBER_END]
    faults = [record.fault and record.fault.rule for record in warc_records(iter(marked), 10_000)]
    assert faults == [None, "broken_compression", None]


def test_a_wrong_checksum_costs_the_record_that_it_belongs_to():
    members = [bytearray(gzip.compress(part)) for part in WHOLE]
    members[1][-7] ^= 1
    assert outcome(b"".join(members)) == ["0", "broken_compression", "2", "3"]


@pytest.mark.parametrize("number", [3, 2000])
def test_headers_without_end_are_found_one_by_one(number):
    """And in a time that does not grow with the square of their number."""
    data = WHOLE[0] + b"WARC/1.0\r\n" * number * 10 + b"\r\n" + WHOLE[1]
    got = outcome(data)
    assert (got[0], got[-1]) == ("0", "1")
    assert set(got[1:-1]) == {"broken_record"}
    assert len(got) == number * 10 + 2


@pytest.mark.parametrize("number", [3, 2000])
def test_each_length_may_swallow_all_that_follows(number):
    wrong = b"WARC/1.0\r\nContent-Length: 9000\r\n\r\n"
    got = outcome(wrong * number + b"x" * 8000 + b"\n" + WHOLE[0] + WHOLE[1])
    assert got[-2:] == ["0", "1"]
    assert set(got[:-2]) == {"wrong_length"}


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_line_ends_without_end_are_not_held(codec):
    """A record, then 60 MB of empty lines that decompress from next to nothing, and another record."""
    tracemalloc.start()
    got = outcome(CODECS[codec](WHOLE[0] + b"\r\n" * 30_000_000 + WHOLE[1]))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == ["0", "1"]
    assert peak_bytes < 200_000_000
