"""Malformed input files, made from a seed: the same number and seed give the same bytes.

    good records ─┬─ odd records ── layout (plain, members, one member, blocks, twice) ── damage ──> Malformed
                  └─ the leading ones that no damage reaches must be read whole: ``intact``

Odd records are well-formed except where a reader may fail: lengths, headers, encodings, nesting, types, bombs. Damage
is blind: bits, cuts, holes, repeated ranges and ranges from elsewhere, anywhere in the file.
"""

import bz2
import functools
import gzip
import lzma
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import brotli
import zstandard

from tests.data_prep.adversarial import hostile_bytes
from tests.data_prep.sources.malformed_bodies import CODINGS, content_type, encoded, odd_body
from tests.data_prep.sources.malformed_html import good_page, odd_page, sentence
from tests.data_prep.sources.malformed_rows import good_line, odd_arrow, odd_line, odd_parquet
from tests.data_prep.sources.warc_bytes import http, record

KINDS = ("warc", "wet", "jsonl", "jsonl_html", "html", "parquet", "arrow")
WEIGHTS = (35, 8, 22, 8, 20, 7, 7)
TABLES = {"parquet": odd_parquet, "arrow": odd_arrow}
LIMIT_BYTES = 1_000_000
"""The readers' ``record_bytes`` for these files: bombs expand to many times as much."""


@dataclass(frozen=True)
class Malformed:
    """One file: which kind of source reads it, how its name ends, and how many leading records must come out whole."""

    kind: str
    suffix: str
    data: bytes
    intact: int


def malformed(number: int, seed: int, kinds: Sequence[str] = KINDS) -> Malformed:
    """Input ``number`` of ``seed``, of one of ``kinds``. The text of each intact record i has ``sentence(i)``."""
    chance = Random(f"{seed}:{number}")
    kind = chance.choices(kinds, [WEIGHTS[KINDS.index(kind)] for kind in kinds])[0]
    if kind in TABLES:
        table = TABLES[kind](chance)
        return Malformed(kind, f".{kind}", damage(chance, table)[0] if chance.random() < 0.8 else table, 0)
    if kind == "html":
        good = [] if chance.random() < 0.9 else [good_page(chance, 0)]
        file = _file(chance, kind, good, [] if good else [chance.choice([odd_page, odd_page, odd_body])(chance)])
        return replace(file, intact=0)  # the file is the record, and its end may be missing
    make, odd = RECORDS[kind]
    good = [make(chance, number) for number in range(chance.choice([0, 1, 1, 2, 3]))]
    return _file(chance, kind, good, [odd(chance) for _ in range(chance.choice([0, 1, 1, 2]))])


def _file(chance: Random, kind: str, good: list[bytes], odd: list[bytes]) -> Malformed:
    codec = chance.choice(sorted(CODECS))
    compress = CODECS[codec]
    layout = chance.choice(["members", "members", "one", "blocks", "twice"])
    records = [*good, *odd]
    if codec == "plain" or layout == "members":
        parts = [compress(part) for part in records]
    else:
        whole = b"".join(records)
        step = 1 + len(whole) // chance.choice([3, 30]) if layout == "blocks" else len(whole) or 1
        parts = [b"".join(compress(whole[start : start + step]) for start in range(0, len(whole), step))]
    if layout == "twice" and codec != "plain":
        parts = [compress(b"".join(parts))]
    data = b"".join(parts)
    start = len(data)
    if not odd or chance.random() < 0.6:
        data, start = damage(chance, data)
    apart = len(parts) == len(records) and layout != "twice"
    ends = [sum(map(len, parts[: count + 1])) for count in range(len(good))] if apart else []
    intact = sum(end <= start for end in ends)
    return Malformed(kind, f".{SUFFIXES.get(kind, kind)}{CODEC_SUFFIXES[codec]}", data, intact)


