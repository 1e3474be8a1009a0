"""Bodies in codings that their headers name, do not name, or name wrongly; facts of a page that headers state."""

import functools
import gzip
import zlib

import brotli
import pytest
import zstandard

from headrace.data_prep.document import Drop
from headrace.data_prep.sources.warc_payload import decoded_body, with_http
from tests.data_prep.sources.warc_bytes import PAGE

BODY = PAGE % b"page 7, with a few more words"
PLAIN = b"Words without a tag, as some servers send them. " * 4
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 4
LIMIT = 1_000_000


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def chunked(data: bytes, size: int = 20, extension: bytes = b"") -> bytes:
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts) + b"0\r\n\r\n"


CODINGS = {
    "gzip": functools.partial(gzip.compress, mtime=0), "x-gzip": functools.partial(gzip.compress, mtime=0),
    "deflate": zlib.compress, "br": functools.partial(brotli.compress, quality=4), "zstd": zstandard.compress,
}  # fmt: skip


@pytest.mark.parametrize("body", [BODY, PLAIN, PDF, b"<p>x", b"x", b""])
@pytest.mark.parametrize("coding", CODINGS)
def test_each_coding(coding, body):
    assert decoded_body(CODINGS[coding](body), [coding], [], LIMIT) == body


@pytest.mark.parametrize("body", [BODY, PLAIN, PDF])
def test_deflate_without_the_header_of_zlib(body):
    assert decoded_body(raw_deflate(body), ["deflate"], [], LIMIT) == body


@pytest.mark.parametrize("coding", [*CODINGS, "compress", "sdch", "unheard-of"])
def test_text_that_is_in_no_coding_is_left_as_it_is(coding):
    """Whatever its first letter: raw deflate has no signature, and some letters are the beginning of one."""
    for letter in (bytes([byte]) for byte in range(0x20, 0x7F)):
        for text in (letter + PLAIN, letter + b" is short", letter * 100):
            assert decoded_body(text, [coding], [], LIMIT) == text


@pytest.mark.parametrize(
    ("headers", "encode"),
    [
        (["GZip"], ["gzip"]), ([" gzip "], ["gzip"]), (['"gzip"'], ["gzip"]), (["gzip,"], ["gzip"]),
        (["identity"], []), (["none"], []), (["utf-8"], []), ([""], []), (["identity, gzip"], ["gzip"]),
        (["gzip, gzip"], ["gzip", "gzip"]), (["gzip", "gzip"], ["gzip", "gzip"]), (["gzip, br"], ["gzip", "br"]),
        (["br, gzip"], ["br", "gzip"]), (["deflate", "br"], ["deflate", "br"]), (["gzip, gzip"], ["gzip"]),
        (["br"], ["gzip"]), (["deflate"], ["gzip"]), (["gzip"], ["zstd"]), ([], ["gzip"]), ([], ["zstd", "gzip"]),
    ],
)  # fmt: skip
def test_lists_and_wrong_names(headers, encode):
    body = BODY
    for coding in encode:
        body = CODINGS[coding](body)
    assert decoded_body(body, headers, [], LIMIT) == BODY


@pytest.mark.parametrize("name", ["gzip", "deflate", "br"])
@pytest.mark.parametrize("transfer", ["chunked", "CHUNKED", "gzip, chunked"])
def test_chunks(name, transfer):
    body = CODINGS[name](BODY)
    if transfer.startswith("gzip"):
        body = gzip.compress(body)
    assert decoded_body(chunked(body), [name], [transfer], LIMIT) == BODY
    assert decoded_body(body, [name], [transfer], LIMIT) == BODY, "the crawler has joined the chunks"


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (chunked(BODY, extension=b";a=b"), BODY),
        (chunked(BODY, extension=b"  "), BODY),
        (b"\r\n" + chunked(BODY), BODY),
        (chunked(BODY)[:60], BODY[:44]),
        (b"0\r\n\r\n", b"0\r\n\r\n"),
        (b"add\r\nis a word, and no length. " + PLAIN * 100, b"add\r\nis a word, and no length. " + PLAIN * 100),
        (BODY, BODY),
        (b"", b""),
    ],
)
def test_bodies_that_may_be_in_chunks(data, body):
    assert decoded_body(data, [], ["chunked"], LIMIT) == body


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "raw"])
def test_a_body_that_is_cut_off_is_read_up_to_there(name):
    body = b"".join(b"<p>paragraph %d, %d</p>" % (number, number**5) for number in range(20_000))
    encode = raw_deflate if name == "raw" else CODINGS[name]
    found = decoded_body(encode(body)[:-5000], ["deflate" if name == "raw" else name], [], LIMIT)
    assert isinstance(found, bytes)
    assert len(found) > 100_000
    assert body.startswith(found)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b"\x01\x02" + gzip.compress(BODY)[:40], ["gzip"]),
        (b"\x01\x02\x03", ["sdch"]),
        (bytes(range(256)), ["br"]),
        (bytes(range(256)), ["deflate", "compress"]),
    ],
)
def test_bodies_that_cannot_be_decoded(body, names):
    assert decoded_body(body, names, [], LIMIT) == Drop("content_encoding", ", ".join(names))