def damage(chance: Random, data: bytes) -> tuple[bytes, int]:
    """Returns ``data`` with one to three wrong spots, and the offset of the first changed byte."""
    first = len(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        start = chance.randrange(len(data) + 1)
        length = min(chance.choice([1, 1, 4, 30, 500, 20_000]), len(data) - start)
        hurt = chance.choice(DAMAGES)
        data = data[:start] + hurt(chance, data[start : start + length], data) + data[start + length :]
        first = min(first, start)
    return data, first


def _flipped(chance: Random, part: bytes, whole: bytes) -> bytes:
    return bytes(byte ^ (1 << chance.randrange(8)) if chance.random() < 0.3 else byte for byte in part)


def _cut(chance: Random, part: bytes, whole: bytes) -> bytes:
    return b""


def _zeroed(chance: Random, part: bytes, whole: bytes) -> bytes:
    return bytes(len(part))


def _doubled(chance: Random, part: bytes, whole: bytes) -> bytes:
    return part * chance.choice([2, 3, 50])


def _noisy(chance: Random, part: bytes, whole: bytes) -> bytes:
    return part + chance.randbytes(chance.choice([1, 9, 300]))


def _foreign(chance: Random, part: bytes, whole: bytes) -> bytes:
    start = chance.randrange(len(whole) + 1)
    return whole[start : start + chance.choice([10, 200, 5000])]


def _magic(chance: Random, part: bytes, whole: bytes) -> bytes:
    return chance.choice(MAGICS) + part


def _junk(chance: Random, part: bytes, whole: bytes) -> bytes:
    return part + hostile_bytes(chance, 20_000)


DAMAGES = (_flipped, _flipped, _cut, _zeroed, _doubled, _noisy, _foreign, _magic, _junk)
MAGICS = (
    b"\x1f\x8b\x08", b"\x1f\x8b\x08\x1f", b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8, b"BZh9",
    b"\xfd7zXZ\0", b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd\x00\xa8", b"\x5d\x2a\x4d\x18\xff\xff\xff\x7f", b"\x50\x2a\x4d\x18\x05\0\0\0", b"WARC/1.0\r\n",
    b"\nWARC/1.1\r\n", b"\r\n\r\n", b"\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"PAR1", b"{", b"<!--",
    b"ARROW1", b"filedesc://",
)  # fmt: skip


def _gzip_with_headers(data: bytes) -> bytes:
    """A gzip member with a name, a comment and a large extra field."""
    body = gzip.compress(data, mtime=0)[10:]
    return b"\x1f\x8b\x08\x1c\0\0\0\0\0\xff\xff\xff" + bytes(65535) + b"n" * 3000 + b"\0" + b"c" * 3000 + b"\0" + body


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": functools.partial(gzip.compress, compresslevel=1, mtime=0),
    "gzip_headers": _gzip_with_headers,
    "zstd": zstandard.ZstdCompressor(level=1, write_checksum=True).compress,
    "zstd_sizeless": zstandard.ZstdCompressor(level=1, write_content_size=False).compress,
    "bz2": functools.partial(bz2.compress, compresslevel=1),
    "xz": functools.partial(lzma.compress, preset=0),
}
CODEC_SUFFIXES = {
    "plain": "", "gzip": ".gz", "gzip_headers": ".gz", "zstd": ".zst", "zstd_sizeless": ".zst", "bz2": ".bz2",
    "xz": ".xz",
}  # fmt: skip
SUFFIXES = {"wet": "warc.wet", "jsonl_html": "jsonl"}


@functools.cache
def bomb(size: int, codec: str) -> bytes:
    """Few bytes that expand to ``size``."""
    codings = {**CODECS, "deflate": zlib.compress, "br": functools.partial(brotli.compress, quality=3)}
    return codings[codec](b"<p>" + b"x" * size)


def _good_response(chance: Random, number: int) -> bytes:
    return record(http(good_page(chance, number)), url=b"http://example.org/%d" % number)


def _odd_response(chance: Random) -> bytes:
    """A record that is wrong in its header, its HTTP message or its page."""
    body = chance.choice([odd_page, odd_page, odd_body])(chance)
    if chance.random() < 0.01:
        body = bomb(chance.choice([3, 40]) * LIMIT_BYTES, chance.choice(["gzip", "deflate", "br", "zstd", "bz2"]))
    elif chance.random() < 0.4:
        body = encoded(chance, body)
    coding = b"Content-Encoding: " + chance.choice(CODINGS) + b"\r\n"
    extra = chance.choice([b"", coding, b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n"])
    if extra.startswith(b"Transfer") and chance.random() < 0.7:
        size = chance.choice([b"%x" % len(body), b"fffffff", b"0", b"-1", b"", b"%x;x=y" % (len(body) // 2), b"zz"])
        body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
    elif chance.random() < 0.05:
        extra = chance.choice([b"X: " + b"y" * 100_000 + b"\r\n", b"X: y\r\n" * 20_000, b"\0\r\n", b": \r\n", b"X\r\n"])
    kind = b"text/html" if chance.random() < 0.3 else content_type(chance)
    status = chance.choice([b"200 OK"] * 8 + [b"200", b"", b"999999999999", b"OK 200", b"-1", b"100 Continue\r\n\r\n"])
    block = http(body, kind, status, extra)
    if chance.random() < 0.05:
        block = chance.choice([block[9:], block.replace(b"\r\n", b"\n"), record(block), b"\r\n" * 50 + block, b""])
    return _odd_record(chance, block)


def _odd_record(chance: Random, block: bytes) -> bytes:
    kind = chance.choice([b"response"] * 6 + [b"resource", b"revisit", b"conversion", b"nothing", b"", b"\xff\0"])
    lengths = [b"-1", b"", b"x", b"9" * 18, b"9" * 30, b"0", b"1", b"%d" % (len(block) * 2), b"%d" % (len(block) // 2)]
    length = chance.choice(lengths) if chance.random() < 0.3 else None
    url = chance.choice(
        [b"http://example.org/\xe9", b"", b"<>", b"http://" + b"u" * 5000, b"\0", b"http://\xed\xa0\x80/"]
    )
    types = [b"application/http; msgtype=response"] * 6 + [
        b"APPLICATION/HTTP",
        content_type(chance),
        b"",
        b"text/plain",
    ]
    whole = record(block, kind, url, chance.choice(types), length)
    if chance.random() < 0.1:
        whole = whole.replace(b"WARC-T", b"warc-t").replace(b"Content-", b"content-")
    head = chance.random()
    if head < 0.1:
        line = chance.choice([
            b"X: " + b"y" * 70_000 + b"\r\n", b"X: y\r\n" * 12_000, b" folded\r\n", b"Content-Length: 3\r\n",
            b"no colon\r\n",
            b"\0\r\n", b"\r\n", b"\n", b"WARC-Type: response\r\n" * 3, b"WARC/1.0\r\n",
        ])  # fmt: skip
        whole = whole.replace(b"WARC-Date", line + b"WARC-Date", 1)
    elif head < 0.15:
        whole = whole.replace(b"WARC/1.1", chance.choice([b"WARC/9.9", b"WARC/", b"WARC/1", b"warc/1.0", b"ARC/1.0"]))
    elif head < 0.2:
        whole = whole.rstrip(b"\r\n") + chance.choice([b"", b"\r\n", b"\n", b"\r\n" * 3000])
    elif head < 0.203:
        size = chance.choice([3, 60]) * LIMIT_BYTES
        whole = record(b"x" * size, url=url)
    return whole


def _good_conversion(chance: Random, number: int) -> bytes:
    return record(sentence(number).encode(), b"conversion", b"http://example.org/%d" % number, b"text/plain")


def _odd_conversion(chance: Random) -> bytes:
    return _odd_record(
        chance,
        chance.choice([odd_page(chance), odd_body(chance), chance.randbytes(500), b"\0" * 1000, b"\xed\xa0\x80"]),
    )


RECORDS: dict[str, tuple[Callable[[Random, int], bytes], Callable[[Random], bytes]]] = {
    "warc": (_good_response, _odd_response),
    "wet": (_good_conversion, _odd_conversion),
    "jsonl": (functools.partial(good_line, "text"), functools.partial(odd_line, "text", LIMIT_BYTES)),
    "jsonl_html": (functools.partial(good_line, "html"), functools.partial(odd_line, "html", LIMIT_BYTES)),
}