@pytest.mark.parametrize("name", [*CODINGS, "raw"])
def test_bombs(name):
    encode = raw_deflate if name == "raw" else CODINGS[name]
    body = encode(bytes(30_000_000))
    assert decoded_body(body, ["deflate" if name == "raw" else name], [], LIMIT) == Drop(
        "record_too_large", f"more than {LIMIT}"
    )
    assert decoded_body(gzip.compress(body), [], [], len(body)) in (
        body, Drop("record_too_large", f"more than {len(body)}")
    )  # fmt: skip


URL = "https://a.org/b/c"
CASES = {
    "nothing": ({}, {}, {}),
    "of the page only": ({"title": "a"}, {}, {"title": "a"}),
    "robots of both": (
        {"robots": "noindex"}, {"x-robots-tag": ["NoAI, noindex", "max-snippet: 0"]},
        {"robots": "noindex, noai, max-snippet: 0"},
    ),
    "directives for one robot": (
        {}, {"x-robots-tag": ["googlebot: noindex", "*: none"]},
        {"robots": "none", "robots_by_agent": "googlebot: noindex"},
    ),
    "robots in one header, and on the page": (
        {"robots": "noai", "robots_by_agent": "gptbot: noindex; bing-bot: max-snippet:0"},
        {"x-robots-tag": ["noarchive, GPTBot: noimageai, noai, CCBot: none", "unavailable_after: 5 Jun 2030 15:00:00"]},
        {
            "robots": "noai, noarchive, unavailable_after: 5 jun 2030 15:00:00",
            "robots_by_agent": "gptbot: noindex, noimageai, noai; bing-bot: max-snippet:0; ccbot: none",
        },
    ),
    "licence of a header": (
        {"licence": "https://x.org/m"},
        {"link": ['</style.css>; rel=preload, </l>; title="a, b"; rel="x license"', "<https://x.org/m>; rel=license"]},
        {"licence": "https://x.org/m https://a.org/l"},
    ),
    "addresses of parts": (
        {"licence_of_part": "/p", "licence_mentioned": "/m"}, {},
        {"licence_mentioned": "https://a.org/m", "licence_of_part": "https://a.org/p"},
    ),
    "a date in a directive": (
        {}, {"x-robots-tag": ["unavailable_after: 2030-01-01"]}, {"robots": "unavailable_after: 2030-01-01"},
    ),
    "reservation": (
        {"tdm_reservation": "0"}, {"tdm-reservation": [" 1 "], "tdm-policy": ["/p.json"]},
        {"tdm_policy": "https://a.org/p.json", "tdm_reservation": "1"},
    ),
    "language": ({}, {"content-language": ["de"]}, {"language": "de"}),
    "language of the page": ({"language": "en"}, {"content-language": ["de"]}, {"language": "en"}),
    "addresses": (
        {"canonical": "/d", "licence": "/l https://x.org/m CC0"}, {},
        {"canonical": "https://a.org/d", "licence": "https://a.org/l https://x.org/m CC0"},
    ),
    "an address that is none": ({"canonical": "http://[x"}, {}, {"canonical": "http://[x"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_facts(case):
    facts, headers, expected = CASES[case]
    assert with_http(facts, headers, URL) == expected
